package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/wire"
)

// Names of the canonicalisations that the decoders apply, beside those of
// chat.History.
const (
	rewriteDeveloper = "developer_to_system"
	rewriteMedia     = "media_omitted"
	rewriteHosted    = "hosted_tool_dropped"
	rewriteHostedUse = "hosted_call_dropped"
)

// decodeMessages appends the messages to req.
func decodeMessages(req *chat.Request, messages []chatMessage) error {
	h := chat.NewHistory(req)
	for i, m := range messages {
		text, err := contentText(req, m.Content)
		if err != nil {
			return fmt.Errorf("messages[%d].content: %w", i, err)
		}
		switch m.Role {
		case "system":
			h.System(text)
		case "developer":
			req.Rewrites = append(req.Rewrites, rewriteDeveloper)
			h.System(text)
		case "user":
			h.User(text)
		case "assistant":
			if m.FunctionCall != nil {
				return fmt.Errorf("messages[%d].function_call: send tool_calls, which took its place", i)
			}
			h.Assistant(assistant(m, text), callIDs(m.ToolCalls))
		case "tool", "function":
			h.Result(m.ToolCallID, text)
		default:
			return fmt.Errorf("messages[%d].role: %q is none of system, developer, user, assistant, tool", i, m.Role)
		}
	}
	h.Flush()
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
		if turn := chat.TurnOf(c.ID); turn != "" {
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
	if text, ok := wire.Unquote(raw); ok || len(raw) == 0 || string(raw) == "null" {
		return chat.Arguments(text)
	}
	return raw
}

// contentText joins the text of a content: null, a string, or parts.
func contentText(req *chat.Request, raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if text, ok := wire.Unquote(raw); ok {
		return text, nil
	}
	var parts []contentPart
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", errors.New("want null, a string or a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text", "reasoning_text", "summary_text", "":
			b.WriteString(p.Text)
		case "refusal":
			b.WriteString(p.Refusal)
		case "image_url", "input_image":
			req.Rewrites = append(req.Rewrites, rewriteMedia)
			b.WriteString("[image omitted]")
		case "input_file", "file", "input_audio":
			req.Rewrites = append(req.Rewrites, rewriteMedia)
			b.WriteString("[file omitted]")
		default:
			return "", fmt.Errorf("a part of type %q is not supported", p.Type)
		}
	}
	return b.String(), nil
}

type contentPart struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}
