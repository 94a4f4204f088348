//go:build linux

package e2btest_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

// TestMeasured holds an envd against what was measured of envd 0.6.13. With
// E2B_TEST_ENVD_URL it holds a real one against the same.
func TestMeasured(t *testing.T) {
	w := dial(t, e2btest.Options{Space: " "})
	rows := []struct {
		name string
		run  func(*testing.T, wire)
	}{
		{"exit 3", exit3}, {"exit 0", exit0}, {"killed by a signal", killed}, {"unknown user", unknownUser},
		{"unknown cwd", unknownCwd}, {"home missing", homeMissing}, {"cwd not allowed", cwdNotAllowed},
		{"command not found", notFound}, {"argument too long", tooLong}, {"NUL in an argument", nulArgument},
		{"environment exact", envExact}, {"timeout kills one", timeoutKillsOne}, {"timeout of zero", timeoutZero},
		{"timeout malformed", timeoutMalformed}, {"timeout on Connect", timeoutConnect}, {"10 MB exact", tenMB},
		{"keep-alive", keepAlive}, {"held output", heldOutput}, {"signal leaves children", signalLeavesChildren},
		{"stdin", stdin}, {"gone pid", gonePID}, {"cut and connect", cutAndConnect}, {"end retained", endRetained},
		{"many at once", manyAtOnce}, {"stalled reader", stalledReader}, {"wrong content type", wrongType},
		{"bad JSON", badJSON}, {"input to a non-reader", inputToNonReader},
		{"upload and download", uploadDownload}, {"empty file", emptyFile}, {"no file part", noFilePart},
		{"file errors", fileErrors}, {"range", fileRange}, {"gzip on request", gzipOnRequest},
		{"filesystem calls", filesystemCalls}, {"cut upload stays", cutUploadStays}, {"files act as root", filesActAsRoot},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { row.run(t, w) })
	}
	t.Logf("figure: %d measured behaviours held, real envd: %v", len(rows), w.real)
}

func exit3(t *testing.T, w wire) {
	s := w.start(t, sh("echo hi; echo err >&2; exit 3"))
	s.is(t, `{"error":"exit status 3","exitCode":3,"exited":true,"status":"exit status 3"}`, "")
	if s.stdout.String() != "hi\n" || s.stderr.String() != "err\n" || s.pid == 0 {
		t.Errorf("stdout %q, stderr %q, pid %d", &s.stdout, &s.stderr, s.pid)
	}
}

func exit0(t *testing.T, w wire) {
	w.start(t, sh("exit 0")).is(t, `{"exited":true,"status":"exit status 0"}`, "")
}

func killed(t *testing.T, w wire) {
	w.start(t, sh("kill -9 $$")).is(t, `{"error":"signal: killed","exitCode":-1,"status":"signal: killed"}`, "")
	w.start(t, sh("kill -TERM $$")).is(t, `{"error":"signal: terminated","exitCode":-1,"status":"signal: terminated"}`, "")
}

func unknownUser(t *testing.T, w wire) {
	s := w.start(t, sh(":"), "Authorization", "Basic bm9zdWNodXNlcjo=")
	s.is(t, "", "unauthenticated")
	status(t, "stream", s.status, 200)
	contains(t, "message", fmt.Sprint(s.err["message"]), "invalid username: 'nosuchuser'")
}

func unknownCwd(t *testing.T, w wire) {
	msg := sh(":")
	msg["process"].(params)["cwd"] = "/no/such/dir"
	s := w.start(t, msg)
	s.is(t, "", "invalid_argument")
	contains(t, "message", fmt.Sprint(s.err["message"]), "cwd '/no/such/dir' does not exist")
}

func homeMissing(t *testing.T, w wire) {
	msg := sh(":")
	delete(msg["process"].(params), "cwd")
	s := w.start(t, msg, "Authorization", "Basic bm9ib2R5Og==")
	s.is(t, "", "invalid_argument")
	contains(t, "message", fmt.Sprint(s.err["message"]), "cwd '/nonexistent' does not exist")
}

