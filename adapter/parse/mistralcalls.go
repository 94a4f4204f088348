package parse

import "strings"

// mistralCalls reads what follows each [TOOL_CALLS]: an array of calls, or one
// call with [ARGS].
func (s *scanner) mistralCalls() {
	for {
		at := s.next(mistralMark, s.pos)
		if at < 0 {
			return
		}
		s.textTo(at)
		i := at + len(mistralMark)
		if !s.at(i, "]") {
			s.mistralBare(i)
			continue
		}
		if s.at(i, "] [") {
			s.mistralArray(i+len("] "), nil)
			continue
		}
		if start := skipSpace(s.text, i+1); s.at(start, "[") && !s.at(start, mistralArgs) && !s.at(start, mistralMark) {
			s.mistralArray(start, []Flag{StrayTextInCall})
			continue
		}
		s.mistralNamed(i + 1)
	}
}

// mistralBare is the marker without its bracket: a call only if the rest of
// one follows.
func (s *scanner) mistralBare(i int) {
	mark, at := s.first(i, mistralArgs, mistralMark)
	if mark == mistralArgs && plainName(strings.TrimSpace(s.text[i:at])) {
		s.mistralCall(i, at, []Flag{StrayTextInCall})
		return
	}
	s.note(StrayTextInCall)
	s.textTo(i)
}

// mistralNamed reads NAME[ARGS]JSON.
func (s *scanner) mistralNamed(i int) {
	mark, at := s.first(i, mistralArgs, mistralMark)
	if mark == mistralArgs {
		s.mistralCall(i, at, nil)
		return
	}
	c := broken(NameMalformed)
	if mark == "" {
		c.Flags = addFlag(c.Flags, s.unclosed()...)
	}
	s.callTo(at, c)
}

func (s *scanner) mistralCall(i, args int, flags []Flag) {
	name := strings.TrimSpace(s.text[i:args])
	i = args + len(mistralArgs)
	if s.at(i, "]") {
		i++
	} else {
		flags = addFlag(flags, StrayTextInCall)
	}
	start := skipSpace(s.text, i)
	v := scanJSON(s.text, start)
	end := v.end
	if !v.ok {
		_, end = s.first(max(start, s.pos), mistralMark)
		end = max(end, start)
		flags = addFlag(flags, s.openJSON(v, end)...)
	}
	c := s.withArgs(Call{Name: name, Flags: flags}, strings.TrimSpace(s.text[start:end]))
	if v.ok && containsAny(s.text[start:end], []string{mistralMark, "[ARGS]"}) {
		c.Flags = addFlag(c.Flags, MarkerInValue)
	}
	s.callTo(end, c)
}

// openJSON says whether broken JSON breaks off with the text.
func (s *scanner) openJSON(v jsonValue, end int) []Flag {
	if end == len(s.text) && v.end >= len(s.text)-1 {
		return s.unclosed()
	}
	return nil
}

// mistralArray reads a JSON array of calls.
func (s *scanner) mistralArray(i int, flags []Flag) {
	whole := scanJSON(s.text, i)
	if !whole.ok {
		_, end := s.first(i, mistralMark)
		s.callTo(end, broken(addFlag(append([]Flag{InvalidJSONArgs}, flags...), s.openJSON(whole, end)...)...))
		return
	}
	n := 0
	for at := skipBlank(s.text, i+1); !s.at(at, "]"); n++ {
		v := scanJSON(s.text, at)
		c := s.jsonCall(at, v, mistralMark, "[ARGS]")
		c.Flags = addFlag(c.Flags, flags...)
		at = skipBlank(s.text, v.end)
		if s.at(at, ",") {
			at = skipBlank(s.text, at+1)
		}
		s.callTo(v.end, c)
	}
	if n == 0 {
		s.note(NameMalformed)
	}
	s.extendTo(whole.end)
}
