package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// sentinel stands for what the model said in the conversations that deltas are
// read from.
const sentinel = "qzAgentrlTurnqz"

// RenderFrom returns the text to append to the prompt ids and output ids of the
// generated turn m[from-1], so that the model can go on: what is left of the
// turn's end, the messages m[from:] and the generation prompt.
//
// How the text begins depends on o.Ended:
//   - Stopped: after the token that ended the turn, which is the last of the
//     output ids. In ChatML, where <|im_end|> was sampled, it begins with "\n"
//     and the header of m[from].
//     Where the next message's header is itself what the model stops at (GLM's
//     <|user|> and <|observation|>), that header is left out when o.Stop is ""
//     or names it.
//   - CutInText: with what closes the turn, stop token included.
//   - CutInReasoning: with what closes the reasoning, then the turn.
//
// The history before m[from-1] is not rendered, so the cost is that of m[from:];
// of m[from-1] only the names and the number of its calls matter.
//
// exact is false, and text empty, where the text can't be told this way: the
// template failed the conformance check for such a continuation, or it renders
// m[from:] in a way that depends on what came before. Render everything then.
// An error is a mistake of the arguments.
func (t *Template) RenderFrom(m []chat.Message, from int, tools []chat.Tool, o RenderOptions) (text string, exact bool, err error) {
	if from < 1 || from > len(m) || m[from-1].Role != chat.Assistant {
		return "", false, fmt.Errorf("render from message %d of %d: the message before it must be the assistant's", from, len(m))
	}
	gen, next := m[from-1], m[from:]
	v := t.verdict(len(tools) > 0, o)
	known := v.caseOf(next)
	if known != nil && !known.Exact {
		return "", false, nil
	}
	short := tools
	if len(tools) > 0 && !v.Tools {
		short = stubTools()
	}
	text, exact = t.delta(m[:from-1], gen, next, short, o)
	if exact && known == nil {
		exact = t.proven(m, from, tools, o)
	}
	if !exact {
		return "", false, nil
	}
	if err := checkUTF8(text, next); err != nil {
		return "", false, fmt.Errorf("render chat template: %w", err)
	}
	return text, true, nil
}

// proven reports whether the whole rendering ends with what follows the turn
// m[from-1]: for continuations of a kind that the conformance check does not know.
func (t *Template) proven(m []chat.Message, from int, tools []chat.Tool, o RenderOptions) bool {
	o.Ended = Stopped
	text, ok := t.delta(m[:from-1], m[from-1], m[from:], tools, o)
	if !ok {
		return false
	}
	whole, err := t.render(m, 0, tools, o)
	return err == nil && strings.HasSuffix(whole, text)
}

func countCalls(m []chat.Message) int {
	n := 0
	for i := range m {
		n += len(m[i].ToolCalls)
	}
	return n
}

// stub histories are what a delta's turn comes after: a question or, where
// tools have answered before, that and one call. Some templates open a list of
// results only once.
var (
	stubAsked  = []chat.Message{{Role: chat.User, Content: "q"}}
	stubWorked = []chat.Message{
		{Role: chat.User, Content: "q"},
		{Role: chat.Assistant, Content: "a", ToolCalls: []chat.ToolCall{{Name: "alpha"}}},
		{Role: chat.ToolRole, Content: "r"},
	}
)

// stubFor returns what stands for a history, and the number of its first call.
func stubFor(history []chat.Message) ([]chat.Message, int) {
	calls := countCalls(history)
	if slices.ContainsFunc(history, func(m chat.Message) bool { return m.Role == chat.ToolRole }) {
		return stubWorked, calls - countCalls(stubWorked)
	}
	return stubAsked, calls
}

// delta computes the text that follows the turn gen after a history.
func (t *Template) delta(history []chat.Message, gen chat.Message, next []chat.Message, tools []chat.Tool, o RenderOptions) (string, bool) {
	short, firstCall := stubFor(history)
	turn := stub(gen)
	after, ok := t.after(short, turn, next, firstCall, tools, o)
	if !ok && turn.Content == "" { // a template that does not print calls
		turn.Content = sentinel
		after, ok = t.after(short, turn, next, firstCall, tools, o)
	}
	if !ok {
		return "", false
	}
	switch o.Ended {
	case Stopped:
		return t.afterStop(after, o.Stop)
	case CutInText:
		return t.closed(chat.Message{Role: chat.Assistant, Content: sentinel}, after, tools, o)
	}
	return t.closed(chat.Message{Role: chat.Assistant, Reasoning: sentinel}, after, tools, o)
}

