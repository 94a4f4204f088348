package parse

import "strings"

// markupCalls reads <tool_call> with one function and its parameters in it.
// inline values are not set off by line ends.
func (s *scanner) markupCalls(inline bool) {
	for {
		open := s.nextWrap()
		if open < 0 {
			return
		}
		r := markupReader{scanner: s, i: open + len(callOpen), inline: inline}
		r.wrapper()
		c := r.call()
		s.callTo(r.i, c)
	}
}

// A markupReader reads one wrapped call in parameter markup. It goes on as far
// as the structure can be followed and collects what is wrong.
type markupReader struct {
	*scanner
	i      int
	inline bool
	name   string
	args   []member
	flags  []Flag
	ended  bool // what follows is no longer this call's
}

func (r *markupReader) flag(f ...Flag) { r.flags = addFlag(r.flags, f...) }

func (r *markupReader) call() Call {
	c := Call{Name: r.name, Args: object(r.args), Flags: r.flags}
	c.Flags = addFlag(c.Flags, r.ts.check(r.name, keysOf(r.args))...)
	return c
}

// wrapper reads from behind <tool_call> to the end of the call.
func (r *markupReader) wrapper() {
	r.blanks()
	for r.at(r.i, callOpen) {
		r.flag(StrayTextInCall)
		r.i += len(callOpen)
		r.blanks()
	}
	if !r.at(r.i, functionOpen) {
		r.foreign()
		return
	}
	r.function()
	r.blanks()
	if r.ended {
		return
	}
	if r.at(r.i, callClose) {
		r.i += len(callClose)
		r.doubleClose()
		return
	}
	end, closed := r.wrapEnd(r.i)
	if closed {
		r.flag(StrayTextInCall)
	} else {
		r.flag(r.unclosed()...)
	}
	r.i = end
}

// doubleClose takes a second closing tag for part of a call that was opened
// twice.
func (r *markupReader) doubleClose() {
	at := r.i
	r.blanks()
	if r.at(r.i, callClose) {
		r.flag(StrayTextInCall)
		r.i += len(callClose)
		return
	}
	r.i = at
}

// foreign lays out a wrapper without a function.
func (r *markupReader) foreign() {
	end, closed := r.wrapEnd(r.i)
	body := strings.TrimSuffix(r.text[r.i:end], callClose)
	r.flag(NameMalformed)
	if !closed {
		r.flag(r.unclosed()...)
	}
	if strings.TrimSpace(body) != "" && closed {
		r.flag(ForeignFormat)
	}
	r.i = end
}

// blanks skips the blanks that may stand between tags.
func (r *markupReader) blanks() {
	for r.i < len(r.text) && (r.text[r.i] == ' ' || r.text[r.i] == '\t' || r.text[r.i] == '\n' || r.text[r.i] == '\r') {
		if r.text[r.i] == '\r' {
			r.flag(StrayTextInCall)
		}
		r.i++
	}
}

// openTag reads a tag's name up to the ">", which must come before the next
// line end or tag.
func (r *markupReader) openTag(tag string) (name string, ok bool) {
	start := r.i + len(tag)
	end := start
	for end < len(r.text) && r.text[end] != '>' && r.text[end] != '\n' && r.text[end] != '<' {
		end++
	}
	if end == len(r.text) || r.text[end] != '>' {
		r.i = end
		return r.text[start:end], false
	}
	r.i = end + 1
	return r.text[start:end], true
}

func (r *markupReader) function() {
	var ok bool
	if r.name, ok = r.openTag(functionOpen); !ok {
		r.flag(NameMalformed)
	}
	seen := map[string]bool{}
	for {
		r.blanks()
		switch {
		case r.at(r.i, paramOpen):
			r.param(seen)
		case r.at(r.i, functionClose):
			r.i += len(functionClose)
			return
		case r.i == len(r.text):
			r.flag(r.unclosed()...)
			r.ended = true
			return
		case r.at(r.i, callClose) || r.at(r.i, callOpen):
			r.flag(UnclosedCall)
			return
		default:
			r.stray()
		}
	}
}

// stray skips what is no tag of the call.
func (r *markupReader) stray() {
	if r.i+1 < len(r.text) || r.text[r.i] != '<' {
		r.flag(StrayTextInCall)
	}
	next := len(r.text)
	for _, tag := range []string{paramOpen, functionClose, callClose, callOpen} {
		if at := r.next(tag, r.i); at >= 0 && at < next {
			next = at
		}
	}
	r.i = next
}

// param reads one parameter. Its closing tag counts only where the structure
// goes on behind it; other markup in the value is flagged, for where the value
// ends is then a guess. HTML may have <parameter> elements of its own.
func (r *markupReader) param(seen map[string]bool) {
	key, ok := r.openTag(paramOpen)
	if !ok {
		r.flag(NameMalformed, UnclosedParam)
		return
	}
	if seen[key] {
		r.flag(DuplicateParam)
	}
	seen[key] = true
	start := r.i
	end, closed := r.valueEnd(start)
	text := r.text[start:end]
	r.i = end
	if closed {
		r.i += len(paramClose)
	} else {
		r.flag(UnclosedParam)
	}
	if containsAny(text, []string{paramOpen, functionOpen, functionClose, callOpen, callClose}) ||
		strings.Count(text, paramClose) > strings.Count(text, "<parameter>") {
		r.flag(MarkerInValue)
	}
	if !r.inline {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n")
	}
	json, flags := spelling{pythonBool: true}.typed(text, r.ts.find(r.name).types(key))
	r.flag(flags...)
	r.args = append(r.args, member{key, json})
}

// valueEnd returns where the value that begins at start ends and whether its
// closing tag ends it. Where another tag of the call stands at the start of a
// line before that, the closing tag was forgotten.
func (r *markupReader) valueEnd(start int) (end int, closed bool) {
	limit := len(r.text)
	for _, tag := range []string{"\n" + paramOpen, "\n" + functionClose, "\n" + callClose} {
		if i := r.next(tag, start); i >= 0 && i < limit {
			limit = i
		}
	}
	for at := r.next(paramClose, start); at >= 0 && at < limit; at = r.next(paramClose, at+1) {
		after := skipBlank(r.text, at+len(paramClose))
		if after == len(r.text) || r.at(after, paramOpen) || r.at(after, functionClose) {
			return at, true
		}
	}
	return limit, false
}
