package e2b

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/agentrl-go/agentrl/internal/endmark"
	"github.com/agentrl-go/agentrl/sandbox"
)

// raw is a frame as it is on the wire.
func raw(flags byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(body)))) + body
}

func dataFrame(stream, text string) string {
	return raw(0, `{"event":{"data":{"`+stream+`":"`+base64.StdEncoding.EncodeToString([]byte(text))+`"}}}`)
}

// read makes the result of a stream whose bytes are text, in which MARK stands
// for the mark.
func read(text func(mark string) string, oneByte bool) (sandbox.Result, error) {
	m := endmark.New(1 << 20)
	argv := m.Argv([]string{"sh"}, "")
	in := strings.NewReader(text(argv[4]))
	r := &run{frames: newFrames(in), mark: m, wait: func(time.Duration) {}}
	if oneByte {
		r.frames = newFrames(iotest.OneByteReader(in))
	}
	return r.result()
}

func TestResult(t *testing.T) {
	const start = `{"event":{"start":{"pid":7}}}`
	tests := []struct {
		name string
		text func(mark string) string
		want sandbox.Result
		err  error
	}{
		{"exit 3", func(m string) string {
			return raw(0, start) + dataFrame("stdout", "out"+m+" 3"+m) + dataFrame("stderr", "err"+m) + raw(0, `{"event":{"end":{"exited":true, "status":"exit status 0"}}}`) + raw(2, "{}")
		}, sandbox.Result{Code: 3, Stdout: []byte("out"), Stderr: []byte("err")}, nil},
		{"spaces and keep-alives", func(m string) string {
			return raw(0, `{ "event": {"start": {"pid": 7}}}`) + raw(0, `{"event":{"keepalive":{}}}`) +
				raw(0, `{"event": {"data": {"stdout": "`+base64.StdEncoding.EncodeToString([]byte("a"+m+" 0"+m))+`"}}}`) + dataFrame("stderr", m) + raw(2, `{"metadata":{}}`)
		}, sandbox.Result{Stdout: []byte("a"), Stderr: []byte{}}, nil},
		{"a mark and then no end", func(m string) string {
			return raw(0, start) + dataFrame("stdout", m+" 0"+m) + dataFrame("stderr", m)
		}, sandbox.Result{Stdout: []byte{}, Stderr: []byte{}}, nil},
		{"wrapper killed", func(string) string {
			return raw(0, start) + raw(0, `{"event":{"end":{"exitCode":-1,"status":"signal: killed"}}}`) + raw(2, "{}")
		}, sandbox.Result{Signal: "SIGKILL", Stdout: []byte{}, Stderr: []byte{}}, nil},
		{"no shell", func(string) string {
			return raw(0, start) + raw(0, `{"event":{"end":{"exitCode":127,"exited":true}}}`) + raw(2, "{}")
		}, sandbox.Result{Code: 127, Stdout: []byte{}, Stderr: []byte{}}, nil},
		{"an end without a mark", func(string) string {
			return raw(0, start) + raw(0, `{"event":{"end":{"exited":true,"status":"exit status 0"}}}`) + raw(2, "{}")
		}, sandbox.Result{}, sandbox.ErrCut},
		{"cut between frames", func(string) string { return raw(0, start) }, sandbox.Result{}, sandbox.ErrCut},
		{"cut in a frame", func(string) string { return raw(0, start)[:9] }, sandbox.Result{}, sandbox.ErrCut},
		{"nothing", func(string) string { return "" }, sandbox.Result{}, sandbox.ErrCut},
		{"half a mark", func(m string) string { return raw(0, start) + dataFrame("stdout", m+" 0"+m[:9]) + raw(2, "{}") }, sandbox.Result{}, sandbox.ErrCut},
		{"an end frame at once", func(string) string { return raw(2, "{}") }, sandbox.Result{}, sandbox.ErrCut},
		{"compressed", func(string) string { return raw(1, start) }, sandbox.Result{}, sandbox.ErrCut},
		{"not JSON", func(string) string { return raw(0, "<html>") }, sandbox.Result{}, sandbox.ErrCut},
		{"a length beyond all", func(string) string { return "\x00\xff\xff\xff\xff" }, sandbox.Result{}, sandbox.ErrCut},
		{"unknown cwd", func(string) string {
			return raw(2, `{"error":{"code":"invalid_argument","message":"cwd '/x' does not exist"}}`)
		}, sandbox.Result{}, sandbox.ErrInvalid},
		{"unknown user", func(string) string {
			return raw(2, `{"error":{"code":"unauthenticated","message":"invalid username: 'x'"}}`)
		}, sandbox.Result{}, sandbox.ErrInvalid},
		{"an error after the start", func(string) string {
			return raw(0, start) + raw(2, `{"error":{"code":"deadline_exceeded","message":"context deadline exceeded"}}`)
		}, sandbox.Result{}, sandbox.ErrCut},
	}
	for _, tt := range tests {
		for _, oneByte := range []bool{false, true} {
			got, err := read(tt.text, oneByte)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || tt.err == nil && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: got %+v, %v; want %+v, %v", tt.name, got, err, tt.want, tt.err)
			}
		}
	}
}

