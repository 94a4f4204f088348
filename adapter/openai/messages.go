package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// Names of the canonicalisations that the decoders apply.
const (
	rewriteDeveloper = "developer_to_system"
	rewriteOrder     = "tool_results_ordered"
	rewriteImage     = "image_omitted"
)

// decodeMessages appends the messages to req.
func decodeMessages(req *chat.Request, messages []chatMessage) error {
	order := resultOrder{req: req}
	for i, m := range messages {
		text, err := contentText(req, m.Content)
		if err != nil {
			return fmt.Errorf("messages[%d].content: %w", i, err)
		}
		switch m.Role {
		case "system", "user":
			order.add(chat.Message{Role: m.Role, Content: text})
		case "developer":
			req.Rewrites = append(req.Rewrites, rewriteDeveloper)
			order.add(chat.Message{Role: chat.System, Content: text})
		case "assistant":
			order.call(assistant(m, text), callIDs(m.ToolCalls))
		case "tool", "function":
			order.result(m.ToolCallID, chat.Message{Role: chat.ToolRole, Content: text})
		default:
			return fmt.Errorf("messages[%d].role: %q is none of system, developer, user, assistant, tool", i, m.Role)
		}
	}
	order.flush()
	return nil
}

func assistant(m chatMessage, text string) chat.Message {
	msg := chat.Message{Role: chat.Assistant, Content: text}
	if m.ReasoningContent != nil {
		msg.Reasoning = *m.ReasoningContent
	} else if m.Reasoning != nil {
		msg.Reasoning = *m.Reasoning
	}
	for _, c := range m.ToolCalls {
		msg.ToolCalls = append(msg.ToolCalls, chat.ToolCall{Name: c.Function.Name, Arguments: callArguments(c.Function.Arguments)})
		if turn := turnOf(c.ID); turn != "" {
			msg.Turn = turn
		}
	}
	return msg
}

func callIDs(calls []chatToolCall) []string {
	ids := make([]string, len(calls))
	for i, c := range calls {
		ids[i] = c.ID
	}
	return ids
}

// callArguments reads arguments, which are a string of JSON; a few clients send
// the object itself.
func callArguments(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		if len(raw) == 0 {
			return json.RawMessage("{}")
		}
		return raw
	}
	return arguments(text)
}

// arguments returns the text of arguments as JSON; text that is no JSON becomes
// a JSON string, so that nothing of it is lost.
func arguments(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" || text == "null" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text)
	return quoted
}

// contentText joins the text of a content: null, a string, or parts.
func contentText(req *chat.Request, raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []contentPart
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("want null, a string or a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text", "":
			b.WriteString(p.Text)
		case "refusal":
			b.WriteString(p.Refusal)
		case "image_url", "input_image", "input_file", "file", "input_audio":
			req.Rewrites = append(req.Rewrites, rewriteImage)
			b.WriteString("[image omitted]")
		default:
			return "", fmt.Errorf("part of type %q is not supported", p.Type)
		}
	}
	return b.String(), nil
}

type contentPart struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// A resultOrder appends messages to a request and puts the results of parallel
// calls into the order of the calls: clients send them as they finish.
type resultOrder struct {
	req     *chat.Request
	ids     []string // of the calls of the newest assistant message
	results []result // that wait for their place
}

type result struct {
	place int
	msg   chat.Message
}

// add appends a message that ends a group of results.
func (o *resultOrder) add(m chat.Message) {
	o.flush()
	o.req.Messages = append(o.req.Messages, m)
}

// call appends an assistant message whose calls have these ids.
func (o *resultOrder) call(m chat.Message, ids []string) {
	o.add(m)
	o.ids = ids
}

// result keeps a result for its place; one of an unknown call goes last.
func (o *resultOrder) result(id string, m chat.Message) {
	place := slices.Index(o.ids, id)
	if place < 0 {
		place = len(o.ids)
	}
	o.results = append(o.results, result{place, m})
}

// flush appends the results that wait.
func (o *resultOrder) flush() {
	byPlace := func(a, b result) int { return a.place - b.place }
	if !slices.IsSortedFunc(o.results, byPlace) {
		slices.SortStableFunc(o.results, byPlace)
		o.req.Rewrites = append(o.req.Rewrites, rewriteOrder)
	}
	for _, r := range o.results {
		o.req.Messages = append(o.req.Messages, r.msg)
	}
	o.results = o.results[:0]
}

// callID makes the wire id of a turn's i-th call or item; turnOf reads it back.
func callID(kind, turn string, i int) string { return fmt.Sprintf("%s_%s_%d", kind, turn, i) }

// turnOf returns the turn that a wire id of ours names, or "".
func turnOf(id string) string {
	_, rest, ok := strings.Cut(id, "_")
	if !ok {
		return ""
	}
	turn, _, ok := strings.Cut(rest, "_")
	if !ok {
		return ""
	}
	return turn
}

// malformedName is the tool that a malformed call is delivered to.
func malformedName(m chat.Malformed) string {
	if m.Name == "" {
		return "malformed_tool_call"
	}
	return m.Name
}

// malformedArguments is text that no client can execute: never valid JSON.
func malformedArguments(m chat.Malformed) string {
	if json.Valid([]byte(m.Raw)) || strings.TrimSpace(m.Raw) == "" {
		return "malformed call: " + m.Raw
	}
	return m.Raw
}
