package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// prober tries a template on conversations whose every text is a mark of its
// own, so that it can be found again in what is rendered.
type prober struct {
	t     *Template
	tools []chat.Tool
	o     RenderOptions
}

// mark returns the nth text of a probe.
func mark(n int) string { return fmt.Sprintf("qzM%dqz", n) }

func probeTools() []chat.Tool {
	return []chat.Tool{
		{Name: "alpha", Description: "first", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"string","description":"d"}},"required":["a"]}`)},
		{Name: "beta", Description: "second", Parameters: []byte(`{"type":"object","properties":{"b":{"type":"integer","description":"d"}},"required":[]}`)},
	}
}

// stubTools stand for the tools where a delta does not depend on them.
func stubTools() []chat.Tool { return probeTools()[:1] }

func probeCall(name string, n int) chat.ToolCall {
	return chat.ToolCall{Name: name, Arguments: []byte(`{"a":"` + mark(n) + `"}`)}
}

// histories are what came before the probed turn, from the richest to the
// plainest; a template is judged on all that it takes.
func histories() [][]chat.Message {
	system := chat.Message{Role: chat.System, Content: mark(1)}
	user := chat.Message{Role: chat.User, Content: mark(2)}
	work := []chat.Message{
		{Role: chat.Assistant, Content: mark(3), Reasoning: "qzR1qz", ToolCalls: []chat.ToolCall{probeCall("alpha", 4)}},
		{Role: chat.ToolRole, Content: mark(5)},
		{Role: chat.Assistant, Content: mark(6), Reasoning: "qzR2qz"},
		{Role: chat.User, Content: mark(7)},
	}
	again := []chat.Message{
		{Role: chat.Assistant, Content: mark(8), Reasoning: "qzR3qz", ToolCalls: []chat.ToolCall{probeCall("beta", 9)}},
		{Role: chat.ToolRole, Content: mark(10)},
	}
	return [][]chat.Message{
		slices.Concat([]chat.Message{system, user}, work),
		slices.Concat([]chat.Message{system, user}, work, again),
		slices.Concat([]chat.Message{user}, work),
		{system, user},
		{user},
	}
}

func (p *prober) verdict() *Verdict {
	one := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "alpha"}}}
	two := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "alpha"}, {Name: "beta"}}}
	said := chat.Message{Role: chat.Assistant}
	result := func(n int) chat.Message { return chat.Message{Role: chat.ToolRole, Content: mark(n)} }
	user := chat.Message{Role: chat.User, Content: mark(30)}
	v := &Verdict{
		ToolResult:     p.check(one, []chat.Message{result(20)}),
		ToolResults:    p.check(two, []chat.Message{result(20), result(21)}),
		UserText:       p.check(said, []chat.Message{user}),
		UserAfterTools: p.check(one, []chat.Message{result(20), user}),
	}
	v.Thinking = p.thinking()
	p.dependencies(v)
	p.closings(v)
	v.settle()
	return v
}

// check judges one way to go on after the turn gen.
func (p *prober) check(gen chat.Message, next []chat.Message) Case {
	c := Case{Exact: true, Strict: true}
	tried := 0
	for _, history := range histories() {
		one, err := p.checkAfter(history, gen, next)
		if err != nil {
			c.Reason = err.Error()
			continue
		}
		tried++
		if !one.Exact {
			return one
		}
		if !one.Strict {
			c.Strict, c.Reason = false, one.Reason
		}
	}
	if tried == 0 {
		return Case{Refuse: true, Reason: c.Reason}
	}
	if c.Strict {
		c.Reason = ""
	}
	return c
}

// checkAfter judges it after one history; an error is the template's refusal.
func (p *prober) checkAfter(history []chat.Message, gen chat.Message, next []chat.Message) (Case, error) {
	before, err := p.t.render(history, 0, p.tools, p.o)
	if err != nil {
		return Case{}, err
	}
	turn := stub(gen)
	turn.Content = sentinel
	whole, err := p.t.render(slices.Concat(history, []chat.Message{turn}, next), 0, p.tools, p.o)
	if err != nil {
		return Case{}, err
	}
	closed := p.o
	closed.NoGenerationPrompt = true
	alone, err := p.t.render(history, 0, p.tools, closed)
	if err != nil {
		return Case{}, err
	}
	c := compareHistory(history, alone, before, whole)
	if !c.Exact {
		return c, nil
	}
	if reason := p.variants(history, gen, next); reason != "" {
		return Case{Reason: reason}, nil
	}
	return c, nil
}

// variants compares the delta with whole renderings, in which the turn is
// another than its stub; "" when they agree.
func (p *prober) variants(history []chat.Message, gen chat.Message, next []chat.Message) string {
	said, thought, args := gen, gen, gen
	said.Content = mark(40)
	thought.Content, thought.Reasoning = mark(40), "qzThoughtqz"
	args.ToolCalls = nil
	for i, call := range gen.ToolCalls {
		args.ToolCalls = append(args.ToolCalls, chat.ToolCall{Name: call.Name, Arguments: fmt.Appendf(nil, `{"z":[%d,{"y":null}],"a":"x"}`, i)})
	}
	for _, turn := range []chat.Message{said, thought, args} {
		delta, ok := p.t.delta(history, turn, next, p.tools, p.o)
		if !ok {
			return "the end of the turn can't be told from what follows"
		}
		whole, err := p.t.render(slices.Concat(history, []chat.Message{turn}, next), 0, p.tools, p.o)
		if err == nil && !strings.HasSuffix(whole, delta) {
			return "what follows a turn depends on what came before"
		}
	}
	return ""
}

// compareHistory looks whether the messages of history are rendered in whole,
// where a turn and more follow, as they were in before, which ends with the
// generation prompt, and in alone, which has none. What precedes an assistant's
// text may differ: there reasoning is, or was.
func compareHistory(history []chat.Message, alone, before, whole string) Case {
	was, is := pieces(history, before, whole), pieces(history, whole, before)
	if len(was) == 0 || len(was) != len(is) || was[len(was)-1].mark != is[len(is)-1].mark {
		return Case{Reason: "messages of the history appear or vanish"}
	}
	end, ended := behind(was, alone), behind(was, before)
	if !strings.HasPrefix(ended, end) {
		end = ended
	}
	if !strings.HasPrefix(behind(is, whole), end) {
		return Case{Reason: "the end of the last message changes when the conversation goes on"}
	}
	c := Case{Exact: true, Strict: strings.HasPrefix(whole, strings.TrimSuffix(before, ended))}
	for i := range was {
		if was[i] == is[i] {
			continue
		}
		if was[i].mark != is[i].mark || !was[i].assistant {
			return Case{Reason: fmt.Sprintf("text before %s changes when the conversation goes on", was[i].what)}
		}
	}
	if !c.Strict {
		c.Reason = "the beginnings of earlier assistant turns (their thinking) are rewritten"
	}
	return c
}

// behind is what follows the last of the pieces in text.
func behind(list []piece, text string) string {
	last := list[len(list)-1].mark
	return text[strings.LastIndex(text, last)+len(last):]
}

// A piece is the text before a mark, from the mark before it.
type piece struct {
	mark, text, what string
	assistant        bool // the mark is an assistant's
}

// pieces cuts a rendered conversation at the marks of its messages. What an
// assistant said may be missing from the other rendering (gpt-oss drops what it
// said before a call, once the turn is over); it is no mark then.
func pieces(history []chat.Message, text, other string) []piece {
	var list []piece
	add := func(mark, what string, assistant bool) {
		i := strings.Index(text, mark)
		if i >= 0 && (!assistant || strings.Contains(other, mark)) {
			list = append(list, piece{mark, text[:i], what, assistant})
		}
	}
	for _, m := range history {
		add(m.Content, "a message of the role "+m.Role, m.Role == chat.Assistant)
		for _, call := range m.ToolCalls {
			add(callMark(call), "the arguments of a call", true)
		}
	}
	slices.SortStableFunc(list, func(a, b piece) int { return len(a.text) - len(b.text) })
	end := 0
	for i, one := range list {
		list[i].text = one.text[end:]
		end = len(one.text) + len(one.mark)
	}
	return list
}

// callMark returns the mark within a probe's arguments.
func callMark(call chat.ToolCall) string {
	s := string(call.Arguments)
	i := strings.Index(s, "qzM")
	return s[i : i+strings.Index(s[i:], "qz\"")+len("qz")]
}
