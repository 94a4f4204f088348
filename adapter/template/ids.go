package template

import (
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// idStyle is how the ids of tool calls are made for templates that print or
// check them. They are made from the call's place, so that the same history
// has the same ids whatever the client calls them.
type idStyle int

const (
	noIDs   idStyle = iota // the template does not read ids
	kimiIDs                // functions.NAME:N, N counting the conversation's calls from 0 (Kimi K2)
	nineIDs                // nine letters or digits (Mistral)
)

func (s idStyle) make(name string, n int) string {
	if s == kimiIDs {
		return fmt.Sprintf("functions.%s:%d", name, n)
	}
	return fmt.Sprintf("%09d", n)
}

// findIDStyle looks at whether the template reads ids and which it takes.
func (t *Template) findIDStyle(source string) idStyle {
	if !t.main.Reads("id") && !t.main.Reads("tool_call_id") &&
		(t.toolUse == nil || !t.toolUse.Reads("id") && !t.toolUse.Reads("tool_call_id")) {
		return noIDs
	}
	if !strings.Contains(source, "functions.") && !strings.Contains(source, "<|tool_call_begin|>") {
		return nineIDs
	}
	if !t.takes(kimiIDs) && t.takes(nineIDs) {
		return nineIDs
	}
	return kimiIDs
}

// takes reports whether the template renders a call and its result with ids of
// a style.
func (t *Template) takes(style idStyle) bool {
	t.ids = style
	_, err := t.render([]chat.Message{
		{Role: chat.User, Content: "a"},
		{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "f"}}},
		{Role: chat.ToolRole, Content: "b"},
	}, 0, nil, RenderOptions{})
	return err == nil
}
