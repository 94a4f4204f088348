package parse

import (
	"encoding/json"
	"strings"
)

// Parse reads one output: the reasoning first, then the calls in what follows
// it, then the text. Where the tool format finds no call, calls in parameter
// markup (<tool_call><function=…>) are looked for.
func (p *Parser) Parse(in Input) Result {
	if p.mode == Compat {
		return p.compat(in)
	}
	return p.strict(in)
}

// compat composes what SGLang's parsers return.
func (p *Parser) compat(in Input) Result {
	var out Result
	body := in.Text
	if p.reasoning != nil {
		out.Reasoning, body = p.reasoning.split(body, p.reasoning.fromTail(in.PromptTail))
	}
	if before, after, ok := strings.Cut(body, thinkClose); ok && out.Reasoning == "" && p.reasoning != nil {
		out.Reasoning, body = before, after
	}
	ts := newToolset(in.Tools)
	got := ToolResult{Text: body}
	if p.tool != nil {
		got = p.tool.readCompat(body, ts, in.Cut)
	}
	if len(got.Calls) == 0 && !ts.empty() {
		if text, calls := fallbackCompat(body, ts); len(calls) > 0 {
			got.Text, got.Calls = text, calls
		}
	}
	out.Text = pyStrip(got.Text)
	out.Calls = got.Calls
	out.Flags = got.Flags
	for i, c := range out.Calls {
		if _, err := pyLoads(string(c.Args)); err != nil {
			out.Calls[i].Flags = addFlag(c.Flags, InvalidJSONArgs)
			out.Flags = addFlag(out.Flags, InvalidJSONArgs)
		}
	}
	return out
}

// fallbackCompat reads calls in parameter markup: known names only, and every
// value a string without blanks at its ends.
func fallbackCompat(text string, ts *toolset) (rest string, calls []Call) {
	var kept strings.Builder
	from := 0
	for _, m := range fallbackBlocks(text) {
		if ts.find(m.name) == nil {
			continue
		}
		args := dictValue()
		for _, p := range fallbackParams(m.body) {
			args.set(strValue(p[0]), strValue(pyStrip(p[1])))
		}
		dumped, _ := pyDumps(args.value())
		calls = append(calls, Call{Name: m.name, Args: json.RawMessage(dumped), Raw: text[m.start:m.end]})
		kept.WriteString(text[from:m.start])
		from = m.end
	}
	return kept.String() + text[from:], calls
}

// A fallbackBlock is <tool_call> <function=name> body </function> </tool_call>
// with nothing but blanks between the tags.
type fallbackBlock struct {
	start, end int
	name, body string
}

func fallbackBlocks(text string) []fallbackBlock {
	var out []fallbackBlock
	ends := finder{text: text, markup: functionClose}
	for from := 0; ; {
		start := indexFrom(text, callOpen, from)
		if start < 0 {
			return out
		}
		from = start + 1
		open := skipSpace(text, start+len(callOpen))
		if !strings.HasPrefix(text[open:], functionOpen) {
			continue
		}
		open += len(functionOpen)
		size := strings.IndexByte(text[open:], '>')
		if size < 1 {
			continue
		}
		body := open + size + 1
		end, after := fallbackEnd(text, &ends, body)
		if end < 0 {
			return out
		}
		out = append(out, fallbackBlock{start, after, text[open : body-1], text[body:end]})
		from = after
	}
}

// fallbackEnd finds the first </function> that </tool_call> follows.
func fallbackEnd(text string, ends *finder, body int) (end, after int) {
	for at := ends.next(body); at >= 0; at = ends.next(at + 1) {
		i := skipSpace(text, at+len(functionClose))
		if strings.HasPrefix(text[i:], callClose) {
			return at, i + len(callClose)
		}
	}
	return -1, -1
}

func fallbackParams(body string) [][2]string {
	var out [][2]string
	for {
		_, after, ok := strings.Cut(body, paramOpen)
		if !ok {
			return out
		}
		name, after, ok := strings.Cut(after, ">")
		if !ok {
			return out
		}
		if name == "" {
			body = after
			continue
		}
		text, rest, ok := strings.Cut(after, paramClose)
		if !ok {
			return out
		}
		out = append(out, [2]string{name, text})
		body = rest
	}
}

// skipSpace skips what a regular expression's \s matches.
func skipSpace(s string, i int) int {
	return len(s) - len(strings.TrimLeftFunc(s[i:], pySpace))
}

