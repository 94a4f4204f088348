// Package template renders conversations with the chat template of the served
// model: whole, and as the delta that follows a generated turn.
//
// The text is what transformers' apply_chat_template(tokenize=False) makes of
// the same messages, byte for byte.
package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/jinja"
)

// A Template is a chat template with the special tokens that it prints. It is
// safe for concurrent use.
type Template struct {
	main    *jinja.Template
	toolUse *jinja.Template // used when tools are given; nil: main
	set     Settings
	ids     idStyle
	stops   []string // tokens that end a turn, longest first
	middle  string   // closes a turn in the middle of a conversation, if another than the last
	thinks  bool     // the source speaks of </think>
	marks   []string // added tokens, longest first
	checks  verdicts
}

// Settings are what a template needs besides its source.
type Settings struct {
	// Tokens are the special tokens by the names that templates use: bos_token,
	// eos_token, …. A token that is absent is undefined in the template.
	Tokens map[string]string
	// ToolUse is the source of the template to use when tools are given; "" for
	// the same one.
	ToolUse string
	// Stops are further tokens that end a turn, as text, besides eos_token and
	// what the template itself closes a turn with.
	Stops []string
	// Added are the tokenizer's added tokens, as text. They tell a closing token
	// from text; without them, what looks like a token (<…>, […]) counts as one.
	Added []string
}

// RenderOptions are what a rendering depends on besides messages and tools.
// The zero value ends the text with the generation prompt.
type RenderOptions struct {
	// Kwargs is a JSON object of further variables, such as
	// {"enable_thinking": false}: the sample's apply_chat_template_kwargs.
	// Nil means none. It may not name messages, tools or add_generation_prompt.
	Kwargs json.RawMessage
	// Now is what the template takes for the time, in its own zone. Pin it for a
	// session: a template that prints the date would change the history at
	// midnight. Zero means the time of the call.
	Now time.Time
	// NoGenerationPrompt leaves out the text that begins the next assistant turn.
	NoGenerationPrompt bool

	// Ended says how the generated turn ended; only RenderFrom reads it.
	Ended Ended
	// Stop is the text of the token that ended a Stopped turn, as it is in the
	// output ids. "" means the one that the template closes such a turn with.
	// Only RenderFrom reads it.
	Stop string
}

// Options is another name of RenderOptions.
type Options = RenderOptions

// Ended says how a generated turn ended.
type Ended int

const (
	// Stopped: the output ids end with a stop token.
	Stopped Ended = iota
	// CutInText: no stop token was sampled and the reasoning, if any, was over:
	// a length limit, a stop string, or a generation that was not continued.
	CutInText
	// CutInReasoning: no stop token was sampled and the reasoning was open.
	CutInReasoning
)

// New compiles a template.
func New(source string, set Settings) (*Template, error) {
	if source == "" {
		return nil, errors.New("chat template: the source is empty")
	}
	t := &Template{set: set}
	var err error
	if t.main, err = jinja.Compile(source); err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	if set.ToolUse != "" {
		if t.toolUse, err = jinja.Compile(set.ToolUse); err != nil {
			return nil, fmt.Errorf("chat template tool_use: %w", err)
		}
	}
	t.ids = t.findIDStyle(source + set.ToolUse)
	t.thinks = strings.Contains(source+set.ToolUse, "</think>")
	t.marks = longestFirst(set.Added)
	t.stops = t.findStops()
	t.middle = t.findMiddle()
	return t, nil
}

// Render returns the text of the conversation. Tools nil or empty means none.
// An error is the template's own refusal (a role that it does not take, say),
// or arguments, a schema or Kwargs that are no JSON.
func (t *Template) Render(messages []chat.Message, tools []chat.Tool, o RenderOptions) (string, error) {
	text, err := t.render(messages, 0, tools, o)
	if err == nil {
		err = checkUTF8(text, messages)
	}
	if err != nil {
		return "", fmt.Errorf("render chat template: %w", err)
	}
	return text, nil
}

// checkUTF8 refuses bytes that are no text: Python could not even hold them,
// and no tokenizer agrees with another on what they are.
func checkUTF8(text string, messages []chat.Message) error {
	if utf8.ValidString(text) {
		return nil
	}
	for i, m := range messages {
		if !utf8.ValidString(m.Content) || !utf8.ValidString(m.Reasoning) {
			return fmt.Errorf("message %d (%s) is not valid UTF-8", i, m.Role)
		}
	}
	return errors.New("a tool's name or description, or a call's name, is not valid UTF-8")
}

// render renders messages of which the first call has the number firstCall in
// its conversation.
func (t *Template) render(messages []chat.Message, firstCall int, tools []chat.Tool, o RenderOptions) (string, error) {
	vars, err := t.vars(messages, firstCall, tools, o)
	if err != nil {
		return "", err
	}
	tmpl := t.main
	if len(tools) > 0 && t.toolUse != nil {
		tmpl = t.toolUse
	}
	return tmpl.RenderWith(vars, jinja.Options{Now: o.Now})
}