// jsonEvent is what encoding/json alone makes of a message.
func jsonEvent(b []byte) (stdout, stderr []byte, err error) {
	var v struct {
		Event struct {
			Data *struct{ Stdout, Stderr []byte }
		}
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, nil, err
	}
	if v.Event.Data == nil {
		return nil, nil, nil
	}
	return v.Event.Data.Stdout, v.Event.Data.Stderr, nil
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"event":{"data":{"stdout":"aGkK"}}}`))
	f.Add([]byte(`{"event":{"data":{"stderr":"ZXJyCg==","stdout":"aGkK"}}}`))
	f.Add([]byte(`{"event":{"data":{"stdout":"aG\u006bK"}}}`))
	f.Add([]byte(`{"event":{"data":{"stdout":"aG\nkK"}}}`))
	f.Add([]byte(`{"event":{"end":{"exitCode":3, "exited":true}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		stdout, stderr, jerr := jsonEvent(b)
		e, err := parseEvent(bytes.Clone(b))
		if jerr == nil && err == nil && (!bytes.Equal(e.stdout, stdout) || !bytes.Equal(e.stderr, stderr)) {
			t.Errorf("%q: got %q %q, want %q %q", b, e.stdout, e.stderr, stdout, stderr)
		}
		if jerr != nil && err == nil {
			t.Errorf("%q: read, though encoding/json says %v", b, jerr)
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(raw(0, `{"event":{"start":{"pid":7}}}`) + dataFrame("stdout", "x") + raw(2, "{}")))
	f.Add([]byte(raw(2, `{"error":{"code":"not_found"}}`)))
	f.Add([]byte("\x00\x03\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := read(func(string) string { return string(b) }, false)
		if err == nil && res.Code == 0 && res.Signal == "" {
			t.Errorf("%q: success without a mark", b)
		}
	})
}

func FuzzErrorBody(f *testing.F) {
	f.Add(502, []byte(`{"sandboxId":"i1","message":"The sandbox was not found","code":502}`))
	f.Add(404, []byte(`{"code":"not_found","message":"file not found"}`))
	f.Add(503, []byte(`{"code":503,"message":"x","error_code":"sandbox_capacity_unavailable"}`))
	f.Add(500, []byte(`<html>`))
	f.Add(429, []byte(`{"code":null,"message":{"a":1}}`))
	f.Fuzz(func(t *testing.T, status int, b []byte) {
		for _, from := range []source{fromControl, fromCreate, fromEnvd} {
			e := refusal(status, http.Header{"Retry-After": {string(b)}}, b, from)
			if len(e.Message) > 520 || e.retryAfter < 0 || e.Error() == "" {
				t.Errorf("%d %q: %+v", status, b, e)
			}
			if e.undelivered && !e.transient {
				t.Errorf("%d %q: undelivered and yet for good", status, b)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		status            int
		body              string
		from              source
		class             error
		again, undeliverd bool
	}{
		{400, `{"code":400,"message":"Timeout must be greater than 0"}`, fromCreate, sandbox.ErrInvalid, false, false},
		{401, `{"code":401,"message":"Invalid API key"}`, fromControl, sandbox.ErrUnauthorized, false, false},
		{403, `{"code":403,"message":"no access to template"}`, fromCreate, sandbox.ErrUnauthorized, false, false},
		{404, `{"code":404,"message":"template 'x' not found"}`, fromCreate, sandbox.ErrNoImage, false, false},
		{404, `{"code":404,"message":"Sandbox \"i\" doesn't exist"}`, fromControl, sandbox.ErrGone, false, false},
		{409, `{"code":409,"message":"start in flight"}`, fromControl, nil, true, false},
		{500, `{"code":500,"message":"Failed to place sandbox"}`, fromCreate, &sandbox.CapacityError{}, true, false},
		{503, `{"code":503,"message":"m","error_code":"sandbox_no_compatible_node"}`, fromCreate, sandbox.ErrInvalid, false, false},
		{503, `{"code":503,"message":"m","error_code":"sandbox_capacity_unavailable"}`, fromCreate, &sandbox.CapacityError{}, true, true},
		{429, `<html>cloud armor</html>`, fromControl, &sandbox.RateLimitError{}, true, true},
		{401, `{"code":401,"message":"unauthorized access, please provide a valid access token"}`, fromEnvd, sandbox.ErrUnauthorized, false, false},
		{401, `{"code":401,"message":"error looking up user 'x': user: unknown user x"}`, fromEnvd, sandbox.ErrInvalid, false, false},
		{401, `{"code":"unauthenticated","message":"invalid username: 'x'"}`, fromEnvd, sandbox.ErrInvalid, false, false},
		{404, `{"code":"not_found","message":"file not found"}`, fromEnvd, fs.ErrNotExist, false, false},
		{404, `404 page not found`, fromEnvd, sandbox.ErrInvalid, false, false},
		{409, `{"code":"already_exists","message":"exists"}`, fromEnvd, fs.ErrExist, false, false},
		{409, `{"message":"The sandbox is still transitioning. Try again in a moment."}`, fromEnvd, nil, true, true},
		{429, `{"code":429,"message":"too many concurrent incoming connections (limit: 9)"}`, fromEnvd, &sandbox.RateLimitError{}, true, true},
		{500, `{"code":500,"message":"error ensuring directories: path is a file: /etc/passwd"}`, fromEnvd, sandbox.ErrInvalid, false, false},
		{502, `{"sandboxId":"i","message":"The sandbox was not found","code":502}`, fromEnvd, nil, true, true},
		{502, `{"sandboxId":"i","message":"The sandbox is running but port is not open","code":502}`, fromEnvd, nil, true, true},
		{502, `Failed to route request to sandbox`, fromEnvd, nil, true, false},
		{507, `{"code":507,"message":"not enough disk space available"}`, fromEnvd, sandbox.ErrNoSpace, false, false},
		{500, `{"code":"internal","message":"write: no space left on device"}`, fromEnvd, sandbox.ErrNoSpace, false, false},
	}
	for _, tt := range tests {
		e := refusal(tt.status, http.Header{"Retry-After": {"7"}}, []byte(tt.body), tt.from)
		same := tt.class == nil && e.class == nil || tt.class != nil && (errors.Is(e, tt.class) || reflect.TypeOf(e.class) == reflect.TypeOf(tt.class))
		if !same || transient(e) != tt.again || undelivered(e) != tt.undeliverd || wait(e) != 7*time.Second {
			t.Errorf("%d %s: %v (again %v, undelivered %v, wait %v), want %v, %v, %v", tt.status, tt.body, e, transient(e), undelivered(e), wait(e), tt.class, tt.again, tt.undeliverd)
		}
	}
	t.Logf("figure: %d refusals told apart", len(tests))
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 8, 22, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "-1": 0, "x": 0, "99999999999": time.Hour,
		"Sat, 22 Aug 2026 12:00:30 GMT": 30 * time.Second, "Sat, 22 Aug 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(in, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", in, got, want)
		}
	}
}

func BenchmarkDataFrame(b *testing.B) {
	body := []byte(`{"event":{"data":{"stdout":"` + base64.StdEncoding.EncodeToString(make([]byte, 32<<10)) + `"}}}`)
	buf := make([]byte, len(body))
	b.SetBytes(32 << 10)
	b.ReportAllocs()
	for b.Loop() {
		copy(buf, body)
		if _, err := parseEvent(buf); err != nil {
			b.Fatal(err)
		}
	}
}
