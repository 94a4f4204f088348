package parse

import "strings"

// llamaCalls reads objects behind <|python_tag|>, or at the text's start if
// they look like calls.
func (s *scanner) llamaCalls() {
	at := s.next(llamaTag, 0)
	if at < 0 {
		s.untaggedCalls()
		return
	}
	for at >= 0 {
		s.textTo(at)
		s.objectCalls(at + len(llamaTag))
		at = s.next(llamaTag, s.pos)
	}
}

// untaggedCalls reads a text that begins with an object that has a name and
// arguments, or that breaks off or is Python behind its name. Another object is
// an answer in JSON.
func (s *scanner) untaggedCalls() {
	start := skipSpace(s.text, 0)
	if !s.at(start, "{") {
		return
	}
	if v := scanJSON(s.text, start); v.ok {
		keys := map[string]bool{}
		for _, m := range v.members {
			keys[m.key] = true
		}
		if !keys["name"] || !keys["arguments"] && !keys["parameters"] {
			return
		}
	} else if first := s.text[skipSpace(s.text, start+1):]; !strings.HasPrefix(first, `"name":`) && !strings.HasPrefix(first, `'name':`) {
		return
	}
	if start > 0 {
		s.note(StrayTextInCall)
	}
	s.textTo(start)
	s.objectCalls(start)
}

// objectCalls reads objects that semicolons separate.
func (s *scanner) objectCalls(i int) {
	for {
		start := skipSpace(s.text, i)
		v := scanJSON(s.text, start)
		if !v.ok || s.text[start] != '{' {
			s.brokenObject(start, v)
			return
		}
		c := s.jsonCall(start, v, llamaTag)
		end := skipSpace(s.text, v.end)
		more := s.at(end, ";") && s.at(skipSpace(s.text, end+1), "{")
		s.callTo(v.end, c)
		if !more {
			s.afterObjects(end)
			return
		}
		i = end + 1
		s.extendTo(i)
	}
}

// afterObjects flags what follows the last call on its line, a special token
// apart, and further objects with a name: they are read as text.
func (s *scanner) afterObjects(end int) {
	if s.at(end, ";") {
		s.extendTo(end + 1)
		end = skipSpace(s.text, end+1)
	}
	if end < len(s.text) && !strings.Contains(s.text[s.pos:end], "\n") && !s.at(end, "<|") {
		s.note(StrayTextInCall)
	}
	if mark, _ := s.first(s.pos, `{"name":`, llamaTag); mark == `{"name":` {
		s.note(StrayTextInCall)
	}
}

// brokenObject withholds what follows the tag up to the next one.
func (s *scanner) brokenObject(start int, v jsonValue) {
	_, end := s.first(max(start, s.pos), llamaTag)
	end = max(end, start)
	c := broken(append([]Flag{InvalidJSONArgs}, v.flags...)...)
	c.Flags = addFlag(c.Flags, s.openJSON(v, end)...)
	s.callTo(end, c)
}
