package parse

import (
	"encoding/json"
	"strings"
)

// A scanner reads a text from left to right in strict mode and lays it out in
// spans. A format's reader only ever moves forward, so that any input takes
// linear time.
type scanner struct {
	text  string
	ts    *toolset
	cut   bool
	pos   int // everything before it lies in a span
	spans []Span
	calls []scanned // one for each SpanCall, in order
	flags []Flag
	marks map[string]*mark
	inner map[int][2]int // of a span by its index: what is said without markup
}

// A scanned is a call with its place in the text.
type scanned struct {
	Call
	span int
}

// A mark remembers where a piece of markup stands next, so that asking again
// costs nothing.
type mark struct{ from, at int }

func newScanner(text string, ts *toolset, cut bool) *scanner {
	return &scanner{text: text, ts: ts, cut: cut, marks: map[string]*mark{}}
}

// readStrict lays a text out. Without tools all of it is text.
func (f *toolFormat) readStrict(text string, ts *toolset, cut bool) *scanner {
	s := newScanner(text, ts, cut)
	if !ts.empty() {
		f.strict(s)
	}
	s.finish()
	return s
}

// finish makes the rest text.
func (s *scanner) finish() {
	s.textTo(len(s.text))
	s.noteTextAfter()
}

// seek returns where markup that fits stands at or after from, or -1. key
// names the condition; growing from take one pass over the text.
func (s *scanner) seek(key, markup string, from int, fits func(at int) bool) int {
	m := s.marks[key]
	if m == nil {
		m = &mark{from: -1}
		s.marks[key] = m
	}
	if m.from >= 0 && from >= m.from && (m.at < 0 || m.at >= from) {
		return m.at
	}
	m.from, m.at = from, -1
	for at := from; at <= len(s.text); at++ {
		i := strings.Index(s.text[at:], markup)
		if i < 0 {
			break
		}
		if at += i; fits(at) {
			m.at = at
			break
		}
	}
	return m.at
}

// next returns where the markup stands at or after from, or -1. Calls with
// growing from together take one pass over the text.
func (s *scanner) next(markup string, from int) int {
	return s.seek(markup, markup, from, func(int) bool { return true })
}

// first returns which of the markups stands next, and where; at is len(text)
// where none does.
func (s *scanner) first(from int, markups ...string) (markup string, at int) {
	at = len(s.text)
	for _, m := range markups {
		if i := s.next(m, from); i >= 0 && i < at {
			markup, at = m, i
		}
	}
	return markup, at
}

// at reports whether the markup stands at i.
func (s *scanner) at(i int, markup string) bool {
	return strings.HasPrefix(s.text[i:], markup)
}

func (s *scanner) to(end int, kind SpanKind) {
	if end <= s.pos {
		return
	}
	if n := len(s.spans); n > 0 && s.spans[n-1].Kind == kind && kind != SpanCall && !s.marked(n-1) {
		s.spans[n-1].End = end
	} else {
		s.spans = append(s.spans, Span{kind, s.pos, end})
	}
	s.pos = end
}

// markedTo makes everything up to end a span of its own, of which only
// text[from:to] is what is said.
func (s *scanner) markedTo(end int, kind SpanKind, from, to int) {
	if end <= s.pos {
		return
	}
	if s.inner == nil {
		s.inner = map[int][2]int{}
	}
	s.inner[len(s.spans)] = [2]int{from, to}
	s.spans = append(s.spans, Span{kind, s.pos, end})
	s.pos = end
}

func (s *scanner) marked(span int) bool {
	_, ok := s.inner[span]
	return ok
}

// textTo makes everything up to end text.
func (s *scanner) textTo(end int) { s.to(end, SpanText) }

// residueTo makes everything up to end residue.
func (s *scanner) residueTo(end int) { s.to(end, SpanResidue) }

// callTo makes everything up to end a call.
func (s *scanner) callTo(end int, c Call) {
	if end <= s.pos {
		return
	}
	s.to(end, SpanCall)
	s.calls = append(s.calls, scanned{c, len(s.spans) - 1})
}

// extendTo adds what stands up to end to the call before it; where there is
// none it is residue.
func (s *scanner) extendTo(end int) {
	n := len(s.spans)
	if n == 0 || s.spans[n-1].Kind != SpanCall {
		s.residueTo(end)
		return
	}
	if end > s.pos {
		s.spans[n-1].End = end
		s.pos = end
	}
}

// note adds flags of the whole text.
func (s *scanner) note(flags ...Flag) { s.flags = addFlag(s.flags, flags...) }

// unclosed returns the flags of a call that the text's end leaves open.
func (s *scanner) unclosed() []Flag {
	if s.cut {
		return []Flag{UnclosedCall, Truncated}
	}
	return []Flag{UnclosedCall}
}

// noteTextAfter flags text other than blanks behind a call.
func (s *scanner) noteTextAfter() {
	call := false
	for _, sp := range s.spans {
		if call && sp.Kind == SpanText && strings.TrimSpace(s.text[sp.Start:sp.End]) != "" {
			s.note(TextAfterCall)
		}
		call = call || sp.Kind == SpanCall
	}
}

// result delivers what may be run and withholds the rest.
func (s *scanner) result() ToolResult {
	out := ToolResult{Spans: s.spans, Flags: s.allFlags()}
	out.Text = s.join(SpanText)
	out.Residue = s.join(SpanResidue)
	for _, c := range s.calls {
		c.Raw = s.raw(c)
		if withholds(c.Flags) {
			out.Withheld = append(out.Withheld, c.Call)
		} else {
			out.Calls = append(out.Calls, c.Call)
		}
	}
	return out
}

func (s *scanner) raw(c scanned) string {
	return s.text[s.spans[c.span].Start:s.spans[c.span].End]
}

func (s *scanner) join(kind SpanKind) string {
	var b strings.Builder
	for i, sp := range s.spans {
		if sp.Kind != kind {
			continue
		}
		if said, ok := s.inner[i]; ok {
			sp.Start, sp.End = said[0], said[1]
		}
		b.WriteString(s.text[sp.Start:sp.End])
	}
	return b.String()
}

func (s *scanner) allFlags() []Flag {
	out := addFlag(nil, s.flags...)
	for _, c := range s.calls {
		out = addFlag(out, c.Flags...)
	}
	return out
}

// lend gives the calls that SGLang reads the flags and the raw text of the
// strict ones: by place where both read equally many, else by name in order.
func (s *scanner) lend(calls []Call) []Call {
	next := 0
	for i := range calls {
		at := i
		if len(calls) != len(s.calls) {
			at = next
			for at < len(s.calls) && s.calls[at].Name != calls[i].Name {
				at++
			}
		}
		if at >= len(s.calls) {
			continue
		}
		next = at + 1
		calls[i].Raw = s.raw(s.calls[at])
		calls[i].Flags = addFlag(calls[i].Flags, s.calls[at].Flags...)
	}
	return calls
}

// object writes members as a JSON object.
func object(members []member) json.RawMessage {
	b := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendQuoted(b, m.key)
		b = append(b, ": "...)
		b = append(b, m.json...)
	}
	return append(b, '}')
}

// A member is a key of a JSON object with its value's JSON.
type member struct{ key, json string }
