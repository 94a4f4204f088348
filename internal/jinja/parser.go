package jinja

import "strings"

// parser turns tokens into statements; one token of look-ahead suffices.
type parser struct {
	tokens []token
	pos    int
	tags   []string // open tags, for messages
	loops  int      // for-loops around here within this function
}

func parse(source string) []stmt {
	p := &parser{tokens: lex(source)}
	body := p.body()
	if p.cur().kind != tEOF {
		p.fail("unexpected %s", p.describe())
	}
	return body
}

func (p *parser) cur() token { return p.tokens[p.pos] }

func (p *parser) peek() token {
	if p.pos+1 < len(p.tokens) {
		return p.tokens[p.pos+1]
	}
	return p.tokens[p.pos]
}

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

func (p *parser) fail(format string, args ...any) { failAt(p.cur().line, format, args...) }

func (p *parser) describe() string {
	t := p.cur()
	switch t.kind {
	case tName, tString:
		return string(t.kind) + " " + t.text
	case tInteger, tNumber:
		return "number " + str(t.num)
	}
	return string(t.kind)
}

func (p *parser) is(k kind) bool            { return p.cur().kind == k }
func (p *parser) isName(name string) bool   { return p.cur().kind == tName && p.cur().text == name }
func (p *parser) skip(k kind) bool          { return p.skipIf(p.is(k)) }
func (p *parser) skipName(name string) bool { return p.skipIf(p.isName(name)) }

func (p *parser) skipIf(ok bool) bool {
	if ok {
		p.next()
	}
	return ok
}

func (p *parser) expect(k kind) token {
	if !p.is(k) {
		p.fail("expected %s, got %s", k, p.describe())
	}
	return p.next()
}

func (p *parser) expectName(name string) {
	if !p.skipName(name) {
		p.fail("expected %s, got %s", name, p.describe())
	}
}

// body parses statements up to a tag named in ends, whose name is the current
// token then; without ends, up to the end of the template.
func (p *parser) body(ends ...string) []stmt {
	var out []stmt
	for {
		t := p.cur()
		switch t.kind {
		case tData:
			p.next()
			out = append(out, &dataStmt{t.text})
		case tVarBegin:
			p.next()
			x := p.tuple(true, nil)
			p.expect(tVarEnd)
			out = append(out, &printStmt{x, t.line})
		case tBlkBegin:
			p.next()
			for _, end := range ends {
				if p.isName(end) {
					return out
				}
			}
			out = append(out, p.statement()...)
			p.expect(tBlkEnd)
		default:
			if len(ends) > 0 {
				p.fail("unexpected end of template: expected %s for the open tag %s",
					strings.Join(ends, " or "), p.tags[len(p.tags)-1])
			}
			return out
		}
	}
}

// block parses the rest of an opening tag and the body up to one of ends.
func (p *parser) block(ends ...string) []stmt {
	p.skip(":")
	p.expect(tBlkEnd)
	return p.body(ends...)
}

// closed parses a body whose one end is end, and consumes the end's name.
func (p *parser) closed(end string) []stmt {
	body := p.block(end)
	p.next()
	return body
}

func (p *parser) statement() []stmt {
	t := p.cur()
	if t.kind != tName {
		p.fail("tag name expected, got %s", p.describe())
	}
	p.next()
	defer p.nest(t.text)()
	switch t.text {
	case "if":
		return []stmt{p.ifTag(t.line)}
	case "for":
		return []stmt{p.forTag(t.line)}
	case "set":
		return []stmt{p.setTag(t.line)}
	case "macro":
		return []stmt{p.macroTag(t.line)}
	case "call":
		return []stmt{p.callTag(t.line)}
	case "filter":
		f := p.filter(nil, true)
		return []stmt{&filterBlock{f, p.closed("endfilter"), t.line}}
	case "with":
		return []stmt{p.withTag(t.line)}
	case "generation":
		return []stmt{&generationStmt{p.function("endgeneration"), t.line}}
	case "print":
		return p.printTag(t.line)
	case "break", "continue":
		if p.loops == 0 {
			failAt(t.line, "%s outside of a loop", t.text)
		}
		if t.text == "break" {
			return []stmt{&breakStmt{t.line}}
		}
		return []stmt{&continueStmt{t.line}}
	}
	failAt(t.line, "the tag %s is not supported here", t.text)
	return nil
}

// function parses the body of what becomes a function of its own: a loop
// around it can't be left from within.
func (p *parser) function(end string) []stmt {
	loops := p.loops
	p.loops = 0
	body := p.closed(end)
	p.loops = loops
	return body
}

