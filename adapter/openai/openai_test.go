package openai_test

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/openai"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func request(path, body string) func() (*http.Request, []byte) {
	return func() (*http.Request, []byte) {
		return httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)), []byte(body)
	}
}

func TestChatDialect(t *testing.T) {
	const rest = `"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"bash"}}]}`
	adaptertest.TestDialect(t, openai.Chat{}, request("/v1/chat/completions", `{"stream":true,`+rest), request("/v1/chat/completions", `{`+rest))
}

func TestResponsesDialect(t *testing.T) {
	const rest = `"input":[{"type":"message","role":"user","content":"x"}],"tools":[{"type":"function","name":"bash"}]}`
	adaptertest.TestDialect(t, openai.Responses{}, request("/v1/responses", `{"stream":true,`+rest), request("/v1/responses", `{`+rest))
}

func TestGolden(t *testing.T) {
	adaptertest.Golden(t, openai.Chat{}, "../../testdata/dialects/chat_*.txtar", *update)
	adaptertest.Golden(t, openai.Responses{}, "../../testdata/dialects/responses_*.txtar", *update)
}

func TestTokenIsTheBearer(t *testing.T) {
	for _, c := range []struct{ header, want string }{
		{"Bearer abc", "abc"}, {"bearer  abc ", "abc"}, {"Basic abc", ""}, {"", ""}, {"Bearer", ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Authorization", c.header)
		for _, d := range []chat.Dialect{openai.Chat{}, openai.Responses{}} {
			if got := d.Token(r); got != c.want {
				t.Errorf("%T.Token of %q = %q, want %q", d, c.header, got, c.want)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}],"tool_calls":[{"id":"call_t_0","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"call_t_0","content":null}],"stop":["x"],"tools":[{"name":"f"}]}`))
	f.Add([]byte(`{"input":[{"type":"reasoning","id":"rs_t_0","summary":[{"type":"summary_text","text":"s"}]},{"type":"function_call","call_id":"call_t_1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"call_t_1","output":[{"type":"input_text","text":"o"}]}],"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]},{"type":"custom","name":"p","format":{"definition":"g"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, d := range []chat.Dialect{openai.Chat{}, openai.Responses{}} {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			req, err := d.Decode(r, body)
			if err != nil {
				continue
			}
			if len(req.Messages) == 0 {
				t.Fatalf("%T: a request without messages was decoded: %s", d, body)
			}
			d.Respond(httptest.NewRecorder(), req).Answer(chat.Answer{Turn: "t", Calls: []chat.ToolCall{{Name: "f", Arguments: []byte(`{}`)}}})
		}
	})
}
