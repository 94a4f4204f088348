package parse

import "strings"

// pairCalls reads <tool_call>NAME with pairs of arg_key and arg_value. lined
// says that the name must end its line.
func (s *scanner) pairCalls(lined bool) {
	for {
		open := s.nextWrap()
		if open < 0 {
			return
		}
		r := pairReader{scanner: s, i: open + len(callOpen), lined: lined}
		r.read()
		c := Call{Name: r.name, Args: object(r.args), Flags: r.flags}
		c.Flags = addFlag(c.Flags, s.ts.check(r.name, keysOf(r.args))...)
		s.callTo(r.i, c)
	}
}

// A pairReader reads one wrapped call in key and value markup.
type pairReader struct {
	*scanner
	i     int
	lined bool
	name  string
	args  []member
	flags []Flag
}

func (r *pairReader) flag(f ...Flag) { r.flags = addFlag(r.flags, f...) }

// blanks skips what may stand between tags, a literal \n included.
func (r *pairReader) blanks() { r.i = skipGap(r.text, r.i) }

func (r *pairReader) read() {
	start := r.i
	mark, end := r.first(start, "\n", `\n`, keyOpen, callClose, callOpen)
	r.name, r.i = r.text[start:end], end
	if r.lined && mark != "\n" && mark != `\n` && mark != "" {
		r.flag(StrayTextInCall)
	}
	seen := map[string]bool{}
	for {
		r.blanks()
		switch {
		case r.at(r.i, keyOpen):
			r.pair(seen)
		case r.at(r.i, callClose):
			r.i += len(callClose)
			return
		case r.i == len(r.text):
			r.flag(r.unclosed()...)
			return
		case r.at(r.i, callOpen):
			r.flag(UnclosedCall)
			return
		default:
			r.stray()
		}
	}
}

// stray skips what is no tag of the call.
func (r *pairReader) stray() {
	r.flag(StrayTextInCall)
	if r.at(r.i, functionOpen) || r.at(r.i, "{") {
		r.flag(ForeignFormat)
	}
	_, r.i = r.first(r.i, keyOpen, callClose, callOpen)
}

// pair reads one key and its value. A value's closing tag counts only where
// the structure goes on behind it, and before the call ends.
func (r *pairReader) pair(seen map[string]bool) {
	start := r.i + len(keyOpen)
	mark, end := r.first(start, keyClose, valueOpen, keyOpen, callClose, callOpen)
	r.i = end
	if mark != keyClose {
		r.flag(UnclosedParam)
		return
	}
	key := r.text[start:end]
	if seen[key] {
		r.flag(DuplicateParam)
	}
	seen[key] = true
	r.i += len(keyClose)
	r.blanks()
	if !r.at(r.i, valueOpen) {
		r.flag(UnclosedParam)
		return
	}
	start = r.i + len(valueOpen)
	end, closed := r.valueEnd(start)
	r.i = end
	if closed {
		r.i += len(valueClose)
	} else {
		r.flag(UnclosedParam)
	}
	text := r.text[start:end]
	if containsAny(text, []string{keyOpen, keyClose, valueOpen, valueClose, callOpen, callClose}) {
		r.flag(MarkerInValue)
	}
	json, flags := spelling{untyped: true}.typed(text, r.ts.find(r.name).types(key))
	r.flag(flags...)
	r.args = append(r.args, member{strings.Clone(key), json})
}

func (r *pairReader) valueEnd(start int) (end int, closed bool) {
	limit := r.seek("end of a call", callClose, start, func(at int) bool {
		after := skipBlank(r.text, at+len(callClose))
		return after == len(r.text) || r.at(after, callOpen)
	})
	if limit < 0 {
		limit = len(r.text)
	}
	end = r.seek("end of a value", valueClose, start, func(at int) bool {
		after := skipGap(r.text, at+len(valueClose))
		return after == len(r.text) || r.at(after, keyOpen) || r.at(after, callClose)
	})
	if end < 0 || end > limit {
		end = r.next(valueClose, start)
	}
	if end < 0 || end > limit {
		return limit, false
	}
	return end, true
}