func cwdNotAllowed(t *testing.T, w wire) {
	msg := sh(":")
	msg["process"].(params)["cwd"] = "/root"
	w.start(t, sh("chmod 700 /root"))
	s := w.start(t, msg, "Authorization", "Basic bm9ib2R5Og==")
	s.is(t, "", "invalid_argument")
	contains(t, "message", fmt.Sprint(s.err["message"]), "permission denied")
}

func notFound(t *testing.T, w wire) {
	s := w.start(t, proc("nosuchcommand"))
	if s.end["exitCode"] != 127.0 || s.stderr.Len() == 0 {
		t.Errorf("not found: %v, stderr %q", s.end, &s.stderr)
	}
	if s := w.start(t, proc("/etc/passwd")); s.end["exitCode"] != 126.0 {
		t.Errorf("not executable: %v", s.end)
	}
}

func tooLong(t *testing.T, w wire) {
	s := w.start(t, sh(": "+strings.Repeat("x", 140<<10)))
	s.is(t, "", "invalid_argument")
	message := fmt.Sprint(s.err["message"])
	contains(t, "message", message, "argument list too long")
	if len(message) < 140<<10 {
		t.Errorf("the message of %d bytes does not repeat the command", len(message))
	}
}

func nulArgument(t *testing.T, w wire) {
	s := w.start(t, sh("a\x00b"))
	s.is(t, "", "invalid_argument")
	contains(t, "message", fmt.Sprint(s.err["message"]), "invalid argument")
}

func envExact(t *testing.T, w wire) {
	msg := sh(`printf %s "$V"`)
	want := "ü\n'\"$x\t∂"
	msg["process"].(params)["envs"] = params{"V": want}
	if s := w.start(t, msg); s.stdout.String() != want {
		t.Errorf("got %q, want %q", &s.stdout, want)
	}
}

func timeoutKillsOne(t *testing.T, w wire) {
	s := w.start(t, sh("echo data; sleep 5 & wait; exit 1"), "Connect-Timeout-Ms", "700")
	s.is(t, "", "deadline_exceeded")
	if s.stdout.String() != "data\n" {
		t.Errorf("stdout %q", &s.stdout)
	}
	if alive := w.start(t, sh("pgrep -fx 'sleep 5'")); alive.stdout.Len() == 0 {
		t.Error("the child did not survive")
	}
}

func timeoutZero(t *testing.T, w wire) {
	s := w.start(t, sh("exec sleep 7.25"), "Connect-Timeout-Ms", "0")
	if s.err["code"] != "deadline_exceeded" {
		t.Errorf("error %v", s.err)
	}
	_, list := w.call(t, "/process.Process/List", params{})
	contains(t, "list", fmt.Sprint(list), "sleep 7.25")
}

func timeoutMalformed(t *testing.T, w wire) {
	for _, v := range []string{"abc", "12345678901"} {
		if s := w.start(t, sh(":"), "Connect-Timeout-Ms", v); s.err["code"] != "invalid_argument" {
			t.Errorf("%q: %v", v, s.err)
		}
	}
}

func timeoutConnect(t *testing.T, w wire) {
	resp := w.open(t, "Start", nil, sh("sleep 1.5; exit 6"))
	defer resp.Body.Close()
	var first stream
	first.readStart(t, resp.Body)
	s := w.stream(t, "Connect", params{"process": params{"pid": first.pid}}, "Connect-Timeout-Ms", "300")
	if s.err["code"] != "deadline_exceeded" || s.end != nil {
		t.Errorf("Connect: end %v, error %v", s.end, s.err)
	}
	first.read(t, resp.Body, -1)
	if first.end["exitCode"] != 6.0 {
		t.Errorf("Start: end %v, error %v", first.end, first.err)
	}
}

