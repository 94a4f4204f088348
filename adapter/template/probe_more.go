package template

import (
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// thinking finds out what becomes of earlier turns' reasoning.
func (p *prober) thinking() Thinking {
	thought := "qzThoughtqz"
	user := chat.Message{Role: chat.User, Content: mark(1)}
	call := chat.Message{Role: chat.Assistant, Content: mark(2), Reasoning: thought, ToolCalls: []chat.ToolCall{probeCall("alpha", 3)}}
	result := chat.Message{Role: chat.ToolRole, Content: mark(4)}
	said := chat.Message{Role: chat.Assistant, Content: mark(5), Reasoning: thought}
	later := chat.Message{Role: chat.Assistant, Content: mark(6), ToolCalls: []chat.ToolCall{probeCall("beta", 7)}}
	more := chat.Message{Role: chat.User, Content: mark(8)}
	shows := func(open bool, m ...chat.Message) bool {
		o := p.o
		o.NoGenerationPrompt = !open
		text, err := p.t.render(m, 0, p.tools, o)
		return err == nil && strings.Contains(text, thought)
	}
	afterUser := shows(true, user, said, more)
	afterTool := shows(true, user, call, result)
	afterTurn := shows(true, user, call, result, later, result)
	switch {
	case afterUser && (afterTool || !shows(false, user, call)):
		return ThinkingKept
	case afterTool && afterTurn:
		return ThinkingStripped
	case afterTool || shows(false, user, said) || shows(false, user, call):
		return ThinkingLast
	}
	return ThinkingNone
}

// dependencies finds out what of a turn the text after it depends on.
func (p *prober) dependencies(v *Verdict) {
	next := []chat.Message{{Role: chat.ToolRole, Content: mark(1)}}
	turn := func(name string) chat.Message {
		return chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: name}}}
	}
	text, ok := p.t.delta(stubAsked, turn("alpha"), next, p.tools, p.o)
	if !ok {
		return
	}
	differs := func(history []chat.Message, name string, tools []chat.Tool) bool {
		other, ok := p.t.delta(history, turn(name), next, tools, p.o)
		return !ok || other != text
	}
	v.Names = differs(stubAsked, "beta", p.tools)
	v.IDs = differs(slices.Concat(stubAsked, []chat.Message{turn("beta")}), "alpha", p.tools)
	if len(p.tools) > 0 {
		v.Tools = differs(stubAsked, "alpha", stubTools()) || p.userNeedsTools()
	}
}

// userNeedsTools reports whether the text after a turn that a user message
// follows depends on the tools.
func (p *prober) userNeedsTools() bool {
	next := []chat.Message{{Role: chat.User, Content: mark(1)}}
	gen := chat.Message{Role: chat.Assistant}
	a, okA := p.t.delta(stubAsked, gen, next, p.tools, p.o)
	b, okB := p.t.delta(stubAsked, gen, next, stubTools(), p.o)
	return okA != okB || a != b
}

// closings finds out what ends and closes a turn.
func (p *prober) closings(v *Verdict) {
	v.Stops = slices.Clone(p.t.stops)
	next := []chat.Message{{Role: chat.User, Content: mark(1)}}
	closing := func(ended Ended) string {
		o := p.o
		o.Ended = ended
		cut, ok := p.t.delta(stubAsked, chat.Message{Role: chat.Assistant}, next, p.tools, o)
		o.Ended = Stopped
		whole, okWhole := p.t.delta(stubAsked, chat.Message{Role: chat.Assistant}, next, p.tools, o)
		if !ok || !okWhole {
			return ""
		}
		text := strings.TrimSuffix(cut, whole)
		if p.headerStops(text) {
			_, token := firstOf(text, p.t.stops)
			text = strings.TrimSuffix(text, token)
		}
		return text
	}
	v.Close = closing(CutInText)
	v.CloseThinking = closing(CutInReasoning)
}

// headerStops reports whether what a turn stops at is the header of the message
// that follows, so that nothing closes the turn itself.
func (p *prober) headerStops(closing string) bool {
	a, ok := p.t.after(stubAsked, stub(chat.Message{}), stubAsked, 0, p.tools, p.o)
	return ok && a.last == "" && closing != ""
}
