package anthropic_test

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/adapter/anthropic"
	"github.com/agentrl-go/agentrl/adapter/chat"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func request(body string) func() (*http.Request, []byte) {
	return func() (*http.Request, []byte) {
		return httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(body)), []byte(body)
	}
}

func TestDialect(t *testing.T) {
	const rest = `"messages":[{"role":"user","content":"x"}],"tools":[{"name":"bash","input_schema":{}}]}`
	adaptertest.TestDialect(t, anthropic.Messages{}, request(`{"stream":true,`+rest), request(`{`+rest))
}

func TestGolden(t *testing.T) {
	adaptertest.Golden(t, anthropic.Messages{}, "../../testdata/dialects/messages_*.txtar", *update)
}

func TestToken(t *testing.T) {
	for _, c := range []struct{ bearer, key, want string }{
		{"Bearer abc", "", "abc"}, {"", "abc", "abc"}, {"Bearer a", "b", "a"}, {"Basic x", "b", "b"}, {"", "", ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Authorization", c.bearer)
		r.Header.Set("X-Api-Key", c.key)
		if got := (anthropic.Messages{}).Token(r); got != c.want {
			t.Errorf("Token of %+v = %q, want %q", c, got, c.want)
		}
	}
}

func TestLongSilenceShowsEvents(t *testing.T) {
	r, body := request(`{"stream":true,"messages":[{"role":"user","content":"x"}]}`)()
	req, err := anthropic.Messages{}.Decode(r, body)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	resp := anthropic.Messages{}.Respond(w, req)
	for range 60 {
		if err := resp.KeepAlive(); err != nil {
			t.Fatal(err)
		}
	}
	if err := resp.Answer(chat.Answer{Turn: "t", Text: "Done."}); err != nil {
		t.Fatal(err)
	}
	var pings, longest int
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		switch {
		case line == "event: ping":
			pings++
			longest = max(longest, pings)
		case strings.HasPrefix(line, "event: "):
			pings = 0
		}
	}
	if longest*8 >= 300 {
		t.Errorf("%d pings in a row: at 8 s each, more than 300 s without an event that is seen", longest)
	}
	for _, want := range []string{`"index":0,"type":"content_block_stop"`, `"content_block":{"text":"","type":"text"},"index":1`, `"delta":{"text":"Done.","type":"text_delta"},"index":1`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the stream lacks %s:\n%s", want, w.Body)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"sig_t_0"},{"type":"tool_use","id":"toolu_t_0","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_t_0","content":[{"type":"image"}]},{"type":"text","text":"r"}]},{"role":"system","content":"x"}],"tools":[{"name":"f","input_schema":{}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := anthropic.Messages{}
		req, err := d.Decode(httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)), body)
		if err != nil {
			return
		}
		if len(req.Messages) == 0 {
			t.Fatalf("a request without messages was decoded: %s", body)
		}
		d.Respond(httptest.NewRecorder(), req).Answer(chat.Answer{Turn: "t", Text: "x"})
	})
}

// TestBillingHeaderIsALine: what stands after it is the prompt.
func TestBillingHeaderIsALine(t *testing.T) {
	const header = "x-anthropic-billing-header: cc_version=2.1.197.8c0; cc_entrypoint=sdk-cli;"
	for _, c := range []struct{ system, want string }{
		{`"` + header + `\nYou are."`, "You are."},
		{`[{"type":"text","text":"` + header + `"},{"type":"text","text":"You are."}]`, "You are."},
		{`[{"type":"text","text":"` + header + `\n"},{"type":"text","text":"You are."}]`, "You are."},
		{`"You are. ` + header + `"`, "You are. " + header},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
		req, err := anthropic.Messages{}.Decode(r, []byte(`{"system":`+c.system+`,"messages":[{"role":"user","content":"x"}]}`))
		if err != nil || req.Messages[0].Content != c.want {
			t.Errorf("system %s: %+v, %v; want %q", c.system, req, err, c.want)
		}
	}
}
