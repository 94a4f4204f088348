package adapter_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

func TestPathsAndTokens(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say("ok")})
	ses, other := r.open("a", adapter.SessionOptions{}), r.open("b", adapter.SessionOptions{})
	if err := r.server.SealSession(context.Background(), "b"); err != nil {
		t.Fatal(err)
	}
	const body = `{"messages":[{"role":"user","content":"x"}]}`
	for _, c := range []struct {
		name, method, path, header, token string
		status                            int
	}{
		{"bearer", "POST", "/v1/messages", "Authorization", "Bearer " + ses.Token, 200},
		{"x-api-key", "POST", "/v1/messages?beta=true", "X-Api-Key", ses.Token, 200},
		{"in the path", "POST", "/s/" + ses.Token + "/v1/messages", "", "", 200},
		{"two slashes", "POST", "//v1//messages", "X-Api-Key", ses.Token, 200},
		{"count", "POST", "/v1/messages/count_tokens", "X-Api-Key", ses.Token, 200},
		{"models", "GET", "/v1/models", "Authorization", "Bearer " + ses.Token, 200},
		{"models of nobody", "GET", "/v1/models", "", "", 403},
		{"health", "GET", "/healthz", "", "", 200},
		{"probe", "HEAD", "/", "", "", 200},
		{"no token", "POST", "/v1/messages", "", "", 403},
		{"no token, responses", "POST", "/v1/responses", "", "", 400},
		{"sealed", "POST", "/v1/messages", "X-Api-Key", other.Token, 403},
		{"sealed, in the path", "POST", "/s/" + other.Token + "/v1/messages", "", "", 403},
		{"session id", "POST", "/v1/messages", "X-Api-Key", "a", 403},
		{"part of a token", "POST", "/v1/messages", "X-Api-Key", ses.Token[:20], 403},
		{"dots", "POST", "/v1/models/../messages", "X-Api-Key", ses.Token, 200},
		{"out of the root", "POST", "/../../etc/passwd", "X-Api-Key", ses.Token, 404},
		{"encoded slash", "POST", "/v1%2fmessages", "X-Api-Key", ses.Token, 200},
		{"unknown", "POST", "/v1/embeddings", "X-Api-Key", ses.Token, 404},
		{"method", "GET", "/v1/messages", "X-Api-Key", ses.Token, 405},
		{"token alone", "POST", "/s/" + ses.Token, "", "", 404},
	} {
		req, err := http.NewRequest(c.method, r.url+c.path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if c.header != "" {
			req.Header.Set(c.header, c.token)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d; body %s", c.name, res.StatusCode, c.status, text)
		}
		if bytes.Contains(text, []byte(ses.Token)) || bytes.Contains(text, []byte(other.Token)) {
			t.Errorf("%s: the answer holds a token", c.name)
		}
	}
	if log := r.log.String(); strings.Contains(log, ses.Token) || strings.Contains(log, other.Token) {
		t.Errorf("the log holds a token: %s", log)
	}
}

func TestBodyOf100MBIsRefused(t *testing.T) {
	r := newRig(t, sglangtest.Options{})
	ses := r.open("s", adapter.SessionOptions{})
	for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses"} {
		req, err := http.NewRequest(http.MethodPost, r.url+path, io.LimitReader(zeros{}, 100<<20))
		if err != nil {
			t.Fatal(err)
		}
		if path != "/v1/messages" {
			req.ContentLength = 100 << 20 // else in chunks, whose end is not announced
		}
		req.Header.Set("Authorization", "Bearer "+ses.Token)
		res, err := r.client.Do(req)
		if err != nil {
			continue // the server has closed the connection while we wrote
		}
		res.Body.Close()
		want := http.StatusRequestEntityTooLarge
		if path == "/v1/responses" {
			want = http.StatusBadRequest // Codex sends the body five times more after 413
		}
		if res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, want)
		}
	}
	if err := r.server.SealSession(context.Background(), "s"); err != nil {
		t.Errorf("a large body is the session's error: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestSlowHeadersAreCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	t.Parallel()
	r := newRig(t, sglangtest.Options{})
	l, err := adapter.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := adapter.HTTPServer(r.server, slog.New(slog.DiscardHandler))
	go server.Serve(l)
	defer server.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: x\r\n")
	conn.SetReadDeadline(time.Now().Add(15 * time.Second))
	if _, err := bufio.NewReader(conn).ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("read from a connection with half a header: %v, want its end", err)
	}
}

