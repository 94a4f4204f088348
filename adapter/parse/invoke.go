package parse

import (
	"strings"
)

// An invokeSyntax is the markup of invocations with parameters in attributes.
type invokeSyntax struct {
	section
	before, after       string // what an invocation stands between; "" is nothing
	invoke, invokeClose string // `<invoke` without its attributes
	param, paramClose   string
	marks               []string // what no value may hold
	stringAttr          bool     // parameters say themselves whether they are strings
	spelling            spelling
}

// dsmlCalls reads DSML sections; the other version's are foreign.
func (s *scanner) dsmlCalls(open, end string) {
	others := []string{"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"}
	if open == others[0] {
		others = others[1:]
	} else {
		others = others[:1]
	}
	s.invocations(invokeSyntax{section: section{open: open, close: end, others: others},
		invoke: dsmlInvoke, invokeClose: dsmlInvokeClose, param: dsmlParam, paramClose: dsmlParamClose,
		marks: []string{"<｜DSML｜", "</｜DSML｜"}, stringAttr: true})
}

func (s *scanner) minimaxCalls() {
	s.invocations(invokeSyntax{section: section{open: minimaxOpen, close: minimaxClose},
		invoke: "<invoke", invokeClose: minimaxInvokeClose, param: "<parameter ", paramClose: paramClose,
		marks: []string{minimaxOpen, minimaxClose, minimaxInvoke, minimaxInvokeClose, minimaxParam}, spelling: spelling{boolWords: true}})
}

func (s *scanner) stepCalls() {
	s.invocations(invokeSyntax{section: section{open: stepOpen, close: stepClose}, before: stepCall, after: stepCallEnd,
		invoke: "<steptml:invoke", invokeClose: stepInvokeClose, param: "<steptml:parameter", paramClose: stepParamClose,
		marks: []string{stepOpen, stepClose, stepCall, stepCallEnd, stepSep, "<steptml:", "</steptml:"}})
}

func (s *scanner) invocations(x invokeSyntax) {
	x.section.call = x.invoke
	if x.before != "" {
		x.section.call = x.before
	}
	x.section.read = func(s *scanner, i int) (Call, int) {
		r := invokeReader{scanner: s, x: &x, i: i}
		r.wrapped()
		c := r.c
		if r.args != nil || c.Args == nil {
			c.Args = object(r.args)
			c.Flags = addFlag(c.Flags, s.ts.check(c.Name, r.checks)...)
		}
		return c, r.i
	}
	s.sections(x.section)
}

// An invokeReader reads one invocation.
type invokeReader struct {
	*scanner
	x      *invokeSyntax
	i      int
	c      Call
	args   []member
	checks []member // args as they are checked against the schema
}

func (r *invokeReader) flag(f ...Flag) { r.c.Flags = addFlag(r.c.Flags, f...) }

func (r *invokeReader) blanks() { r.i = skipSpace(r.text, r.i) }

// wrapped reads an invocation with what it stands between.
func (r *invokeReader) wrapped() {
	if r.x.before != "" {
		r.i += len(r.x.before)
		mark, at := r.first(r.i, stepSep, r.x.after, r.x.before, r.x.close)
		kind := r.text[r.i:at]
		if r.i = at; mark == stepSep {
			r.i += len(stepSep)
		}
		if mark != stepSep || strings.TrimSpace(kind) != "function" {
			r.flag(StrayTextInCall)
		}
		r.blanks()
		if !r.at(r.i, r.x.invoke) {
			r.flag(NameMalformed)
			r.skipTo(r.x.after)
			return
		}
	}
	r.invocation()
	if r.x.after != "" {
		r.blanks()
		r.skipTo(r.x.after)
	}
}

// skipTo moves behind the mark, or to where the call is cut off without it.
func (r *invokeReader) skipTo(mark string) {
	got, at := r.first(r.i, mark, r.x.call, r.x.close)
	switch {
	case got == mark:
		if at > r.i {
			r.flag(StrayTextInCall)
		}
		at += len(mark)
	case at == len(r.text):
		r.flag(r.unclosed()...)
	default:
		r.flag(UnclosedCall)
	}
	r.i = at
}

func (r *invokeReader) invocation() {
	attrs, selfClosed := r.tag(r.x.invoke)
	if len(attrs) == 1 && attrs[0].key == "name" {
		r.c.Name = attrs[0].json
		if strings.TrimSpace(r.c.Name) != r.c.Name {
			r.flag(NameMalformed)
		}
	} else {
		r.flag(NameMalformed)
	}
	if selfClosed {
		return
	}
	r.blanks()
	if r.at(r.i, "{") && r.x.stringAttr {
		r.json()
		return
	}
	seen := map[string]bool{}
	for {
		r.blanks()
		switch {
		case r.at(r.i, r.x.param):
			r.param(seen)
		case r.at(r.i, r.x.invokeClose):
			r.i += len(r.x.invokeClose)
			return
		case r.i == len(r.text):
			r.flag(r.unclosed()...)
			return
		default:
			mark, at := r.first(r.i, r.x.param, r.x.invokeClose, r.x.invoke, r.x.call, r.x.close)
			if at > r.i {
				r.flag(StrayTextInCall)
			}
			r.i = at
			if mark != r.x.param && mark != r.x.invokeClose {
				r.flag(UnclosedCall)
				return
			}
		}
	}
}

