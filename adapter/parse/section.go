package parse

import "strings"

// A section is how a format puts its calls between two marks.
type section struct {
	open, close string
	call        string   // opens a call
	others      []string // openings of the same format's other versions
	// read reads the call that begins at i and returns where it ends.
	read func(s *scanner, i int) (Call, int)
}

// sections reads every section of the text. The section's own marks belong to
// its first and last call. A section that never closes ill-forms the turn, but
// not the calls in it that are closed themselves.
func (s *scanner) sections(sec section) {
	for {
		mark, at := s.first(s.pos, append([]string{sec.open, sec.close, sec.call}, sec.others...)...)
		if mark == "" {
			return
		}
		s.textTo(at)
		switch mark {
		case sec.call: // the section's opening is missing
			c, end := sec.read(s, at)
			c.Flags = addFlag(c.Flags, StrayTextInCall)
			s.callTo(end, c)
			s.closeSection(sec)
		case sec.close:
			s.note(StrayTextInCall)
			s.residueTo(at + len(mark))
		default:
			s.section(sec, at, mark)
		}
	}
}

// closeSection takes a closing mark right here for the last call's.
func (s *scanner) closeSection(sec section) {
	if i := skipSpace(s.text, s.pos); s.at(i, sec.close) {
		s.extendTo(i + len(sec.close))
	}
}

// section reads one section, whose opening mark stands at the scanner's place.
func (s *scanner) section(sec section, at int, mark string) {
	foreign := mark != sec.open
	end := strings.Replace(mark, "<", "</", 1)
	if !foreign {
		end = sec.close
	}
	calls := len(s.calls)
	i := at + len(mark)
	for {
		i = skipSpace(s.text, i)
		switch {
		case s.at(i, sec.call):
			c, to := sec.read(s, i)
			if foreign {
				c.Flags = addFlag(c.Flags, ForeignFormat)
			}
			s.callTo(to, c)
			i = to
			continue
		case s.at(i, end):
			if len(s.calls) == calls {
				s.note(NameMalformed)
			}
			s.extendTo(i + len(end))
			return
		case i == len(s.text):
			s.openSection(calls, i)
			return
		}
		// Text between calls is no part of one.
		next, to := s.first(i, sec.call, end, sec.open)
		if next == "" && len(s.calls) > calls {
			s.note(s.unclosed()...)
			return
		}
		s.note(StrayTextInCall)
		if len(s.calls) == calls {
			s.brokenSection(to, next)
		} else {
			s.textTo(to)
		}
		if next == sec.open || next == "" {
			return
		}
		i = to
	}
}

// openSection ends a section with the text.
func (s *scanner) openSection(calls, end int) {
	s.note(s.unclosed()...)
	if len(s.calls) == calls {
		s.callTo(end, broken(s.unclosed()...))
		return
	}
	s.textTo(end)
}

// brokenSection withholds what stands where a section's first call should.
func (s *scanner) brokenSection(to int, next string) {
	c := broken(StrayTextInCall, NameMalformed)
	if next == "" {
		c.Flags = addFlag(c.Flags, s.unclosed()...)
	}
	s.callTo(to, c)
}

// jsonTail reads the JSON of a call's arguments at i and the mark that ends
// the call behind it. stops are the marks that no value may hold and that end
// a call whose own mark is missing.
func (s *scanner) jsonTail(c Call, i int, tail, callEnd string, stops []string) (Call, int) {
	start := skipBlank(s.text, i)
	v := scanJSON(s.text, start)
	end := v.end
	if !v.ok {
		mark, at := s.first(start, append([]string{callEnd}, stops...)...)
		args := s.text[start:at]
		if mark == callEnd {
			args = strings.TrimSuffix(args, tail)
		}
		c = s.withArgs(c, strings.Trim(args, " \t\r\n"))
		return s.closeCall(c, at, callEnd)
	}
	c = s.withArgs(c, s.text[start:end])
	if containsAny(s.text[start:end], append(stops, callEnd)) {
		c.Flags = addFlag(c.Flags, MarkerInValue)
	}
	if s.at(end, tail) {
		end += len(tail)
	}
	end = skipSpace(s.text, end)
	if s.at(end, callEnd) {
		return c, end + len(callEnd)
	}
	mark, at := s.first(end, append([]string{callEnd}, stops...)...)
	if mark == callEnd {
		c.Flags = addFlag(c.Flags, StrayTextInCall)
	}
	return s.closeCall(c, at, callEnd)
}

