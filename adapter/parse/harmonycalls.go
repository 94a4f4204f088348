package parse

import "strings"

// A harmonyMark is a special token of the format in a text.
type harmonyMark struct {
	mark string
	at   int
}

func (m harmonyMark) end() int { return m.at + len(m.mark) }

// harmonyCalls reads messages by the special tokens that are written out in
// the text.
func (s *scanner) harmonyCalls() { s.harmonyMessages(harmonyTextMarks(s.text), false) }

func harmonyTextMarks(text string) []harmonyMark {
	var marks []harmonyMark
	for i := strings.Index(text, "<|"); i >= 0; {
		next := i + len("<|")
		if mark := markAt(text, i, harmonyMarks()); mark != "" {
			marks = append(marks, harmonyMark{mark, i})
			next = i + len(mark)
		}
		i = indexFrom(text, "<|", next)
	}
	return marks
}

// A harmonyMessages reader goes through the marks. exact says that they are
// tokens, and nothing else in the text is one.
type harmonyMessages struct {
	*scanner
	marks    []harmonyMark
	n        int // the next mark
	exact    bool
	returned bool // <|return|> has ended the turn
}

func (s *scanner) harmonyMessages(marks []harmonyMark, exact bool) {
	r := harmonyMessages{scanner: s, marks: marks, exact: exact}
	for r.n < len(r.marks) {
		m := r.marks[r.n]
		if m.mark == hStart || m.mark == hChannel || m.mark == hMessage {
			r.message()
			continue
		}
		r.between(m.at)
		s.note(StrayTextInCall)
		s.residueTo(m.end())
		r.n++
	}
}

// between makes what stands before a message text, but for a header that its
// beginning was cut off: " to=functions.x" before <|channel|>.
func (r *harmonyMessages) between(at int) {
	if strings.TrimSpace(r.text[r.pos:at]) == "" && len(r.spans) > 0 {
		r.extendOver(at)
		return
	}
	r.textTo(at)
}

// extendOver adds blanks between messages to the one before.
func (r *harmonyMessages) extendOver(end int) {
	if end > r.pos {
		r.spans[len(r.spans)-1].End = end
		r.pos = end
	}
}

// message reads one message from its first mark on.
func (r *harmonyMessages) message() {
	start := r.marks[r.n].at
	if head := r.text[r.pos:start]; len(r.spans) == 0 && r.marks[r.n].mark == hChannel && strings.HasPrefix(strings.TrimSpace(head), "to=") {
		start = r.pos
	}
	if r.marks[r.n].mark == hChannel && start > r.pos && strings.TrimSpace(r.text[r.pos:start]) != "" {
		r.note(StrayTextInCall)
	}
	r.between(start)
	h := r.header(start)
	switch {
	case !h.ok:
		r.brokenHeader(h)
	case h.to != "":
		r.call(h)
	default:
		from := r.marks[r.n].end()
		r.n++
		end, mark := r.end(from)
		r.content(h, from, end, mark)
	}
}

// brokenHeader lays out a header that no <|message|> ends: a call that was cut
// off, or markup of nothing.
func (r *harmonyMessages) brokenHeader(h harmonyHeader) {
	r.note(NameMalformed)
	if r.n < len(r.marks) {
		r.residueTo(r.marks[r.n].at)
		return
	}
	if h.to != "" {
		r.callTo(len(r.text), broken(append(r.unclosed(), NameMalformed)...))
		return
	}
	r.residueTo(len(r.text))
}

// A harmonyHeader is what stands before <|message|>.
type harmonyHeader struct {
	role, channel, to string
	plainType         bool // a content type without <|constrain|>, or none
	ok                bool
}

// plain reports whether the message is the assistant's, on a known channel.
func (h harmonyHeader) plain() bool {
	switch h.channel {
	case "", "analysis", "commentary", "final":
		return h.role == "" || h.role == "assistant"
	}
	return false
}