// json reads a body that is the arguments' JSON.
func (r *invokeReader) json() {
	r.c, r.i = r.jsonTail(r.c, r.i, "", r.x.invokeClose, []string{r.x.invoke, r.x.param, r.x.close})
}

// tag reads a tag's attributes up to its ">".
func (r *invokeReader) tag(name string) (attrs []member, selfClosed bool) {
	i := r.i + len(strings.TrimRight(name, " "))
	for {
		i = skipSpace(r.text, i)
		switch {
		case r.at(i, "/>"):
			r.i = i + 2
			return attrs, true
		case r.at(i, ">"):
			r.i = i + 1
			return attrs, false
		}
		end := identEnd(r.text, i)
		if end == i || !r.at(end, `="`) {
			r.flag(NameMalformed)
			if r.i = anyFrom(r.text, i, "><\n"); r.at(r.i, ">") {
				r.i++
			}
			return nil, false
		}
		start := end + len(`="`)
		stop := anyFrom(r.text, start, "\"\n<")
		if !r.at(stop, `"`) {
			r.flag(NameMalformed)
			r.i = stop
			return nil, false
		}
		attrs = append(attrs, member{r.text[i:end], r.text[start:stop]})
		i = stop + 1
	}
}

// anyFrom returns where one of the characters stands at or after i, or the
// text's end.
func anyFrom(s string, i int, chars string) int {
	if at := strings.IndexAny(s[i:], chars); at >= 0 {
		return i + at
	}
	return len(s)
}

// param reads one parameter.
func (r *invokeReader) param(seen map[string]bool) {
	attrs, closed := r.tag(r.x.param)
	key, isString, ok := r.paramAttrs(attrs)
	if !ok || closed {
		r.flag(NameMalformed)
	}
	if closed {
		return
	}
	if seen[key] {
		r.flag(DuplicateParam)
	}
	seen[key] = true
	start := r.i
	end, done := r.valueEnd(start)
	text := r.text[start:end]
	if r.i = end; done {
		r.i += len(r.x.paramClose)
	} else {
		r.flag(UnclosedParam)
	}
	if containsAny(text, r.x.marks) || strings.Count(text, r.x.paramClose) > strings.Count(text, "<parameter>") {
		r.flag(MarkerInValue)
	}
	r.value(key, text, isString)
}

// paramAttrs reads a parameter's name, and whether it says that it is a string.
func (r *invokeReader) paramAttrs(attrs []member) (key string, isString, ok bool) {
	if len(attrs) > 0 && attrs[0].key == "name" {
		key = attrs[0].json
	}
	if !r.x.stringAttr {
		return key, false, len(attrs) == 1 && key != ""
	}
	if len(attrs) != 2 || attrs[1].key != "string" || key == "" {
		return key, true, false
	}
	word := attrs[1].json
	return key, word != "false", word == "true" || word == "false"
}

func (r *invokeReader) value(key, text string, isString bool) {
	m, check := member{key: key}, member{key: key}
	switch {
	case !r.x.stringAttr:
		var flags []Flag
		m.json, flags = r.x.spelling.typed(text, r.ts.find(r.c.Name).types(key))
		r.flag(flags...)
	case isString:
		m.json = quote(text)
		check.json = m.json
	default:
		v, ok := wholeJSON(text)
		if m.json = strings.Trim(text, " \t\r\n"); !ok {
			m.json = quote(text)
			v.flags = []Flag{TypeMismatch}
		}
		check.json = m.json
		r.flag(v.flags...)
	}
	if check.json == "null" {
		check.json = ""
	}
	r.args = append(r.args, m)
	r.checks = append(r.checks, check)
}

// valueEnd returns where a value ends: at a closing tag behind which the
// structure goes on, before the invocation ends.
func (r *invokeReader) valueEnd(start int) (end int, closed bool) {
	limit := r.seek("end of an invocation", r.x.invokeClose, start, func(at int) bool {
		after := skipSpace(r.text, at+len(r.x.invokeClose))
		return after == len(r.text) || r.at(after, r.x.invoke) || r.at(after, r.x.close) || r.x.after != "" && r.at(after, r.x.after)
	})
	if limit < 0 {
		if limit = r.next(r.x.close, start); limit < 0 {
			limit = len(r.text)
		}
	}
	end = r.seek("end of a parameter", r.x.paramClose, start, func(at int) bool {
		after := skipSpace(r.text, at+len(r.x.paramClose))
		return after == len(r.text) || r.at(after, r.x.param) || r.at(after, r.x.invokeClose)
	})
	if end < 0 || end > limit {
		end = r.next(r.x.paramClose, start)
	}
	if end < 0 || end > limit {
		return limit, false
	}
	return end, true
}
