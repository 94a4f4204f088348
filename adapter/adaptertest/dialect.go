package adaptertest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// TestDialect checks what every dialect has to hold, on two requests of its
// own: one that asks for a stream and one that does not. Both offer a tool
// "bash".
func TestDialect(t *testing.T, d chat.Dialect, stream, whole func() (*http.Request, []byte)) {
	t.Run("RefusesGarbage", func(t *testing.T) { refusesGarbage(t, d) })
	for _, kind := range []struct {
		name    string
		request func() (*http.Request, []byte)
	}{{"Stream", stream}, {"Whole", whole}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Run("Answers", func(t *testing.T) { answers(t, d, kind.request) })
			t.Run("RefusesWithAStatus", func(t *testing.T) { refusesWithAStatus(t, d, kind.request) })
			t.Run("CutsWhatHasBegun", func(t *testing.T) { cutsWhatHasBegun(t, d, kind.request) })
			t.Run("MalformedCallsCanNotBeRun", func(t *testing.T) { malformedCallsCanNotBeRun(t, d, kind.request) })
		})
	}
}

func refusesGarbage(t *testing.T, d chat.Dialect) {
	for _, body := range []string{"", "null", "{}", "[]", `"x"`, "{", `{"messages":1}`, `{"messages":[]}`, `{"input":[]}`, `{"input":7}`, "\xff"} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		if req, err := d.Decode(r, []byte(body)); err == nil {
			t.Errorf("Decode(%q) = %+v, want an error", body, req)
		}
	}
}

func decode(t *testing.T, d chat.Dialect, request func() (*http.Request, []byte)) *chat.Request {
	t.Helper()
	r, body := request()
	req, err := d.Decode(r, body)
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	return req
}

func answers(t *testing.T, d chat.Dialect, request func() (*http.Request, []byte)) {
	req := decode(t, d, request)
	answer := chat.Answer{
		Turn: "turnid", Reasoning: "deep <thought> & é", Text: "plain text\n", Finish: chat.FinishStop, Prompt: 100, Output: 7, Cached: 60,
		Calls: []chat.ToolCall{{Name: "bash", Arguments: json.RawMessage(`{"z":1.0,"a":9007199254740993}`)}},
	}
	w := httptest.NewRecorder()
	resp := d.Respond(w, req)
	for range 2 {
		if err := resp.KeepAlive(); err != nil {
			t.Fatalf("KeepAlive: %v", err)
		}
	}
	if w.Code != http.StatusOK || w.Body.Len() == 0 {
		t.Errorf("after a sign of life: status %d, %d bytes", w.Code, w.Body.Len())
	}
	if err := resp.Answer(answer); err != nil {
		t.Fatalf("Answer: %v", err)
	}
	body := w.Body.String()
	if !req.Stream && !json.Valid([]byte(body)) {
		t.Errorf("the answer is no JSON: %s", body)
	}
	for _, want := range []string{"deep <thought> & é", `plain text\n`, "9007199254740993", "turnid", "bash"} {
		if !strings.Contains(body, want) {
			t.Errorf("the answer lacks %q: %s", want, body)
		}
	}
	echo := d.Echo(req, answer)
	if echo.Role != chat.Assistant || echo.Turn != "turnid" || echo.Reasoning != answer.Reasoning || echo.Content != answer.Text ||
		len(echo.ToolCalls) != 1 || string(echo.ToolCalls[0].Arguments) != string(answer.Calls[0].Arguments) {
		t.Errorf("Echo = %+v", echo)
	}
}

// refusals are all kinds, with what must be in the answer.
var refusals = []struct {
	refusal chat.Refusal
	status  int // 0: any from 400
	says    string
}{
	{chat.Refusal{Kind: chat.Stop, Message: "no more"}, 400, "no more"},
	{chat.Refusal{Kind: chat.TryAgain, Message: "later", RetryAfter: 1500 * time.Millisecond}, 503, "later"},
	{chat.Refusal{Kind: chat.TooLong, Message: "long", Tokens: 12345, Limit: 12000}, 400, "12345 tokens"},
	{chat.Refusal{Kind: chat.Unknown, Message: "who"}, 0, "who"},
	{chat.Refusal{Kind: chat.TooLarge, Message: "large"}, 0, "large"},
}

func refusesWithAStatus(t *testing.T, d chat.Dialect, request func() (*http.Request, []byte)) {
	for _, c := range refusals {
		for _, req := range []*chat.Request{nil, decode(t, d, request)} {
			w := httptest.NewRecorder()
			d.Respond(w, req).Refuse(&c.refusal)
			if w.Code < 400 || c.status != 0 && w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%+v: status %d, body %s", c.refusal, w.Code, w.Body)
			}
			again := c.refusal.Kind == chat.TryAgain
			if got := w.Header().Get("X-Should-Retry") == "false"; got == again {
				t.Errorf("%+v: X-Should-Retry %q", c.refusal, w.Header().Get("X-Should-Retry"))
			}
			if got := w.Header().Get("Retry-After"); again && got != "2" {
				t.Errorf("%+v: Retry-After %q, want 2", c.refusal, got)
			}
		}
	}
}

func cutsWhatHasBegun(t *testing.T, d chat.Dialect, request func() (*http.Request, []byte)) {
	for _, c := range refusals {
		w := httptest.NewRecorder()
		resp := d.Respond(w, decode(t, d, request))
		if err := resp.KeepAlive(); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				p := recover()
				terminal := p == nil && strings.Contains(w.Body.String(), "event: response.failed\n")
				if p != http.ErrAbortHandler && !terminal {
					t.Errorf("%+v after a sign of life: recovered %v, want http.ErrAbortHandler or a failed response; body %s", c.refusal, p, w.Body)
				}
			}()
			resp.Refuse(&c.refusal)
		}()
	}
}

// malformedCallsCanNotBeRun checks that no client can read a malformed call as
// one with arguments for a tool that it has.
func malformedCallsCanNotBeRun(t *testing.T, d chat.Dialect, request func() (*http.Request, []byte)) {
	req := decode(t, d, request)
	for _, raw := range []string{`{"command":"rm -rf /"}`, `<function=bash><parameter=command>rm -rf /`, "", "null", `[1]`} {
		w := httptest.NewRecorder()
		answer := chat.Answer{Turn: "turnid", Finish: chat.FinishStop, Malformed: []chat.Malformed{{Name: "bash", Raw: raw}}}
		if err := d.Respond(w, req).Answer(answer); err != nil {
			t.Fatal(err)
		}
		// Wherever the command stands, it stands within a longer string.
		for _, runnable := range []string{`"{\"command\":\"rm -rf /\"}"`, `"input":{"command"`, `"arguments":{`, `"arguments":""`, `"partial_json":""`} {
			if strings.Contains(strings.ReplaceAll(w.Body.String(), `"arguments":"","call_id"`, ""), runnable) {
				t.Errorf("raw %q went out as %s", raw, w.Body)
			}
		}
		if echo := d.Echo(req, answer); len(echo.ToolCalls) != 1 || !json.Valid(echo.ToolCalls[0].Arguments) {
			t.Errorf("Echo of %q = %+v", raw, echo)
		}
	}
}