// closeCall ends a call at a mark, or unclosed at anything else.
func (s *scanner) closeCall(c Call, at int, callEnd string) (Call, int) {
	switch {
	case s.at(at, callEnd):
		return c, at + len(callEnd)
	case at == len(s.text):
		c.Flags = addFlag(c.Flags, s.unclosed()...)
	default:
		c.Flags = addFlag(c.Flags, UnclosedCall)
	}
	return c, at
}

// kimiCalls reads sections of calls with an id.
func (s *scanner) kimiCalls() {
	s.sections(section{open: kimiOpen, close: kimiClose, call: kimiCall, read: (*scanner).kimiCall})
}

func (s *scanner) kimiCall(i int) (Call, int) {
	stops := []string{kimiCall, kimiArgument, kimiClose, kimiOpen}
	start := skipSpace(s.text, i+len(kimiCall))
	mark, at := s.first(start, append([]string{kimiCallEnd}, stops...)...)
	id := strings.TrimSpace(s.text[start:at])
	name, canonical := s.kimiTool(id)
	c := Call{Name: name}
	if !canonical {
		c.Flags = addFlag(c.Flags, IDNoncanonical)
	}
	if mark != kimiArgument {
		c.Flags = addFlag(c.Flags, NameMalformed, ArgsNotObject)
		return s.closeCall(c, at, kimiCallEnd)
	}
	return s.jsonTail(c, at+len(kimiArgument), "", kimiCallEnd, stops)
}

// kimiTool reads the tool's name out of an id: functions.NAME:INDEX, and of
// known tools also what clients make of it when they replace its signs.
func (s *scanner) kimiTool(id string) (name string, canonical bool) {
	if name, _, ok := kimiID(id); ok {
		return name, strings.HasPrefix(id, "functions.")
	}
	if at := strings.LastIndexAny(id, ":_"); at > 0 && allDigits(id[at+1:]) {
		name := strings.TrimPrefix(strings.TrimPrefix(id[:at], "functions."), "functions_")
		if s.ts.find(name) != nil {
			return name, false
		}
	}
	return "", false
}

// deepseekCalls reads sections of calls; fenced is the older version, with the
// word function and a block of JSON.
func (s *scanner) deepseekCalls(fenced bool) {
	s.sections(section{open: dsOpen, close: dsClose, call: dsCall, others: []string{"<|tool_calls_begin|>"},
		read: func(s *scanner, i int) (Call, int) { return s.deepseekCall(i, fenced) }})
}

func (s *scanner) deepseekCall(i int, fenced bool) (Call, int) {
	stops := []string{dsCall, dsSep, dsClose, dsOpen}
	start := i + len(dsCall)
	mark, at := s.first(start, append([]string{dsCallEnd}, stops...)...)
	if mark != dsSep {
		return s.closeCall(broken(NameMalformed), at, dsCallEnd)
	}
	name := s.text[start:at]
	at += len(dsSep)
	if !fenced {
		return s.jsonTail(Call{Name: name}, at, "", dsCallEnd, stops)
	}
	_, end := s.first(at, append([]string{dsCallEnd}, stops...)...)
	fence := strings.Index(s.text[at:end], dsJSON)
	if name != "function" || fence < 0 {
		return s.closeCall(broken(ForeignFormat), end, dsCallEnd)
	}
	c := Call{Name: s.text[at : at+fence]}
	return s.jsonTail(c, at+fence+len(dsJSON), dsFence, dsCallEnd, stops)
}
