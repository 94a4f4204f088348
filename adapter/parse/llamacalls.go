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
// arguments. Another object is an answer in JSON.
func (s *scanner) untaggedCalls() {
	start := skipSpace(s.text, 0)
	if !s.at(start, "{") {
		return
	}
	v := scanJSON(s.text, start)
	named := v.ok && len(v.members) > 1
	if !v.ok {
		named = strings.HasPrefix(strings.TrimLeft(s.text[start+1:], " \t\r\n"), `"name":`)
	}
	keys := map[string]bool{}
	for _, m := range v.members {
		keys[m.key] = true
	}
	if !named || v.ok && (!keys["name"] || !keys["arguments"] && !keys["parameters"]) {
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

// afterObjects flags text on the line of a call: only a special token or a new
// line may follow.
func (s *scanner) afterObjects(end int) {
	if s.at(end, ";") {
		s.extendTo(end + 1)
		return
	}
	if end < len(s.text) && !strings.Contains(s.text[s.pos:end], "\n") && !s.at(end, "<|") {
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