// stub returns a turn that calls what gen calls, and says and thinks as much
// as matters of it: something or nothing.
func stub(gen chat.Message) chat.Message {
	turn := chat.Message{Role: chat.Assistant}
	if gen.Content != "" || len(gen.ToolCalls) == 0 {
		turn.Content = sentinel
	}
	if gen.Reasoning != "" {
		turn.Reasoning = "t"
	}
	for _, call := range gen.ToolCalls {
		turn.ToolCalls = append(turn.ToolCalls, chat.ToolCall{Name: call.Name, Arguments: []byte(`{"a":"` + sentinel + `"}`)})
	}
	return turn
}

// tails are the texts after a turn's last sentinel.
type tails struct {
	last string // the turn being the conversation's last message
	mid  string // with messages and the generation prompt after it
}

// after renders a turn with and without what follows it.
func (t *Template) after(history []chat.Message, turn chat.Message, next []chat.Message, firstCall int, tools []chat.Tool, o RenderOptions) (tails, bool) {
	conversation := slices.Concat(history, []chat.Message{turn})
	last := o
	last.NoGenerationPrompt = true
	whole, err := t.render(conversation, firstCall, tools, last)
	if err != nil {
		return tails{}, false
	}
	n := strings.Count(whole, sentinel)
	if n == 0 {
		return tails{}, false
	}
	longer, err := t.render(append(conversation, next...), firstCall, tools, o)
	if err != nil {
		return tails{}, false
	}
	mid, ok := afterOccurrence(longer, n)
	return tails{whole[strings.LastIndex(whole, sentinel)+len(sentinel):], mid}, ok
}

// afterOccurrence returns the text after the nth sentinel.
func afterOccurrence(text string, n int) (string, bool) {
	for range n {
		var ok bool
		if _, text, ok = strings.Cut(text, sentinel); !ok {
			return "", false
		}
	}
	return text, true
}

// afterStop returns the text after the token that ends the turn.
func (t *Template) afterStop(a tails, stop string) (string, bool) {
	end, token := t.turnEnd(a, stop)
	if end < 0 {
		return "", false
	}
	return a.mid[end+len(token):], true
}

// turnEnd finds where in a.mid the turn's own text ends, and the token there
// that stands for the stop token that was sampled; "" when there is none.
func (t *Template) turnEnd(a tails, stop string) (int, string) {
	if at, token := firstOf(a.mid, append(t.stops[:len(t.stops):len(t.stops)], stop)); at >= 0 && at <= len(a.last) && a.mid[:at] == a.last[:at] {
		closing := strings.HasPrefix(a.last[at:], token) // else it begins the next message
		if closing || stop == "" || stop == token {
			return at, token
		}
		return at, ""
	}
	if at, _ := firstOf(a.last, t.stops); at >= 0 && at <= len(a.mid) && a.mid[:at] == a.last[:at] {
		// A turn in the middle is closed by another token than the last one is.
		if t.middle != "" && strings.HasPrefix(a.mid[at:], t.middle) {
			return at, t.middle
		}
		return -1, ""
	}
	if !strings.HasPrefix(a.mid, a.last) {
		return -1, ""
	}
	// No token that is known: the last one of the turn if nothing but space follows it.
	words := strings.TrimRight(a.last, " \n")
	if i := strings.LastIndexAny(words, "<["); i >= 0 && t.mark(words[i:]) == words[i:] {
		return i, words[i:]
	}
	return len(a.last), ""
}

// firstOf finds the first occurrence of any of the tokens, the longest where
// several begin.
func firstOf(text string, tokens []string) (int, string) {
	at, found := -1, ""
	for _, token := range tokens {
		i := strings.Index(text, token)
		if token != "" && i >= 0 && (at < 0 || i < at || i == at && len(token) > len(found)) {
			at, found = i, token
		}
	}
	return at, found
}

// mark returns the token that text begins with, "" when it begins with none.
func (t *Template) mark(text string) string {
	for _, token := range t.marks {
		if strings.HasPrefix(text, token) {
			return token
		}
	}
	if len(t.marks) == 0 {
		return looksLikeToken(text)
	}
	return ""
}

// looksLikeToken returns the <…> or […] that text begins with.
func looksLikeToken(text string) string {
	for _, pair := range [...]string{"<>", "[]"} {
		if text == "" || text[0] != pair[0] {
			continue
		}
		end := strings.IndexByte(text, pair[1])
		if end > 1 && !strings.ContainsAny(text[1:end], " \n\t") {
			return text[:end+1]
		}
	}
	return ""
}