// readStart reads the start event.
func (s *stream) readStart(t testing.TB, r io.Reader) {
	t.Helper()
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(strings.NewReplacer(`{"event":{"start":{"pid":`, "", " ", "").Replace(string(b)), "%d", &s.pid); err != nil {
		t.Fatalf("start event %q: %v", b, err)
	}
}

func tenMB(t *testing.T, w wire) {
	s := w.start(t, sh("head -c 10485760 /dev/urandom > /tmp/r; sha256sum < /tmp/r >&2; cat /tmp/r"))
	if got := fmt.Sprintf("%x", sha256.Sum256(s.stdout.Bytes())); got != strings.Fields(s.stderr.String())[0] {
		t.Errorf("%d bytes differ", s.stdout.Len())
	}
	if s.largest > 64<<10 {
		t.Errorf("largest frame %d bytes", s.largest)
	}
}

func keepAlive(t *testing.T, w wire) {
	if s := w.start(t, sh("sleep 2.5"), "Keepalive-Ping-Interval", "1"); s.pings != 2 {
		t.Errorf("%d pings in 2.5 s, want 2", s.pings)
	}
}

func heldOutput(t *testing.T, w wire) {
	if s := w.start(t, sh("sleep 1 & exit 4")); s.end["exitCode"] != 4.0 || s.took < 900*time.Millisecond {
		t.Errorf("held: %v after %v", s.end, s.took)
	}
	if s := w.start(t, sh("setsid sleep 1 >/dev/null 2>&1 & exit 4")); s.took > 900*time.Millisecond {
		t.Errorf("not held: took %v", s.took)
	}
}

func signalLeavesChildren(t *testing.T, w wire) {
	resp := w.open(t, "Start", nil, sh("sleep 8.5 >/dev/null 2>&1 & sleep 8.5 >/dev/null 2>&1 & wait"))
	defer resp.Body.Close()
	var s stream
	s.readStart(t, resp.Body)
	time.Sleep(200 * time.Millisecond)
	code, _ := w.call(t, "/process.Process/SendSignal", params{"process": params{"pid": s.pid}, "signal": "SIGNAL_SIGKILL"})
	status(t, "SendSignal", code, 200)
	s.read(t, resp.Body, -1)
	if s.end["exitCode"] != -1.0 {
		t.Errorf("end %v", s.end)
	}
	if left := w.start(t, sh("pgrep -fxc 'sleep 8.5'; pkill -fx 'sleep 8.5'")); left.stdout.String() != "2\n" {
		t.Errorf("children left: %q, want 2", &left.stdout)
	}
}

func stdin(t *testing.T, w wire) {
	msg := sh("od -An -tx1; exit 7")
	msg["stdin"] = true
	resp := w.open(t, "Start", nil, msg)
	defer resp.Body.Close()
	var s stream
	s.readStart(t, resp.Body)
	sel := params{"pid": s.pid}
	code, _ := w.call(t, "/process.Process/SendInput", params{"process": sel, "input": params{"stdin": []byte("a\xff\x00")}})
	status(t, "SendInput", code, 200)
	code, _ = w.call(t, "/process.Process/CloseStdin", params{"process": sel})
	status(t, "CloseStdin", code, 200)
	s.read(t, resp.Body, -1)
	if s.end["exitCode"] != 7.0 || strings.TrimSpace(s.stdout.String()) != "61 ff 00" {
		t.Errorf("end %v, stdout %q", s.end, &s.stdout)
	}
}

func gonePID(t *testing.T, w wire) {
	for _, call := range []string{"SendSignal", "SendInput"} {
		code, v := w.call(t, "/process.Process/"+call, params{"process": params{"pid": 999999}, "signal": "SIGNAL_SIGKILL", "input": params{"stdin": []byte("x")}})
		status(t, call, code, 404)
		if v["code"] != "not_found" {
			t.Errorf("%s: %v", call, v)
		}
	}
}