func (p *parser) ifTag(line int) stmt {
	s := &ifStmt{line: line}
	for {
		s.tests = append(s.tests, p.tuple(false, nil))
		s.bodies = append(s.bodies, p.block("elif", "else", "endif"))
		switch p.next().text {
		case "elif":
			continue
		case "else":
			s.orElse = p.closed("endif")
		}
		return s
	}
}

func (p *parser) forTag(line int) stmt {
	s := &forStmt{line: line, target: p.target(false, "in")}
	p.expectName("in")
	s.iter = p.tuple(false, []string{"recursive"})
	if p.skipName("if") {
		s.test = p.expression(true)
	}
	s.recursive = p.skipName("recursive")
	p.loops++
	s.body = p.block("endfor", "else")
	p.loops--
	if p.next().text != "else" {
		return s
	}
	if s.recursive {
		s.orElse = p.function("endfor")
	} else {
		s.orElse = p.closed("endfor")
	}
	return s
}

func (p *parser) setTag(line int) stmt {
	target := p.target(true, "")
	if p.skip("=") {
		return &setStmt{target, p.tuple(true, nil), line}
	}
	var filter expr
	if p.is("|") {
		filter = p.filter(nil, false)
	}
	return &setBlock{target, filter, p.closed("endset"), line}
}

func (p *parser) macroTag(line int) stmt {
	name := p.targetName()
	sig := p.signature()
	return &macroStmt{name, sig, p.function("endmacro"), line}
}

func (p *parser) callTag(line int) stmt {
	var sig signature
	if p.is("(") {
		sig = p.signature()
	}
	call, ok := p.expression(true).(*callExpr)
	if !ok {
		failAt(line, "expected a call after the tag call")
	}
	return &callBlock{call, sig, p.function("endcall"), line}
}

func (p *parser) signature() signature {
	var sig signature
	p.expect("(")
	for !p.is(")") {
		if len(sig.params) > 0 {
			p.expect(",")
		}
		name := p.targetName()
		if name == "caller" {
			p.fail("a parameter named caller is not supported")
		}
		sig.params = append(sig.params, name)
		if p.skip("=") {
			sig.defaults = append(sig.defaults, p.expression(true))
		} else if len(sig.defaults) > 0 {
			p.fail("non-default argument follows default argument")
		}
	}
	p.expect(")")
	return sig
}

func (p *parser) withTag(line int) stmt {
	s := &withStmt{line: line}
	for !p.is(tBlkEnd) {
		if len(s.targets) > 0 {
			p.expect(",")
		}
		s.targets = append(s.targets, p.target(false, ""))
		p.expect("=")
		s.values = append(s.values, p.expression(true))
	}
	s.body = p.closed("endwith")
	return s
}

func (p *parser) printTag(line int) []stmt {
	var out []stmt
	for !p.is(tBlkEnd) {
		if len(out) > 0 {
			p.expect(",")
		}
		out = append(out, &printStmt{p.expression(true), line})
	}
	return out
}

// targetName parses a name that is assigned to.
func (p *parser) targetName() string {
	t := p.expect(tName)
	switch t.text {
	case "true", "false", "none", "True", "False", "None":
		failAt(t.line, "can't assign to %s", t.text)
	case "loop":
		// Python refuses it within a for-loop only; no template has a use for it elsewhere.
		failAt(t.line, "can't assign to the special variable loop")
	}
	return t.text
}

// target parses what is assigned to: names, tuples of them and, with ns,
// attributes of namespaces. The name stop ends a tuple.
func (p *parser) target(ns bool, stop string) expr {
	var items []expr
	tuple := false
	for {
		if len(items) > 0 && !p.skip(",") {
			break
		}
		if len(items) > 0 {
			tuple = true
		}
		if p.isName(stop) || p.is(tBlkEnd) || p.is(tVarEnd) || p.is(")") || p.is("=") {
			break
		}
		items = append(items, p.oneTarget(ns))
	}
	if len(items) == 0 {
		p.fail("expected a name to assign to, got %s", p.describe())
	}
	if tuple {
		return &tupleExpr{items}
	}
	return items[0]
}

func (p *parser) oneTarget(ns bool) expr {
	if p.skip("(") {
		t := p.target(false, "")
		p.expect(")")
		return t
	}
	name := p.targetName()
	if ns && p.skip(".") {
		return &nsRefExpr{name, p.expect(tName).text}
	}
	return &nameExpr{name}
}
