package trajectory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A player is a toy adapter, template, tokenizer and engine around one tree.
// Its tokens are words. A word with a hyphen is sampled as one token and
// rendered as two, so that a text with hyphens drifts when it is rendered again.
type player struct {
	t     testing.TB
	tree  *trajectory.Tree
	strip bool // the template leaves out the thinking of earlier turns
	whole bool // everything is rendered at each turn, as for a template that can't be continued
	words map[string]int32
	names []string
	calls []call // the engine's log
}

// A call is what the engine was given and gave.
type call struct {
	turn     string
	prompt   []int32
	output   []int32
	logProbs []float32
	conts    string // the turn that was continued
}

// A reply is what the model is made to say.
type reply struct {
	think, text string
	calls       []chat.ToolCall
	finish      string // "" is stop
	echo        *chat.Message
	kind        chat.Kind
	agent       string
	tools       []chat.Tool
	versions    []trajectory.Span
	illFormed   bool
}

func newPlayer(t testing.TB, o trajectory.Options) *player {
	return &player{t: t, tree: trajectory.New(o), words: map[string]int32{}}
}

func (p *player) id(word string) int32 {
	id, ok := p.words[word]
	if !ok {
		id = int32(len(p.names))
		p.words[word] = id
		p.names = append(p.names, word)
	}
	return id
}

// text encodes as the tokenizer does: a hyphen begins a token.
func (p *player) text(s string) []int32 {
	var ids []int32
	for _, word := range strings.Fields(s) {
		for i, part := range strings.Split(word, "-") {
			if i > 0 {
				part = "-" + part
			}
			ids = append(ids, p.id(part))
		}
	}
	return ids
}

// body renders a message between its role and its end.
func (p *player) body(m chat.Message, strip bool) []int32 {
	var ids []int32
	if m.Reasoning != "" && !strip {
		ids = append(append(ids, p.text(m.Reasoning)...), p.id("</think>"))
	}
	ids = append(ids, p.text(m.Content)...)
	for _, c := range m.ToolCalls {
		ids = append(append(ids, p.id("<call>")), p.text(c.Name+" "+string(c.Arguments))...)
	}
	return ids
}

// render renders messages, without tools where more than that is asked for.
func (p *player) render(m []chat.Message, from int) []int32 {
	var ids []int32
	for _, msg := range m[from:] {
		ids = append(ids, p.id("<"+msg.Role+">"))
		ids = append(append(ids, p.body(msg, p.strip)...), p.id("<end>"))
	}
	return append(ids, p.id("<assistant>"))
}

// prompt makes the prompt of a request as the adapter does.
func (p *player) prompt(m []chat.Message, tools []chat.Tool) (ids []int32, continued string) {
	c := p.tree.Continue(m, tools)
	if c.IDs == nil || p.whole {
		for _, tool := range tools {
			ids = append(ids, p.id("<tool>"), p.id(tool.Name))
		}
		return append(ids, p.render(m, 0)...), ""
	}
	ids = c.IDs
	if c.Finish != chat.FinishStop {
		ids = append(ids, p.id("<end>"))
	}
	return append(ids, p.render(m, c.From)...), c.Turn
}

