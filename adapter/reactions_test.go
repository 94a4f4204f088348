//go:build linux

package adapter_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A reaction is a row of the tables of errors: what a server replies, and what
// the client makes of it.
type reaction struct {
	name     string
	reply    http.HandlerFunc // nil: no connection is taken, for 2 s or always
	always   bool             // reply to every request, not to the first only
	exit     int
	requests int // 0 for any number
	settings []string
}

func status(code int, header ...string) http.HandlerFunc {
	return body(code, `{"type":"error","error":{"type":"some_error","message":"provoked","code":"provoked"}}`, header...)
}

func body(code int, text string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

func reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// events sends server-sent events and then ends or cuts the stream.
func events(cut bool, text ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range text {
			kind, _, _ := strings.Cut(strings.TrimPrefix(e, `{"type":"`), `"`)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, e)
		}
		http.NewResponseController(w).Flush()
		if cut {
			panic(http.ErrAbortHandler)
		}
	}
}

const (
	messageStart = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"policy","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":0}}}`
	blockStart   = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	blockDelta   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half of"}}`
	blockStop    = `{"type":"content_block_stop","index":0}`
)

func failed(code string) string {
	return `{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"` + code + `","message":"provoked"}}}`
}

func incomplete(reason string) string {
	return `{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"` + reason + `"}}}`
}

// provoke puts the row's reply before the adapter, and returns how often the
// client asked.
func (c *cliRig) provoke(t *testing.T, row reaction) *atomic.Int64 {
	t.Helper()
	var requests atomic.Int64
	if row.reply == nil {
		c.refuse(t, row.always)
		return &requests
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && (requests.Add(1) == 1 || row.always) {
			io.Copy(io.Discard, r.Body)
			row.reply(w, r)
			return
		}
		c.server.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	c.url = front.URL
	return &requests
}

// refuse lets connections to the adapter be refused, for 2 s or always.
func (c *cliRig) refuse(t *testing.T, always bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	c.url = "http://" + addr
	if always {
		return
	}
	late := time.AfterFunc(2*time.Second, func() {
		if l, err := net.Listen("tcp", addr); err != nil {
			t.Error(err)
		} else {
			http.Serve(l, c.server)
		}
	})
	t.Cleanup(func() { late.Stop() })
}

// checkReaction compares what a client did with the row.
func (c *cliRig) checkReaction(t *testing.T, row reaction, code int, requests int64, out string) {
	t.Helper()
	if code != row.exit || row.requests > 0 && int(requests) != row.requests {
		t.Errorf("exit %d after %d requests, want %d after %d; output:\n%s", code, requests, row.exit, row.requests, lastBytes(out, 1500))
	}
	rec := c.finish("s")
	if want := 1 - row.exit; rec.Turns != want {
		t.Errorf("%d turns recorded, want %d", rec.Turns, want)
	}
	t.Logf("figure: %s: exit %d, %d requests", row.name, code, requests)
}

// TestClaudeCodeReactions is the table of errors of Claude Code.
func TestClaudeCodeReactions(t *testing.T) {
	path := newest(t)
	t.Log("figure: not provoked: no headers for 360 s, and headers followed by 300 s of silence: the adapter's signs of life rule both out, which the soak test shows")
	const fast = "CLAUDE_CODE_MAX_RETRIES=2"
	for _, row := range []reaction{
		{"400", status(400), true, 1, 1, nil},
		{"403", status(403), true, 1, 1, nil},
		{"413", status(413), true, 1, 1, nil},
		{"401 once", status(401), false, 0, 2, nil},
		{"429 once, retry-after", status(429, "Retry-After", "1"), false, 0, 2, nil},
		{"500 once", status(500), false, 0, 2, nil},
		{"529 once", status(529), false, 0, 2, nil},
		{"503 always", status(503), true, 1, 3, []string{fast}},
		{"reset before the stream", reset, false, 0, 2, nil},
		{"reset inside the stream", events(true, messageStart, blockStart, blockDelta), false, 0, 2, nil},
		{"refused connection for 2 s", nil, false, 0, 0, nil},
		{"404 always", status(404), true, 1, 2, nil},
		{"503 and x-should-retry false", status(503, "X-Should-Retry", "false"), true, 1, 1, nil},
		{"400 and x-should-retry true", status(400, "X-Should-Retry", "true"), false, 0, 2, nil},
		{"error event overloaded_error", events(true, messageStart, `{"type":"error","error":{"type":"overloaded_error","message":"o"}}`), false, 0, 2, nil},
		{"error event api_error", events(true, messageStart, `{"type":"error","error":{"type":"api_error","message":"o"}}`), false, 0, 2, nil},
		{"clean end in mid-stream", events(false, messageStart, blockStart, blockDelta), false, 0, 2, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCLIRig(t, func(string) string { return "Done." })
			requests := c.provoke(t, row)
			code, out := c.play(t, c.claude, path, row.settings...)
			c.checkReaction(t, row, code, requests.Load(), out)
		})
	}
}