// strict composes the spans of the reasoning and of what follows it.
func (p *Parser) strict(in Input) Result {
	if p.harmony() {
		return p.messages(in)
	}
	t, flags := p.thought(in)
	got := p.calls(in.Text[t.rest:], newToolset(in.Tools), in.Cut).result()
	out := Result{
		Reasoning: in.Text[t.start:t.end], Text: pyStrip(got.Text), Residue: got.Residue,
		Calls: got.Calls, Withheld: got.Withheld, Flags: addFlag(flags, got.Flags...),
	}
	if t.rest > 0 {
		out.Spans = []Span{{SpanReasoning, 0, t.rest}}
	}
	for _, sp := range got.Spans {
		out.Spans = append(out.Spans, Span{sp.Kind, sp.Start + t.rest, sp.End + t.rest})
	}
	return out
}

// harmony reports whether outputs are messages on channels, which are read in
// one pass.
func (p *Parser) harmony() bool {
	return p.reasoning != nil && p.reasoning.harmony || p.tool != nil && p.tool.names[0] == "gpt-oss"
}

// messages reads an output in harmony, token by token where the ids are given.
func (p *Parser) messages(in Input) Result {
	text, marks, exact := harmonyInput(in)
	s := newScanner(text, newToolset(in.Tools), in.Cut)
	if !exact {
		marks = harmonyTextMarks(text)
	}
	s.harmonyMessages(marks, exact)
	s.finish()
	if p.tool == nil || p.tool.names[0] != "gpt-oss" {
		for i := range s.calls {
			s.calls[i].Flags = addFlag(s.calls[i].Flags, ForeignFormat)
		}
	}
	got := s.result()
	return Result{
		Reasoning: s.join(SpanReasoning), Text: pyStrip(got.Text), Residue: got.Residue,
		Calls: got.Calls, Withheld: got.Withheld, Flags: got.Flags, Spans: got.Spans,
	}
}

// calls reads the calls in what follows the reasoning.
func (p *Parser) calls(body string, ts *toolset, cut bool) *scanner {
	if p.tool == nil {
		return p.fallback(body, ts, cut)
	}
	s := p.tool.readStrict(body, ts, cut)
	if len(s.calls) > 0 || !strings.Contains(body, functionOpen) {
		return s
	}
	if x := p.fallback(body, ts, cut); len(x.calls) > 0 {
		return x
	}
	return s
}

// fallback reads calls to known tools in parameter markup; others are text.
// Where the model has another format they are flagged as foreign.
func (p *Parser) fallback(body string, ts *toolset, cut bool) *scanner {
	f := qwen3CoderFormat()
	s := f.readStrict(body, ts, cut)
	known := s.calls[:0]
	for _, c := range s.calls {
		if ts.find(c.Name) == nil {
			s.spans[c.span].Kind = SpanText
			continue
		}
		if p.tool != nil {
			c.Flags = addFlag(c.Flags, ForeignFormat)
		}
		known = append(known, c)
	}
	s.calls = known
	if len(known) == 0 {
		s.flags = nil
	}
	return s
}

// thought finds the reasoning of an input in strict mode: as SGLang does, but
// the prompt's end has the last word on whether a thought is open.
func (p *Parser) thought(in Input) (thought, []Flag) {
	f := p.reasoning
	if f == nil {
		return thought{}, nil
	}
	text := in.Text
	force := f.fromTail(in.PromptTail)
	open := f.open(force) || force != nil && *force
	if in.PromptTail != "" {
		open = open && (force == nil || *force)
		open = open || strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), f.start)
	} else {
		open = open || strings.Contains(text, f.start)
	}
	t := f.find(text, open)
	var flags []Flag
	if open && !t.closed {
		flags = append(flags, ThinkUnclosed)
		if p.tool != nil && !t.byCall && p.tool.opens(text[t.start:t.end]) {
			flags = append(flags, CallInOpenThink)
		}
	}
	if i := strings.Index(text, thinkClose); !open && force == nil && i >= 0 {
		t = thought{start: 0, end: i, rest: i + len(thinkClose), closed: true}
	}
	return t, flags
}

// fromTail says whether the prompt leaves a thought open: true or false where
// its end has one, nil where it says nothing.
func (f *reasoningFormat) fromTail(tail string) *bool {
	open, end := strings.LastIndex(tail, f.start), strings.LastIndex(tail, f.end)
	is := open > end
	if !is && (end < 0 || strings.TrimSpace(tail[end+len(f.end):]) != "") {
		return nil
	}
	return &is
}