func TestBadTokensLeaveNothing(t *testing.T) {
	r := newRig(t, sglangtest.Options{})
	r.open("s", adapter.SessionOptions{})
	// Whoever answers in-process costs no connection: what is counted is ours.
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	var wg sync.WaitGroup
	var refused atomic.Int64
	const n = 8000
	for w := range 4 {
		wg.Go(func() {
			for i := range n / 4 {
				req := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader("{}"))
				req.Header.Set("X-Api-Key", fmt.Sprintf("guess-%d-%d", w, i))
				rec := httptest.NewRecorder()
				r.server.ServeHTTP(rec, req)
				if rec.Code == http.StatusForbidden && rec.Header().Get("X-Should-Retry") == "false" {
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	if refused.Load() != n || grown > 1<<20 || runtime.NumGoroutine() > goroutines || r.server.Sessions() != 1 {
		t.Errorf("%d of %d refused, heap grew by %d bytes, %d goroutines before and %d after", refused.Load(), n, grown, goroutines, runtime.NumGoroutine())
	}
	t.Logf("figure: %d bad tokens a second refused, heap +%d bytes", int(float64(n)/elapsed.Seconds()), max(grown, 0))
}

func TestMuxFindsTheServerByToken(t *testing.T) {
	a, b := newRig(t, sglangtest.Options{Policy: say("from a")}), newRig(t, sglangtest.Options{Policy: say("from b")})
	var mux adapter.Mux
	shared := httptest.NewServer(&mux)
	defer shared.Close()
	a.url, b.url = shared.URL, shared.URL
	sa, sb := a.open("s", adapter.SessionOptions{}), b.open("s", adapter.SessionOptions{})
	check := func(name, token string, status int, says string) {
		t.Helper()
		got, body, err := a.post(context.Background(), token, map[string]any{"messages": []any{user("x")}})
		if err != nil || got != status || !strings.Contains(string(body), says) {
			t.Errorf("%s: status %d, error %v, body %s; want %d and %q", name, got, err, body, status, says)
		}
	}
	check("nobody attached", sa.Token, 403, "no session")
	mux.Attach(a.server)
	mux.Attach(b.server)
	check("a", sa.Token, 200, "from a")
	check("b", sb.Token, 200, "from b")
	check("nobody's", "x", 403, "no session")
	mux.Detach(b.server)
	check("b detached", sb.Token, 403, "no session")
}

// TestCutWithoutFIN cuts a client's connection without the end that TCP has for
// it: by a reset, which tells at once, and by saying nothing any more, which no
// connection tells: there the seal frees the engine, because the agent is known
// to be dead.
func TestCutWithoutFIN(t *testing.T) {
	slow := sglangtest.Options{Policy: say(strings.Repeat("x", 5000)), PerToken: 10 * time.Millisecond, DisconnectPoll: time.Minute}
	for name, rig := range map[string]func(testing.TB, sglangtest.Options, ...func(*adapter.Options)) *rig{"direct": newRig, "routed": newRoutedRig} {
		for _, reset := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/reset=%v", name, reset), func(t *testing.T) {
				r := rig(t, slow)
				ses := r.open("s", adapter.SessionOptions{})
				conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				const body = `{"messages":[{"role":"user","content":"x"}]}`
				fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", ses.Token, len(body), body)
				if err := r.engine.WaitLive(1, patience); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if reset {
					conn.(*net.TCPConn).SetLinger(0)
					conn.Close()
					if err := r.engine.WaitLive(0, patience); err != nil {
						t.Fatal(err)
					}
				}
				rec := r.finish("s")
				freed := time.Since(began)
				if rec.Turns != 0 || rec.Abandoned != 1 || r.engine.Live() != 0 {
					t.Errorf("%d turns recorded, %d abandoned, %d generations live; want 0, 1 and 0", rec.Turns, rec.Abandoned, r.engine.Live())
				}
				if freed > freeWithin && !testing.Short() {
					t.Errorf("the slot was free after %v, want %v", freed, freeWithin)
				}
				t.Logf("figure: slot free %v after the cut", freed.Round(time.Millisecond))
			})
		}
	}
}

// TestBodyThatIsNoJSON: an agent's own script may send anything, and nothing was
// sampled for it; JSON that is not understood may be a fault of ours.
func TestBodyThatIsNoJSON(t *testing.T) {
	for body, lost := range map[string]bool{`junk`: false, `{"messages":`: false, ``: false, `{"messages":7}`: true} {
		r := newRig(t, sglangtest.Options{Policy: say("x")})
		ses := r.open("s", adapter.SessionOptions{})
		req, err := http.NewRequest(http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+ses.Token)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: status %d, want 400", body, resp.StatusCode)
		}
		if err := r.server.SealSession(t.Context(), "s"); (err != nil) != lost {
			t.Errorf("%q: SealSession: %v, want an error: %v", body, err, lost)
		}
	}
}