// TestOlderClaudeCodeTakesAFragment for the whole answer when a stream ends
// cleanly in its middle: why no stream of the adapter does.
func TestOlderClaudeCodeTakesAFragment(t *testing.T) {
	path := cli(t, "claude-"+claudes[0])
	c := newCLIRig(t, func(string) string { return "Done." })
	requests := c.provoke(t, reaction{name: "clean end in mid-stream", reply: events(false, messageStart, blockStart, blockDelta, blockStop)})
	code, out := c.play(t, c.claude, path)
	if rec := c.finish("s"); code != 0 || requests.Load() != 1 || rec.Turns != 0 {
		t.Errorf("exit %d after %d requests, %d turns, want 0 after 1 with none; output:\n%s", code, requests.Load(), rec.Turns, lastBytes(out, 1500))
	}
	t.Logf("figure: clean end in mid-stream, %s: exit %d, %d requests", claudes[0], code, requests.Load())
}

// TestCodexReactions is the table of errors of Codex.
func TestCodexReactions(t *testing.T) {
	path := codexPath(t)
	t.Log("figure: not provoked: an unreachable server with unbounded_connection_retries, Codex's default: it is waited for without end")
	for _, row := range []reaction{
		{"400", status(400), true, 1, 1, nil},
		{"401 always", status(401), true, 1, 6, nil},
		{"400 context_length_exceeded", body(400, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`), true, 1, 1, nil},
		{"failed context_length_exceeded", events(true, failed("context_length_exceeded")), true, 1, 1, nil},
		{"failed server_is_overloaded", events(false, failed("server_is_overloaded")), true, 1, 1, nil},
		{"failed insufficient_quota", events(false, failed("insufficient_quota")), true, 1, 1, nil},
		{"failed invalid_prompt", events(false, failed("invalid_prompt")), true, 1, 1, nil},
		{"failed invalid_prompt, then cut", events(true, failed("invalid_prompt")), true, 1, 6, nil},
		{"failed rate_limit_exceeded once", events(true, failed("rate_limit_exceeded")), false, 0, 2, nil},
		{"failed server_error once", events(true, failed("server_error")), false, 0, 2, nil},
		{"error event once", events(true, `{"type":"error","error":{"message":"m"}}`), false, 0, 2, nil},
		{"end without completed", events(false, `{"type":"response.created","response":{"id":"r"}}`), false, 0, 2, nil},
		{"reset once", reset, false, 0, 2, nil},
		{"refused connection for 2 s", nil, false, 0, 0, nil},
		{"unreachable, bounded retries", nil, true, 1, 0, nil},
		{"403 once", status(403), false, 0, 2, nil},
		{"404 once", status(404), false, 0, 2, nil},
		{"413 once", status(413, "X-Should-Retry", "false"), false, 0, 2, nil},
		{"429 once, retry-after", status(429, "Retry-After", "1"), false, 0, 2, nil},
		{"503 always", status(503), true, 1, 4, []string{"request_max_retries = 1", "stream_max_retries = 1"}},
		{"incomplete max_output_tokens", events(false, incomplete("max_output_tokens")), true, 1, 1, nil},
		{"incomplete content_filter once", events(false, incomplete("content_filter")), false, 0, 2, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCLIRig(t, func(string) string { return "Done." })
			requests := c.provoke(t, row)
			code, out := c.play(t, c.codex, path, row.settings...)
			c.checkReaction(t, row, code, requests.Load(), out)
		})
	}
}