// ask plays one request and its answer. It returns the conversation with the
// answer as the client keeps it.
func (p *player) ask(m []chat.Message, r reply) []chat.Message {
	p.t.Helper()
	prompt, continued := p.prompt(m, r.tools)
	if n := count(prompt, p.id("<end>")); n != len(m) {
		p.t.Fatalf("a prompt with %d ends for %d messages: %s", n, len(m), p.decode(prompt, nil))
	}
	id := fmt.Sprintf("T%d", len(p.calls)+1)
	said := chat.Message{Role: chat.Assistant, Content: r.text, Reasoning: r.think, ToolCalls: r.calls}
	out := p.sample(said)
	if r.finish == "" {
		r.finish = chat.FinishStop
		out = append(out, p.id("<end>"))
	}
	c := call{turn: id, prompt: slices.Clone(prompt), output: out, conts: continued}
	for i := range out {
		c.logProbs = append(c.logProbs, -float32(len(p.calls)+1)-float32(i)/64)
	}
	p.calls = append(p.calls, c)
	err := p.tree.Record(trajectory.Turn{
		ID: id, Prompt: m, Tools: r.tools, Echo: said, PromptIDs: prompt, OutputIDs: out, LogProbs: c.logProbs,
		Finish: r.finish, IllFormed: r.illFormed, Kind: r.kind, Agent: r.agent, Versions: r.versions,
	})
	if err != nil {
		p.t.Fatalf("Record(%s): %v", id, err)
	}
	if r.echo != nil {
		said = *r.echo
		if said.Turn == "this" {
			said.Turn = id
		}
	}
	return append(slices.Clip(m), said)
}

func count(ids []int32, id int32) int {
	n := 0
	for _, have := range ids {
		if have == id {
			n++
		}
	}
	return n
}

// sample encodes as the model writes: a word with a hyphen is one token.
func (p *player) sample(m chat.Message) []int32 {
	m.Content = strings.ReplaceAll(m.Content, "-", "\x00")
	m.Reasoning = strings.ReplaceAll(m.Reasoning, "-", "\x00")
	ids := p.body(m, false)
	for i, id := range ids {
		if w := p.names[id]; strings.Contains(w, "\x00") {
			ids[i] = p.id(strings.ReplaceAll(w, "\x00", "="))
		}
	}
	return ids
}

func (p *player) segments(max int) []trajectory.Segment {
	p.t.Helper()
	segments, err := p.tree.Segments(max)
	if err != nil {
		p.t.Fatal(err)
	}
	return segments
}

// show writes a session for people: prompts, then segments with what is
// trained in brackets.
func (p *player) show(segments []trajectory.Segment) string {
	var b strings.Builder
	for _, c := range p.calls {
		fmt.Fprintf(&b, "%s continues %q\n  given   %s\n  sampled %s\n", c.turn, c.conts, p.decode(c.prompt, nil), p.decode(c.output, nil))
	}
	for _, s := range segments {
		fmt.Fprintf(&b, "segment %d of %d %q", s.Index, s.Count, s.Label)
		if s.Split != nil {
			fmt.Fprintf(&b, " parent %d at %d; %s at %s after %s: message %d %s, token %d", s.Parent, s.Branch, s.Split.Cause, s.Split.Turn, s.Split.After, s.Split.Message, s.Split.Field, s.Split.Token)
		}
		fmt.Fprintf(&b, "\n  owned %d shared %d weight %.2f truncated %v flags %v untrained %q verdict %q\n", s.Owned, s.Shared, s.Weight, s.Truncated, s.Flags, s.Untrained, s.Verdict)
		mask := append(make([]int8, s.PromptLen), s.LossMask...)
		fmt.Fprintf(&b, "  %s\n", p.decode(s.Tokens, mask))
	}
	r := p.tree.Report()
	fmt.Fprintf(&b, "turns %d side calls %d superseded %v rewrites %v\n", r.Turns, r.SideCalls, r.Superseded, r.Rewrites)
	return b.String()
}

func (p *player) decode(ids []int32, mask []int8) string {
	var out []string
	for i, id := range ids {
		w := p.names[id]
		if mask != nil && mask[i] == 1 {
			w = "[" + w + "]"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

func sys(s string) chat.Message  { return chat.Message{Role: chat.System, Content: s} }
func user(s string) chat.Message { return chat.Message{Role: chat.User, Content: s} }
func tool(s string) chat.Message { return chat.Message{Role: chat.ToolRole, Content: s} }

func bash(args string) []chat.ToolCall {
	return []chat.ToolCall{{Name: "Bash", Arguments: []byte(args)}}
}
