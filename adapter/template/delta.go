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
	if !t.verdict(o).allows(m[from-1], m[from:]) {
		return "", false, nil
	}
	text, exact = t.delta(stubHistory, m[from-1], m[from:], countCalls(m[:from-1]), tools, o)
	return text, exact, nil
}

func countCalls(m []chat.Message) int {
	n := 0
	for i := range m {
		n += len(m[i].ToolCalls)
	}
	return n
}

// stubHistory is what a delta's turn answers to.
var stubHistory = []chat.Message{{Role: chat.User, Content: "q"}}

// delta computes the text that follows the turn gen, which comes after history
// with firstCall calls before it.
func (t *Template) delta(history []chat.Message, gen chat.Message, next []chat.Message, firstCall int, tools []chat.Tool, o RenderOptions) (string, bool) {
	turn := stub(gen)
	after, ok := t.after(history, turn, next, firstCall, tools, o)
	if !ok {
		return "", false
	}
	switch o.Ended {
	case Stopped:
		return t.afterStop(after, o.Stop)
	case CutInText:
		return t.closed(history, chat.Message{Role: chat.Assistant, Content: sentinel}, after, tools, o)
	}
	return t.closed(history, chat.Message{Role: chat.Assistant, Reasoning: sentinel}, after, tools, o)
}

// stub returns a turn that calls what gen calls and says nothing but the sentinel.
func stub(gen chat.Message) chat.Message {
	turn := chat.Message{Role: chat.Assistant, Content: sentinel}
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
	if at, token := firstOf(a.mid, t.stops); at >= 0 && at <= len(a.last) && a.mid[:at] == a.last[:at] {
		closing := strings.HasPrefix(a.last[at:], token) // else it begins the next message
		if closing || stop == "" || stop == token {
			return at, token
		}
		return at, ""
	}
	if at, _ := firstOf(a.last, t.stops); at >= 0 && at <= len(a.mid) && a.mid[:at] == a.last[:at] {
		// A turn in the middle is closed by another token than the last one is.
		if token := t.mark(a.mid[at:]); token != "" {
			return at, token
		}
		return -1, ""
	}
	if strings.HasPrefix(a.mid, a.last) {
		return len(a.last), ""
	}
	return -1, ""
}

// firstOf finds the first occurrence of any of the tokens, the longest where
// several begin.
func firstOf(text string, tokens []string) (int, string) {
	at, found := -1, ""
	for _, token := range tokens {
		i := strings.Index(text, token)
		if i >= 0 && (at < 0 || i < at || i == at && len(token) > len(found)) {
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
func (t *Template) closed(history []chat.Message, probe chat.Message, a tails, tools []chat.Tool, o RenderOptions) (string, bool) {
	rest, ok := t.rest(a)
	if !ok {
		return "", false
	}
	o.NoGenerationPrompt = true
	text, err := t.render(slices.Concat(history, []chat.Message{probe}), 0, tools, o)
	if err != nil {
		return "", false
	}
	i := strings.LastIndex(text, sentinel)
	if i < 0 {
		return t.closedUnseen(history, a, tools, o)
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
func (t *Template) closedUnseen(history []chat.Message, a tails, tools []chat.Tool, o RenderOptions) (string, bool) {
	text, ok := t.closed(history, chat.Message{Role: chat.Assistant, Content: sentinel}, a, tools, o)
	if !ok || !t.thinks {
		return "", false
	}
	return thinkEnd + text, true
}

// findStops collects the tokens that end a turn.
func (t *Template) findStops() []string {
	stops := append([]string{t.set.Tokens["eos_token"]}, t.set.Stops...)
	text, err := t.render(append(slices.Clone(stubHistory), stub(chat.Message{})), 0, nil, RenderOptions{NoGenerationPrompt: true})
	if i := strings.LastIndex(text, sentinel); err == nil && i >= 0 {
		stops = append(stops, t.mark(strings.TrimLeft(text[i+len(sentinel):], " \n")))
	}
	return longestFirst(stops)
}