// closed returns the text that closes a turn that was cut where probe's
// sentinel stands, and what follows the turn in a.
func (t *Template) closed(probe chat.Message, a tails, tools []chat.Tool, o RenderOptions) (string, bool) {
	rest, ok := t.rest(a)
	if !ok {
		return "", false
	}
	o.NoGenerationPrompt = true
	text, err := t.render(slices.Concat(stubAsked, []chat.Message{probe}), 0, tools, o)
	if err != nil {
		return "", false
	}
	i := strings.LastIndex(text, sentinel)
	if i < 0 {
		return t.closedUnseen(a, tools, o)
	}
	closing := text[i+len(sentinel):]
	if at, _ := firstOf(closing, t.stops); at >= 0 {
		// Up to the closing token as this probe shows it, from there as it is
		// within a conversation.
		return closing[:at] + rest, true
	}
	return closing + rest, true
}

// rest returns a.mid from the token on that closes the turn, or from the turn's
// end where no token closes it.
func (t *Template) rest(a tails) (string, bool) {
	end, _ := t.turnEnd(a, "")
	if end < 0 {
		return "", false
	}
	return a.mid[end:], true
}

// thinkEnd closes a reasoning that the template itself never prints.
const thinkEnd = "\n</think>\n\n"

// closedUnseen closes a reasoning of a template that leaves it out of history.
func (t *Template) closedUnseen(a tails, tools []chat.Tool, o RenderOptions) (string, bool) {
	text, ok := t.closed(chat.Message{Role: chat.Assistant, Content: sentinel}, a, tools, o)
	if !ok || !t.thinks {
		return "", false
	}
	return thinkEnd + text, true
}

// findStops collects the tokens that end a turn: those that are known and
// those that the template itself ends one with.
func (t *Template) findStops() []string {
	known := longestFirst(append([]string{t.set.Tokens["eos_token"]}, t.set.Stops...))
	a, ok := t.after(stubAsked, stub(chat.Message{}), stubAsked, 0, nil, RenderOptions{})
	if !ok {
		return known
	}
	end := a.last
	if at, token := firstOf(a.last, known); at >= 0 {
		if strings.HasPrefix(a.mid, a.last[:at]+token) {
			return known
		}
		end = a.last[:at] // what closes the last turn only is not what every turn ends with
		if t.closingMark(end, true) == "" {
			return known
		}
	}
	if token := t.closingMark(end, t.alwaysPrompts()); token != "" {
		return longestFirst(append(known, token))
	}
	if word := strings.TrimSpace(end); word != "" && !strings.ContainsAny(word, " \n") {
		return longestFirst(append(known, word))
	}
	if strings.TrimSpace(end) != "" {
		return known
	}
	// Nothing closes a turn: the header of the message that follows ends it.
	return longestFirst(append(known, t.mark(a.mid), t.resultHeader()))
}

// findMiddle returns the token that closes a turn in the middle of a
// conversation, where it is another than the last turn is closed with.
func (t *Template) findMiddle() string {
	a, ok := t.after(stubAsked, stub(chat.Message{}), stubAsked, 0, nil, RenderOptions{})
	if !ok {
		return ""
	}
	at, token := firstOf(a.last, t.stops)
	if at < 0 || at > len(a.mid) || a.mid[:at] != a.last[:at] || strings.HasPrefix(a.mid[at:], token) {
		return ""
	}
	return t.mark(a.mid[at:])
}

// resultHeader returns the token that a tool result begins with.
func (t *Template) resultHeader() string {
	gen := chat.Message{ToolCalls: []chat.ToolCall{{Name: "alpha"}}}
	a, ok := t.after(stubAsked, stub(gen), []chat.Message{{Role: chat.ToolRole, Content: "r"}}, 0, nil, RenderOptions{})
	if !ok || !strings.HasPrefix(a.mid, a.last) {
		return ""
	}
	return t.mark(a.mid[len(a.last):])
}

// alwaysPrompts reports whether the template ends with the generation prompt
// even where none is asked for.
func (t *Template) alwaysPrompts() bool {
	open, err := t.render(stubAsked, 0, nil, RenderOptions{})
	closed, errClosed := t.render(stubAsked, 0, nil, RenderOptions{NoGenerationPrompt: true})
	return err == nil && errClosed == nil && open == closed
}

// closingMark returns the last token in what follows a turn, or the first where
// a generation prompt comes after it.
func (t *Template) closingMark(text string, first bool) string {
	found := ""
	for i := range text {
		if token := t.mark(text[i:]); token != "" {
			if found = token; first {
				break
			}
		}
	}
	return found
}
