package template

import (
	"fmt"
	"strings"
	"sync"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A Verdict says what a template's deltas are worth: for each way in which a
// conversation goes on after a generated turn, whether the text that follows
// the turn can be rendered without the history and leaves the history as the
// engine was given it. It is immutable.
type Verdict struct {
	ToolResult     Case // one tool result follows
	ToolResults    Case // several tool results follow
	UserText       Case // a user message follows
	UserAfterTools Case // tool results and then a user message follow

	Thinking Thinking
	Names    bool // the text after a turn depends on the names of the tools that it called
	IDs      bool // … on the ids of its calls, which are made from their place
	Tools    bool // … on the definitions of the tools

	Stops         []string // tokens that end a turn
	Close         string   // what closes a turn of text that was cut
	CloseThinking string   // what closes a turn that was cut while it reasoned; "" when the template has no reasoning
	Policy        Policy
}

// A Case is the verdict on one way to go on.
type Case struct {
	Exact  bool   // RenderFrom answers, and its text is what a whole rendering has there
	Refuse bool   // the template itself refuses such a conversation
	Strict bool   // the history stays as it was, byte for byte
	Reason string // why not; "" when Exact and Strict
}

// Thinking says what becomes of earlier turns' reasoning.
type Thinking string

// What becomes of reasoning.
const (
	ThinkingNone     Thinking = "never printed"
	ThinkingKept     Thinking = "kept"
	ThinkingStripped Thinking = "stripped once a user message follows"
	ThinkingLast     Thinking = "stripped from all turns but the last"
)

// Policy is how prompts of a template's conversations are made.
type Policy string

// The policies. A template that is exact in some cases only is rendered whole
// in the others.
const (
	Exact     Policy = "exact"
	Mixed     Policy = "exact where it can be, canonical elsewhere"
	Canonical Policy = "canonical"
)

// Conform checks the template with conversations of its own making, with and
// without tools, and returns the verdict for o.Kwargs and o.Now; of o nothing
// else matters. The verdict is computed once per kwargs and kept.
func (t *Template) Conform(o RenderOptions) *Verdict { return t.verdict(true, o) }

// verdicts keeps the verdict for each set of kwargs that was asked for.
type verdicts struct {
	mu   sync.Mutex
	made map[verdictKey]*Verdict
}

// maxVerdicts bounds what is kept where every sample has kwargs of its own.
const maxVerdicts = 64

type verdictKey struct {
	kwargs string
	tools  bool
}

func (t *Template) verdict(tools bool, o RenderOptions) *Verdict {
	key := verdictKey{string(o.Kwargs), tools}
	t.checks.mu.Lock()
	defer t.checks.mu.Unlock()
	if v := t.checks.made[key]; v != nil {
		return v
	}
	p := &prober{t: t, o: RenderOptions{Kwargs: o.Kwargs, Now: o.Now}}
	if tools {
		p.tools = probeTools()
	}
	if t.checks.made == nil || len(t.checks.made) >= maxVerdicts {
		t.checks.made = map[verdictKey]*Verdict{}
	}
	v := p.verdict()
	t.checks.made[key] = v
	return v
}

// caseOf returns the verdict on a continuation; nil when it is of no kind that
// was checked.
func (v *Verdict) caseOf(next []chat.Message) *Case {
	results, users := 0, 0
	for _, m := range next {
		switch {
		case m.Role == chat.ToolRole && users == 0:
			results++
		case m.Role == chat.User:
			users++
		default:
			return nil
		}
	}
	switch {
	case results > 0 && users > 0:
		return &v.UserAfterTools
	case users > 0:
		return &v.UserText
	case results > 1:
		return &v.ToolResults
	case results == 1:
		return &v.ToolResult
	}
	return nil
}

func (v *Verdict) settle() {
	exact, failed := 0, 0
	for _, c := range v.cases() {
		switch {
		case c.Exact:
			exact++
		case !c.Refuse:
			failed++
		}
	}
	switch {
	case exact == 0:
		v.Policy = Canonical
	case failed == 0:
		v.Policy = Exact
	default:
		v.Policy = Mixed
	}
}

func (v *Verdict) cases() []*Case {
	return []*Case{&v.ToolResult, &v.ToolResults, &v.UserText, &v.UserAfterTools}
}

// String returns the verdict for people, in a dozen lines.
func (v *Verdict) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-24s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("policy", "%s", v.Policy)
	for i, name := range [...]string{"tool result", "several tool results", "user text", "user text after tools"} {
		line(name, "%s", v.cases()[i])
	}
	line("earlier thinking", "%s", v.Thinking)
	line("after a turn, text uses", "%s", v.uses())
	line("a turn ends with", "%q", v.Stops)
	line("closes a cut turn", "%q", v.Close)
	if v.CloseThinking != "" {
		line("closes cut thinking", "%q", v.CloseThinking)
	}
	return b.String()
}

func (v *Verdict) uses() string {
	var list []string
	for _, u := range []struct {
		used bool
		name string
	}{{v.Names, "names of the tools called"}, {v.IDs, "ids of the calls"}, {v.Tools, "definitions of the tools"}} {
		if u.used {
			list = append(list, u.name)
		}
	}
	if len(list) == 0 {
		return "nothing of the turn"
	}
	return strings.Join(list, ", ")
}

// String returns the verdict on the case in a few words.
func (c *Case) String() string {
	switch {
	case c.Refuse:
		return "refused by the template: " + c.Reason
	case !c.Exact:
		return "canonical: " + c.Reason
	case !c.Strict:
		return "exact, though " + c.Reason
	}
	return "exact, prefix-stable"
}