// header reads up to the next <|message|>, which becomes the next mark. One
// that another message's start or end interrupts is broken.
func (r *harmonyMessages) header(start int) harmonyHeader {
	h := harmonyHeader{plainType: true}
	from, part := start, ""
	for ; r.n < len(r.marks); r.n++ {
		m := r.marks[r.n]
		text := r.text[min(from, m.at):m.at]
		h.read(part, text)
		switch {
		case m.mark == hMessage:
			h.ok = true
			return h
		case m.mark == hStart && part != "", m.mark == hEnd, m.mark == hCall, m.mark == hReturn:
			if r.marks[r.n].mark != hStart {
				r.n++
			}
			return h
		}
		part, from = m.mark, m.end()
	}
	h.read(part, r.text[min(from, len(r.text)):])
	return h
}

// read takes the words behind a mark of the header.
func (h *harmonyHeader) read(mark, text string) {
	if mark == hConstrain {
		h.plainType = strings.TrimSpace(text) != "json"
		return
	}
	for i, word := range strings.Fields(text) {
		if to, ok := strings.CutPrefix(word, "to="); ok {
			h.to = strings.TrimPrefix(to, "assistant") // what a tool answers, if the model makes it up
		} else if i == 0 && mark == hChannel {
			h.channel = word
		} else if i == 0 && mark == hStart {
			h.role = word
		}
	}
}

// end returns where the message's content ends and the mark that ends it; ""
// is the text's end. A message that another's start cuts off has no mark.
func (r *harmonyMessages) end(from int) (int, string) {
	for ; r.n < len(r.marks); r.n++ {
		switch m := r.marks[r.n]; m.mark {
		case hEnd, hCall, hReturn:
			r.n++
			return m.at, m.mark
		case hStart:
			if r.exact || strings.HasPrefix(r.text[m.end():], "assistant") {
				return m.at, ""
			}
		}
	}
	return len(r.text), ""
}

// content lays out a message that is no call.
func (r *harmonyMessages) content(h harmonyHeader, from, end int, mark string) {
	kind := SpanText
	if h.channel == "analysis" {
		kind = SpanReasoning
	}
	if !h.plain() {
		r.note(NameMalformed)
		kind = SpanResidue
	}
	if mark == "" && kind == SpanReasoning && (r.cut || end < len(r.text) || !r.exact) {
		r.note(ThinkUnclosed)
	}
	if mark == hCall {
		r.note(NameMalformed)
	}
	r.markedTo(end+len(mark), kind, from, end)
	r.returned = r.returned || mark == hReturn
}

// call reads a message to a tool. Its arguments are JSON up to <|call|>; where
// marks may be text, the JSON says where it ends.
func (r *harmonyMessages) call(h harmonyHeader) {
	from := r.marks[r.n].end()
	r.n++
	c := Call{Name: strings.TrimPrefix(h.to, "functions.")}
	if h.channel == "final" || h.channel == "" || !h.plain() {
		c.Flags = addFlag(c.Flags, NameMalformed)
	}
	if r.returned {
		c.Flags = addFlag(c.Flags, StrayTextInCall)
	}
	if h.plainType {
		r.note(StrayTextInCall)
	}
	first := r.n
	start := skipSpace(r.text, from)
	if v := scanJSON(r.text, start); v.ok && !r.exact {
		for r.n < len(r.marks) && r.marks[r.n].at < v.end {
			r.n++
			c.Flags = addFlag(c.Flags, MarkerInValue)
		}
		if end := skipSpace(r.text, v.end); r.n == len(r.marks) && end < len(r.text) || r.n < len(r.marks) && r.marks[r.n].at != end {
			r.n = first // it is no JSON up to the mark
		}
	}
	end, mark := r.end(from)
	args := strings.TrimSpace(r.text[from:end])
	if args == "" {
		args = "{}"
	}
	c = r.withArgs(c, args)
	switch {
	case mark == hCall:
	case mark == "" && end == len(r.text) && r.exact && !r.cut: // the stop token, which was taken off
	case mark == "":
		c.Flags = addFlag(c.Flags, r.unclosed()...)
	default:
		c.Flags = addFlag(c.Flags, UnclosedCall)
	}
	r.callTo(end+len(mark), c)
}
