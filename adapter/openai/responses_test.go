package openai_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/openai"
)

func decode(t *testing.T, d chat.Dialect, body string) *chat.Request {
	t.Helper()
	req, err := d.Decode(httptest.NewRequest(http.MethodPost, "/", nil), []byte(body))
	if err != nil {
		t.Fatalf("Decode(%s): %v", body, err)
	}
	return req
}

// streamOf answers after some signs of life and returns the events.
func streamOf(t *testing.T, d chat.Dialect, body string, signs int, a chat.Answer) (events []map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	resp := d.Respond(w, decode(t, d, body))
	for range signs {
		if err := resp.KeepAlive(); err != nil {
			t.Fatal(err)
		}
	}
	if err := resp.Answer(a); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(w.Body.String()) {
		var e map[string]any
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			if err := json.Unmarshal([]byte("{"+data), &e); err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
	}
	return events
}

var spoken = chat.Answer{Turn: "turnid", Reasoning: "why", Text: "text", Finish: chat.FinishStop,
	Calls: []chat.ToolCall{{Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}}}

// TestStreamBeginsOnce adds a Responses stream up as client libraries do: first
// of all response.created, then deltas to parts that were begun.
func TestStreamBeginsOnce(t *testing.T) {
	for _, signs := range []int{0, 1, 3} {
		id, parts := "", map[any]string{}
		for i, e := range streamOf(t, openai.Responses{}, `{"stream":true,"input":"x"}`, signs, spoken) {
			kind := e["type"].(string)
			if (kind == "response.created") != (i == 0) || e["sequence_number"] != float64(i) {
				t.Errorf("%d signs: event %d is %s, numbered %v", signs, i, kind, e["sequence_number"])
			}
			if r, ok := e["response"].(map[string]any); ok {
				if i == 0 {
					id = r["id"].(string)
				}
				if r["id"] != id {
					t.Errorf("%d signs: %s has id %v, want %s", signs, kind, r["id"], id)
				}
			}
			switch kind {
			case "response.content_part.added":
				parts[e["item_id"]] = ""
			case "response.output_text.delta", "response.reasoning_text.delta":
				if _, begun := parts[e["item_id"]]; !begun {
					t.Errorf("%d signs: a delta of a part that was not begun: %v", signs, e)
				}
				parts[e["item_id"]] += e["delta"].(string)
			case "response.content_part.done":
				if text := e["part"].(map[string]any)["text"]; text != parts[e["item_id"]] {
					t.Errorf("%d signs: part %v, deltas %q", signs, text, parts[e["item_id"]])
				}
			}
		}
		if len(parts) != 2 {
			t.Errorf("%d signs: parts %v", signs, parts)
		}
	}
}

// TestChatStreamHasOneRole: libraries add deltas up, the role's too.
func TestChatStreamHasOneRole(t *testing.T) {
	for _, signs := range []int{0, 1, 3} {
		role, ids := "", map[any]bool{}
		for _, e := range streamOf(t, openai.Chat{}, `{"stream":true,"messages":[{"role":"user","content":"x"}]}`, signs, spoken) {
			ids[e["id"]] = true
			delta := e["choices"].([]any)[0].(map[string]any)["delta"].(map[string]any)
			if r, ok := delta["role"].(string); ok {
				role += r
			}
		}
		if role != chat.Assistant || len(ids) != 1 || ids["chatcmpl-"] {
			t.Errorf("%d signs: role %q, ids %v", signs, role, ids)
		}
	}
}

// TestCustomToolTakesTextAlone: what is no text goes to a tool that nobody has,
// and comes back as what was echoed.
func TestCustomToolTakesTextAlone(t *testing.T) {
	const tools = `,"tools":[{"type":"custom","name":"apply_patch"},{"type":"function","name":"bash"}]}`
	call := func(args string) chat.Answer {
		return chat.Answer{Turn: "turnid", Calls: []chat.ToolCall{{Name: "apply_patch", Arguments: json.RawMessage(args)}, spoken.Calls[0]}}
	}
	for _, c := range []struct {
		name, kind, tool string
		answer           chat.Answer
	}{
		{"text", "custom_tool_call", "apply_patch", call(`{"input":"p"}`)},
		{"other member", "function_call", "malformed_tool_call", call(`{"patch":"p"}`)},
		{"number", "function_call", "malformed_tool_call", call(`{"input":5}`)},
		{"empty", "function_call", "malformed_tool_call", call(`{}`)},
		{"malformed", "function_call", "malformed_tool_call", chat.Answer{Turn: "turnid", Calls: spoken.Calls, Malformed: []chat.Malformed{{Name: "apply_patch", Raw: `{"input":`}}}},
	} {
		w := httptest.NewRecorder()
		req := decode(t, openai.Responses{}, `{"input":"x"`+tools)
		if err := (openai.Responses{}).Respond(w, req).Answer(c.answer); err != nil {
			t.Fatal(err)
		}
		var res struct{ Output []map[string]any }
		if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil {
			t.Fatal(err)
		}
		if first := res.Output[0]; len(res.Output) != 2 || first["type"] != c.kind || first["name"] != c.tool || res.Output[1]["name"] != "bash" {
			t.Errorf("%s: sent %v", c.name, res.Output)
		}
		items, _ := json.Marshal(res.Output)
		back := decode(t, openai.Responses{}, `{"input":[{"role":"user","content":"x"},`+string(items[1:])+tools).Messages[1]
		told := openai.Responses{}.Echo(req, c.answer)
		for i, call := range told.ToolCalls {
			if got := back.ToolCalls[i]; got.Name != call.Name || string(got.Arguments) != string(call.Arguments) {
				t.Errorf("%s: call %d came back as %s %s, want %s %s", c.name, i, got.Name, got.Arguments, call.Name, call.Arguments)
			}
		}
	}
}

// TestToolNamedTwice keeps one name in the history, whatever the order of a map.
func TestToolNamedTwice(t *testing.T) {
	const body = `{"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"a","arguments":"{}"}],` +
		`"tools":[{"type":"function","name":"a"},{"type":"function","name":"a"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"a"}]}]}`
	for range 20 {
		req := decode(t, openai.Responses{}, body)
		if name := req.Messages[1].ToolCalls[0].Name; name != "a" || req.Tools[1].Name != "a" || req.Tools[2].Name != "n__a" {
			t.Fatalf("the call is of %s, the tools are %+v", name, req.Tools)
		}
	}
}

// TestForeignItemsDoNotBreakARequest, whatever types their members have.
func TestForeignItemsDoNotBreakARequest(t *testing.T) {
	req := decode(t, openai.Responses{}, `{"input":[{"role":"user","content":"x"},{"type":"tool_search_call","call_id":"c","arguments":{"q":"x"}},{"type":"other","input":{"a":1}}]}`)
	if len(req.Messages) != 1 || len(req.Rewrites) != 2 {
		t.Errorf("messages %+v, rewrites %v", req.Messages, req.Rewrites)
	}
}

// TestCallsOfOldAreRefused: dropped in silence, the model would see results of
// calls that it never made, or no tools.
func TestCallsOfOldAreRefused(t *testing.T) {
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"x"}],"functions":[{"name":"f"}]}`,
		`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}]}`,
	} {
		if req, err := (openai.Chat{}).Decode(httptest.NewRequest(http.MethodPost, "/", nil), []byte(body)); err == nil {
			t.Errorf("Decode(%s) = %+v, want an error", body, req)
		}
	}
	decode(t, openai.Chat{}, `{"messages":[{"role":"user","content":"x"}],"functions":[]}`)
}
