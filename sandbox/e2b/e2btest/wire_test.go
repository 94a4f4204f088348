//go:build linux

package e2btest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

func TestMain(m *testing.M) {
	e2btest.RunChild()
	os.Exit(m.Run())
}

// A wire talks to one envd, by the bytes: the double's, or a real one.
type wire struct {
	url    string
	header http.Header
	real   bool
}

// dial is the envd that E2B_TEST_ENVD_URL names, or else a double's. Tests on
// a real one leave files in its /tmp.
func dial(t *testing.T, o e2btest.Options) wire {
	t.Helper()
	if u := os.Getenv("E2B_TEST_ENVD_URL"); u != "" {
		return wire{url: strings.TrimRight(u, "/"), header: make(http.Header), real: true}
	}
	if err := e2btest.CanRun(); err != nil {
		t.Skip(err)
	}
	srv, err := e2btest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	m := create(t, srv, `{"templateID":"base","timeout":300,"secure":true}`)
	h := http.Header{}
	h.Set("E2b-Sandbox-Id", m["sandboxID"].(string))
	h.Set("E2b-Sandbox-Port", "49983")
	h.Set("X-Access-Token", m["envdAccessToken"].(string))
	return wire{url: srv.URL, header: h}
}

// create makes a sandbox and returns the reply.
func create(t *testing.T, srv *e2btest.Server, body string) map[string]any {
	t.Helper()
	status, m := api(t, srv, "POST", "/sandboxes", body)
	if status != 201 {
		t.Fatalf("create: %d %v", status, m)
	}
	return m
}

// api does a call to the control plane; a list is under "list".
func api(t *testing.T, srv *e2btest.Server, method, path, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", srv.Key())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var v any
	_ = json.NewDecoder(resp.Body).Decode(&v)
	m, ok := v.(map[string]any)
	if !ok {
		m = map[string]any{"list": v, "next": resp.Header.Get("X-Next-Token"), "after": resp.Header.Get("Retry-After")}
	}
	return resp.StatusCode, m
}

type params map[string]any

// proc is a Start of argv in /tmp, without stdin.
func proc(argv ...string) params {
	return params{"process": params{"cmd": argv[0], "args": argv[1:], "cwd": "/tmp"}, "stdin": false}
}

func sh(script string) params { return proc("/bin/bash", "-c", script) }

// A stream is what came of one Start or Connect.
type stream struct {
	status  int
	body    string // of a response that is no stream
	pid     int
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	end     map[string]any // the end event
	err     map[string]any // of the end frame
	pings   int
	largest int  // bytes of a frame
	closed  bool // the end frame came
	took    time.Duration
}

func (w wire) request(t testing.TB, method, path, contentType string, header http.Header, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, w.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range w.header {
		req.Header[k] = v
	}
	req.SetBasicAuth("root", "")
	for k, v := range header {
		req.Header[k] = v
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	tr := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// open starts a stream; the caller reads it.
func (w wire) open(t testing.TB, method string, header http.Header, msg params) *http.Response {
	t.Helper()
	b, err := json.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
	return w.request(t, "POST", "/process.Process/"+method, "application/connect+json", header, bytes.NewReader(frame))
}

// start runs a Start to the end of its stream. Headers are name, value, ….
func (w wire) start(t testing.TB, msg params, header ...string) *stream {
	t.Helper()
	return w.stream(t, "Start", msg, header...)
}

func headers(kv []string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	return h
}

func (w wire) stream(t testing.TB, method string, msg params, header ...string) *stream {
	t.Helper()
	begin := time.Now()
	resp := w.open(t, method, headers(header), msg)
	defer resp.Body.Close()
	s := &stream{status: resp.StatusCode}
	if resp.StatusCode != 200 {
		b, _ := io.ReadAll(resp.Body)
		s.body = string(b)
		return s
	}
	s.read(t, resp.Body, -1)
	s.took = time.Since(begin)
	return s
}

// read takes frames until the stream ends, or n of them with output.
func (s *stream) read(t testing.TB, r io.Reader, n int) {
	t.Helper()
	for n != 0 {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(r, b); err != nil {
			return
		}
		s.largest = max(s.largest, len(b))
		var v struct {
			Event struct {
				Start     *struct{ PID int }
				Data      *struct{ Stdout, Stderr []byte }
				End       map[string]any
				Keepalive *struct{}
			}
			Error map[string]any
		}
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatalf("frame %q: %v", b, err)
		}
		switch e := v.Event; {
		case head[0]&2 != 0:
			s.closed, s.err = true, v.Error
			return
		case e.Start != nil:
			s.pid = e.Start.PID
		case e.Data != nil:
			s.stdout.Write(e.Data.Stdout)
			s.stderr.Write(e.Data.Stderr)
			n--
		case e.End != nil:
			s.end = e.End
		case e.Keepalive != nil:
			s.pings++
		}
	}
}

// call is a unary call: status and body.
func (w wire) call(t testing.TB, method string, msg params) (int, map[string]any) {
	t.Helper()
	b, _ := json.Marshal(msg)
	resp := w.request(t, "POST", method, "application/json", nil, bytes.NewReader(b))
	defer resp.Body.Close()
	var v map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&v)
	return resp.StatusCode, v
}

func (w wire) upload(t testing.TB, path, user, contentType string, body io.Reader) (int, string, string) {
	t.Helper()
	q := url.Values{"username": {user}}
	if path != "" {
		q.Set("path", path)
	}
	resp := w.request(t, "POST", "/files?"+q.Encode(), contentType, nil, body)
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header.Get("Content-Type")
}

func (w wire) download(t testing.TB, path string, header ...string) (int, string, http.Header) {
	t.Helper()
	q := url.Values{"username": {"root"}, "path": {path}}
	resp := w.request(t, "GET", "/files?"+q.Encode(), "", headers(header), nil)
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header
}

// is checks the end event and the end frame's error code.
func (s *stream) is(t testing.TB, end string, code string) {
	t.Helper()
	b, _ := json.Marshal(s.end)
	if s.end == nil {
		b = nil
	}
	got := fmt.Sprint(s.err["code"])
	if s.err == nil {
		got = ""
	}
	if string(b) != end || got != code || !s.closed {
		t.Errorf("end %s, error %v, closed %v; want end %s, code %q", b, s.err, s.closed, end, code)
	}
}

func contains(t testing.TB, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s: %.300q does not contain %q", what, got, want)
	}
}

func status(t testing.TB, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: status %d, want %d", what, got, want)
	}
}
