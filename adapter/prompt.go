package adapter

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/template"
)

// A prompt is what the engine is given for one turn.
type prompt struct {
	ids   []int32
	known []int32 // what ids begins with, in the memory of the trajectory
	tail  string  // the end of its rendered text
}

// tailBytes is how much of the rendered text a parser may look at.
const tailBytes = 512

// prompt makes the prompt of a request. Where a recorded turn is continued it
// begins with that turn's very ids; only what follows is rendered and encoded.
func (ses *session) prompt(req *chat.Request) (prompt, error) {
	s := ses.server
	o := s.o.Render
	o.Kwargs = ses.opts.Kwargs
	if o.Now.IsZero() {
		o.Now = ses.opened // one that moved on would change the history
	}
	cont := ses.tree.Continue(req.Messages, req.Tools)
	if cont.IDs != nil {
		o := o
		o.Ended, o.Stop = ses.ended(cont.Turn)
		text, exact, err := s.o.Template.RenderFrom(req.Messages, cont.From, req.Tools, o)
		if err != nil {
			return prompt{}, err
		}
		if exact {
			ids := make([]int32, len(cont.IDs), len(cont.IDs)+len(text)/2+16)
			copy(ids, cont.IDs)
			return prompt{s.o.Tokenizer.AppendEncode(ids, text), cont.IDs, tail(text)}, nil
		}
	}
	text, err := s.o.Template.Render(req.Messages, req.Tools, o)
	if err != nil {
		return prompt{}, err
	}
	return prompt{ids: s.o.Tokenizer.AppendEncode(nil, text), tail: tail(text)}, nil
}

// mergeKwargs returns the template's variables of the server with those of a
// session, which win. Equal ones are spelled alike: by them the template keeps
// what it knows of itself.
func mergeKwargs(server, session json.RawMessage) (json.RawMessage, error) {
	merged := map[string]json.RawMessage{}
	for _, raw := range []json.RawMessage{server, session} {
		if len(raw) == 0 {
			continue
		}
		if err := template.CheckKwargs(raw); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &merged); err != nil {
			return nil, err
		}
	}
	if len(merged) == 0 {
		return nil, nil
	}
	return json.Marshal(merged)
}

func tail(text string) string {
	if len(text) <= tailBytes {
		return text
	}
	return text[len(text)-tailBytes:]
}

// An ending is how a turn ended: what the template has to know to go on.
type ending struct {
	how  template.Ended
	stop string // text of the token that ended it
}

// ended returns how a recorded turn ended, and by which token.
func (ses *session) ended(turn string) (template.Ended, string) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	e := ses.endings[turn]
	return e.how, e.stop
}

// noteEnding remembers how a turn ended.
func (ses *session) noteEnding(turn string, out output, thinking bool) {
	e := ending{how: template.CutInText}
	if id, stopped := out.finish.StopID(); stopped {
		e = ending{template.Stopped, ses.server.o.Tokenizer.Decode([]int32{id})}
	} else if thinking {
		e.how = template.CutInReasoning
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.endings[turn] = e
}

// A reading is what a turn's tokens say.
type reading struct {
	answer    chat.Answer
	illFormed bool
	thinking  bool // the thought never ended
}

// read parses what was sampled. The stop token is taken off by its id: as text
// it would reach the client, and come back as a token that means something.
func (ses *session) read(req *chat.Request, p prompt, out output) (reading, error) {
	s := ses.server
	ids := out.ids
	if id, ok := out.finish.StopID(); ok && len(ids) > 0 && ids[len(ids)-1] == id {
		ids = ids[:len(ids)-1]
	}
	text := s.o.Tokenizer.Decode(ids)
	stop, stopped := out.finish.StopString()
	if stopped {
		text = beforeStop(text, stop)
	}
	res := s.o.Parser.Parse(parse.Input{
		Text: text, Tools: req.Tools, PromptTail: p.tail, Cut: out.finish.Type != chat.FinishStop,
		IDs: ids, Specials: s.specials, Decode: s.o.Tokenizer.Decode,
	})
	if res.Err != nil { // a server reads the output, and could not
		return reading{}, &sglang.Error{Kind: sglang.Unavailable, Message: "read the output", Attempts: 1, Err: res.Err}
	}
	a := chat.Answer{
		Reasoning: res.Reasoning, Text: res.Text, Finish: out.finish.Type,
		Prompt: len(p.ids), Output: len(out.ids), Cached: out.cached,
	}
	if stopped && slices.Contains(req.Stop, stop) {
		a.Stop = stop
	}
	for _, c := range res.Calls {
		a.Calls = append(a.Calls, chat.ToolCall{Name: c.Name, Arguments: chat.Arguments(string(c.Args))})
	}
	before := callsBefore(text, res)
	for i, c := range res.Withheld {
		a.Malformed = append(a.Malformed, chat.Malformed{Name: c.Name, Raw: c.Raw, Before: before[i]})
	}
	return reading{a, res.IllFormed(), slices.Contains(res.Flags, parse.ThinkUnclosed)}, nil
}

// callsBefore returns for each call that was withheld how many others text has
// before it.
func callsBefore(text string, res parse.Result) []int {
	before := make([]int, len(res.Withheld))
	calls := 0
	for i, c := range res.Withheld {
		at := strings.Index(text, c.Raw)
		for calls < len(res.Calls) {
			other := strings.Index(text, res.Calls[calls].Raw)
			if at >= 0 && other >= 0 && at < other {
				break
			}
			if other >= 0 {
				text = text[other+len(res.Calls[calls].Raw):]
				at = strings.Index(text, c.Raw)
			}
			calls++
		}
		before[i] = calls
		if at >= 0 {
			text = text[at+len(c.Raw):]
		}
	}
	return before
}

// beforeStop cuts text where the stop string that ended it begins; the token
// that completed it may reach beyond.
func beforeStop(text, stop string) string {
	if i := strings.LastIndex(text, stop); i >= 0 {
		return text[:i]
	}
	return text
}