func cutAndConnect(t *testing.T, w wire) {
	resp := w.open(t, "Start", nil, sh("for i in $(seq 20); do echo line $i; sleep 0.1; done; exit 5"))
	var s stream
	s.readStart(t, resp.Body)
	s.read(t, resp.Body, 5)
	resp.Body.Close()
	time.Sleep(700 * time.Millisecond)
	again := w.stream(t, "Connect", params{"process": params{"pid": s.pid}})
	if again.end["exitCode"] != 5.0 || again.pid != s.pid {
		t.Errorf("after the cut: end %v, pid %d, want %d", again.end, again.pid, s.pid)
	}
	if out := again.stdout.String(); strings.Contains(out, "line 7\n") || !strings.Contains(out, "line 20\n") {
		t.Errorf("after the cut: %q, want the end without what nobody heard", out)
	}
}

func endRetained(t *testing.T, w wire) {
	s := w.start(t, sh("exit 9"))
	again := w.stream(t, "Connect", params{"process": params{"pid": s.pid}})
	if again.end["exitCode"] != 9.0 {
		t.Errorf("end %v, error %v", again.end, again.err)
	}
}

func manyAtOnce(t *testing.T, w wire) {
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			s := w.start(t, sh(fmt.Sprintf("sleep 0.3; echo %d; exit %d", i, i)), "Authorization", "Basic ZGFlbW9uOg==")
			code, _ := s.end["exitCode"].(float64)
			if int(code) != i || s.stdout.String() != fmt.Sprintln(i) {
				t.Errorf("%d: end %v, stdout %q", i, s.end, &s.stdout)
			}
		})
	}
	wg.Wait()
}

func stalledReader(t *testing.T, w wire) {
	resp := w.open(t, "Start", nil, sh("head -c 20000000 /dev/zero; date +%s.%N > /tmp/stalled"))
	defer resp.Body.Close()
	var s stream
	s.readStart(t, resp.Body)
	time.Sleep(500 * time.Millisecond)
	if code, _, _ := w.download(t, "/tmp/stalled"); code == 200 {
		t.Error("the process went on although nobody read")
	}
	s.read(t, resp.Body, -1)
	if s.stdout.Len() != 20000000 || s.end["exited"] != true {
		t.Errorf("%d bytes, end %v", s.stdout.Len(), s.end)
	}
}

func wrongType(t *testing.T, w wire) {
	resp := w.request(t, "POST", "/process.Process/Start", "application/json", nil, strings.NewReader("{}"))
	resp.Body.Close()
	status(t, "JSON on a stream", resp.StatusCode, 415)
	resp = w.request(t, "GET", "/process.Process/Start", "", nil, http.NoBody)
	resp.Body.Close()
	status(t, "GET", resp.StatusCode, 405)
	resp = w.request(t, "POST", "/process.Process/Nothing", "application/json", nil, strings.NewReader("{}"))
	resp.Body.Close()
	status(t, "unknown method", resp.StatusCode, 404)
}

func badJSON(t *testing.T, w wire) {
	resp := w.request(t, "POST", "/process.Process/Start", "application/connect+json", nil, strings.NewReader("\x00\x00\x00\x00\x01{"))
	defer resp.Body.Close()
	s := stream{status: resp.StatusCode}
	s.read(t, resp.Body, -1)
	s.is(t, "", "invalid_argument")
}

func inputToNonReader(t *testing.T, w wire) {
	msg := sh("exec sleep 1")
	msg["stdin"] = true
	resp := w.open(t, "Start", nil, msg)
	defer resp.Body.Close()
	var s stream
	s.readStart(t, resp.Body)
	begin := time.Now()
	code, v := w.call(t, "/process.Process/SendInput", params{"process": params{"pid": s.pid}, "input": params{"stdin": make([]byte, 1<<20)}})
	status(t, "SendInput", code, 500)
	if time.Since(begin) < 500*time.Millisecond {
		t.Errorf("did not block: %v", v)
	}
}
