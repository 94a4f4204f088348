package parse

import "strings"

const (
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
)

// hermesFormat is JSON in <tool_call>…</tool_call>. One broken call loses all
// in SGLang, and an open last block is read if its JSON ends with the text.
func hermesFormat() toolFormat {
	return toolFormat{names: []string{"hermes"}, marks: []string{callOpen}, compat: hermesCompat, strict: func(s *scanner) { s.wrappedJSON("") }}
}

// qwen25Format is the same with a line end inside both tags, which SGLang
// demands; a broken call is dropped alone, an open one is none.
func qwen25Format() toolFormat {
	return toolFormat{names: []string{"qwen25", "qwen"}, marks: []string{callOpen}, compat: qwen25Compat, strict: func(s *scanner) { s.wrappedJSON("\n") }}
}

func hermesCompat(text string, ts *toolset) compatResult {
	start := strings.Index(text, callOpen)
	if start < 0 {
		return compatResult{}
	}
	out := compatResult{found: true, text: pyStrip(text[:start])}
	for rest := text[start:]; rest != ""; {
		body, after, closed := strings.Cut(rest[len(callOpen):], callClose)
		rest = ""
		if closed {
			if next := strings.Index(after, callOpen); next >= 0 {
				rest = after[next:]
			}
		}
		if body == "" {
			continue
		}
		v, err := pyLoads(pyStrip(body))
		if err != nil {
			return compatResult{found: true}
		}
		calls, err := baseJSON(v, ts)
		if err != nil {
			return compatResult{found: true}
		}
		out.calls = append(out.calls, calls...)
	}
	return out
}

func qwen25Compat(text string, ts *toolset) compatResult {
	const open, end = callOpen + "\n", "\n" + callClose
	start := strings.Index(text, open)
	if start < 0 {
		return compatResult{}
	}
	out := compatResult{found: true, text: pyStrip(text[:start])}
	for rest := text[start:]; ; {
		body, after, closed := strings.Cut(rest[len(open):], end)
		if !closed {
			return out
		}
		v, err := pyLoads(pyStrip(body))
		if err == nil {
			var calls []Call
			if calls, err = baseJSON(v, ts); err == nil {
				out.calls = append(out.calls, calls...)
			}
		}
		if err != nil && err != errDecode {
			return compatResult{found: true, failed: true}
		}
		next := strings.Index(after, open)
		if next < 0 {
			return out
		}
		rest = after[next:]
	}
}

// wrappedJSON reads <tool_call> JSON </tool_call>; edge is what must stand
// inside both tags.
func (s *scanner) wrappedJSON(edge string) {
	for {
		open := s.nextWrap()
		if open < 0 {
			return
		}
		body := open + len(callOpen)
		start := skipBlank(s.text, body)
		v := scanJSON(s.text, start)
		end := skipBlank(s.text, v.end)
		if !v.ok || !s.at(end, callClose) {
			s.brokenWrap(body, start, v)
			continue
		}
		c := s.jsonCall(start, v, callOpen, callClose)
		if !strings.HasPrefix(s.text[body:start], edge) || !strings.HasSuffix(s.text[v.end:end], edge) {
			c.Flags = addFlag(c.Flags, StrayTextInCall)
		}
		s.callTo(end+len(callClose), c)
	}
}

// nextWrap makes everything up to the next <tool_call> text and returns where
// that stands, or -1. A closing tag in the text closes nothing and is flagged.
func (s *scanner) nextWrap() int {
	open, stray := s.next(callOpen, s.pos), s.next(callClose, s.pos)
	if stray >= 0 && (open < 0 || stray < open) {
		s.note(StrayTextInCall)
	}
	if open >= 0 {
		s.textTo(open)
	}
	return open
}

// brokenWrap lays out a wrapper whose content is not one JSON value: up to its
// closing tag, to the next opening one, or to the text's end.
func (s *scanner) brokenWrap(body, start int, v jsonValue) {
	end, closed := s.wrapEnd(body)
	var c Call
	if v.ok {
		c = s.jsonCall(start, v, callOpen, callClose)
	} else {
		c = broken(append([]Flag{InvalidJSONArgs}, v.flags...)...)
	}
	switch {
	case !closed:
		c.Flags = addFlag(c.Flags, s.unclosed()...)
	case v.ok:
		c.Flags = addFlag(c.Flags, StrayTextInCall)
	}
	if strings.HasPrefix(s.text[start:end], "<function=") || s.next("<arg_key>", body) >= 0 && s.next("<arg_key>", body) < end {
		c.Flags = addFlag(c.Flags, ForeignFormat)
	}
	s.callTo(end, c)
}

// wrapEnd returns where the <tool_call> whose content begins at body ends, and
// whether by its own closing tag.
func (s *scanner) wrapEnd(body int) (end int, closed bool) {
	open, end := s.next(callOpen, body), s.next(callClose, body)
	switch {
	case end >= 0 && (open < 0 || end < open):
		return end + len(callClose), true
	case open >= 0:
		return open, false
	}
	return len(s.text), false
}
