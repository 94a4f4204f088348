package main

import (
	"encoding/json"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/template"
)

// renderOptions render up to the beginning of the next assistant turn.
var renderOptions = template.RenderOptions{}

// A conversation is one that is rendered here and at the server.
type conversation struct {
	name     string
	messages []chat.Message
	tools    []chat.Tool
}

func conversations() []conversation {
	bash := chat.Tool{Name: "bash", Description: "Run a command <in> the sandbox & wait.", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string","description":"what to run"},"timeout":{"type":"integer"}},"required":["command"]}`)}
	edit := chat.Tool{Name: "edit", Description: "", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"}}}`)}
	system := chat.Message{Role: chat.System, Content: "You fix bugs."}
	user := chat.Message{Role: chat.User, Content: "The test fails.\n\n  Make it pass. Größe: 3 µm — 日本語 🙂\t<|im_start|>"}
	call := chat.Message{Role: chat.Assistant, Content: "I look.", ToolCalls: []chat.ToolCall{{Name: "bash", Arguments: json.RawMessage(`{"command":"ls -la && echo \"a\"","timeout":30}`)}}}
	result := chat.Message{Role: chat.ToolRole, Content: "total 4\n-rw-r--r-- 1 a a 12 x.py\n"}
	done := chat.Message{Role: chat.Assistant, Content: "It is done."}
	again := chat.Message{Role: chat.User, Content: "Once more."}
	return []conversation{
		{"system and user", []chat.Message{system, user}, nil},
		{"tools", []chat.Message{system, user}, []chat.Tool{bash, edit}},
		{"a tool result", []chat.Message{system, user, call, result}, []chat.Tool{bash, edit}},
		{"an answer and a second question", []chat.Message{user, done, again}, nil},
		{"all of it", []chat.Message{system, user, call, result, done, again}, []chat.Tool{bash}},
	}
}

// wireMessages are the messages as OpenAI's chat completions have them.
func (c conversation) wireMessages() []map[string]any {
	var list []map[string]any
	for i, m := range c.messages {
		w := map[string]any{"role": m.Role, "content": m.Content}
		for _, t := range m.ToolCalls {
			w["tool_calls"] = []any{map[string]any{"id": "call_0", "type": "function", "function": map[string]any{"name": t.Name, "arguments": string(t.Arguments)}}}
		}
		if m.Role == chat.ToolRole && i > 0 {
			w["tool_call_id"] = "call_0"
		}
		list = append(list, w)
	}
	return list
}

// wireTools are the tools; nil for none.
func (c conversation) wireTools() []map[string]any {
	var list []map[string]any
	for _, t := range c.tools {
		list = append(list, map[string]any{"type": "function", "function": map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Parameters}})
	}
	return list
}
