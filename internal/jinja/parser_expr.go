package jinja

// tuple parses an expression, or several with commas between them, which make
// a tuple. The names in stop end it.
func (p *parser) tuple(cond bool, stop []string) expr {
	items, tuple := p.tupleItems(cond, stop)
	if tuple {
		return &tupleExpr{items}
	}
	if len(items) == 0 {
		p.fail("expected an expression, got %s", p.describe())
	}
	return items[0]
}

func (p *parser) tupleItems(cond bool, stop []string) (items []expr, tuple bool) {
	for {
		if len(items) > 0 {
			if !p.skip(",") {
				return items, tuple
			}
			tuple = true
		}
		if p.is(tVarEnd) || p.is(tBlkEnd) || p.is(")") {
			return items, tuple
		}
		for _, name := range stop {
			if p.isName(name) {
				return items, tuple
			}
		}
		items = append(items, p.expression(cond))
	}
}

// maxNesting bounds the nesting of expressions in a source.
const maxNesting = 200

// nest enters a tag or an expression; the function that it returns leaves it.
func (p *parser) nest(tag string) func() {
	p.tags = append(p.tags, tag)
	if len(p.tags) > maxNesting {
		p.fail("expressions and tags are nested deeper than %d", maxNesting)
	}
	return func() { p.tags = p.tags[:len(p.tags)-1] }
}

func (p *parser) expression(cond bool) expr {
	defer p.nest("expression")()
	x := p.or()
	for cond && p.skipName("if") {
		c := &condExpr{test: p.or(), yes: x}
		if p.skipName("else") {
			c.no = p.expression(true)
		}
		x = c
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for p.skipName("or") {
		x = &logicExpr{true, x, p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.skipName("and") {
		x = &logicExpr{false, x, p.not()}
	}
	return x
}

func (p *parser) not() expr {
	negations := 0
	for p.skipName("not") {
		negations++
	}
	x := p.compare()
	for ; negations > 0; negations-- {
		x = &notExpr{x}
	}
	return x
}

func (p *parser) compare() expr {
	c := &compareExpr{first: p.sum()}
	for {
		switch k := p.cur().kind; {
		case k == "==" || k == "!=" || k == "<" || k == "<=" || k == ">" || k == ">=":
			p.next()
			c.ops = append(c.ops, k)
		case p.skipName("in"):
			c.ops = append(c.ops, "in")
		case p.isName("not") && p.peek().kind == tName && p.peek().text == "in":
			p.next()
			p.next()
			c.ops = append(c.ops, "not in")
		case len(c.ops) == 0:
			return c.first
		default:
			return c
		}
		c.rest = append(c.rest, p.sum())
	}
}

func (p *parser) sum() expr {
	x := p.concat()
	for p.is("+") || p.is("-") {
		op := p.next().kind
		x = &binaryExpr{op, x, p.concat()}
	}
	return x
}

func (p *parser) concat() expr {
	items := []expr{p.product()}
	for p.skip("~") {
		items = append(items, p.product())
	}
	if len(items) == 1 {
		return items[0]
	}
	return &concatExpr{items}
}

func (p *parser) product() expr {
	x := p.power()
	for p.is("*") || p.is("/") || p.is("//") || p.is("%") {
		op := p.next().kind
		x = &binaryExpr{op, x, p.power()}
	}
	return x
}

func (p *parser) power() expr {
	x := p.unary(true)
	for p.skip("**") {
		x = &binaryExpr{"**", x, p.unary(true)}
	}
	return x
}

func (p *parser) unary(filters bool) expr {
	var signs []kind
	for p.is("-") || p.is("+") {
		signs = append(signs, p.next().kind)
	}
	x := p.postfix(p.primary())
	for i := len(signs) - 1; i >= 0; i-- {
		x = p.postfix(&signExpr{signs[i], x})
	}
	if filters {
		x = p.filters(x)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.cur()
	switch t.kind {
	case tName:
		p.next()
		return nameOrConst(t.text)
	case tString:
		p.next()
		s := t.text
		for p.is(tString) {
			s += p.next().text
		}
		return &constExpr{String(s)}
	case tInteger, tNumber:
		p.next()
		return &constExpr{t.num}
	case "(":
		p.next()
		items, tuple := p.tupleItems(true, nil)
		p.expect(")")
		if tuple || len(items) == 0 {
			return &tupleExpr{items}
		}
		return items[0]
	case "[":
		p.next()
		return &listExpr{p.items("]")}
	case "{":
		p.next()
		return p.dict()
	}
	p.fail("unexpected %s", p.describe())
	return nil
}

func nameOrConst(name string) expr {
	switch name {
	case "true", "True":
		return &constExpr{Bool(true)}
	case "false", "False":
		return &constExpr{Bool(false)}
	case "none", "None":
		return &constExpr{None}
	}
	return &nameExpr{name}
}

// items parses expressions with commas between them, and the end.
func (p *parser) items(end kind) []expr {
	var out []expr
	for !p.skip(end) {
		if len(out) > 0 {
			p.expect(",")
			if p.skip(end) {
				break
			}
		}
		out = append(out, p.expression(true))
	}
	return out
}

func (p *parser) dict() expr {
	d := &dictExpr{}
	for !p.skip("}") {
		if len(d.keys) > 0 {
			p.expect(",")
			if p.skip("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression(true))
		p.expect(":")
		d.values = append(d.values, p.expression(true))
	}
	return d
}

func (p *parser) postfix(x expr) expr {
	for {
		switch {
		case p.skip("."):
			x = p.attribute(x)
		case p.skip("["):
			x = p.subscript(x)
		case p.is("("):
			x = &callExpr{x, p.args()}
		default:
			return x
		}
	}
}

func (p *parser) attribute(x expr) expr {
	t := p.next()
	switch t.kind {
	case tName:
		return &attrExpr{x, t.text}
	case tInteger:
		return &itemExpr{x, &constExpr{t.num}}
	}
	failAt(t.line, "expected a name or a number after the dot")
	return nil
}

func (p *parser) subscript(x expr) expr {
	var slice *sliceExpr
	var index expr
	if !p.is(":") {
		index = p.expression(true)
	}
	if p.skip(":") {
		slice = &sliceExpr{x: x, low: index}
		slice.high = p.bound()
		if p.skip(":") {
			slice.step = p.bound()
		}
	}
	if p.is(",") {
		p.fail("a subscript of several parts is not supported")
	}
	p.expect("]")
	if slice != nil {
		return slice
	}
	return &itemExpr{x, index}
}

func (p *parser) bound() expr {
	if p.is("]") || p.is(":") || p.is(",") {
		return nil
	}
	return p.expression(true)
}

func (p *parser) filters(x expr) expr {
	for {
		switch {
		case p.is("|"):
			x = p.filter(x, false)
		case p.isName("is"):
			p.next()
			x = p.test(x)
		case p.is("("):
			x = &callExpr{x, p.args()}
		default:
			return x
		}
	}
}

// filter parses one filter after another; inline, the first has no bar.
func (p *parser) filter(x expr, inline bool) expr {
	for inline || p.skip("|") {
		inline = false
		t := p.expect(tName)
		f := &filterExpr{x: x, name: p.dotted(t.text), line: t.line}
		if p.is("(") {
			f.args = p.args()
		}
		x = f
	}
	return x
}

func (p *parser) dotted(name string) string {
	for p.skip(".") {
		name += "." + p.expect(tName).text
	}
	return name
}

func (p *parser) test(x expr) expr {
	negated := p.skipName("not")
	t := p.expect(tName)
	test := &testExpr{x: x, name: p.dotted(t.text), line: t.line}
	switch k := p.cur().kind; {
	case k == "(":
		test.args = p.args()
	case k == tString || k == tInteger || k == tNumber || k == "[" || k == "{",
		k == tName && !p.isName("else") && !p.isName("or") && !p.isName("and"):
		if p.isName("is") {
			p.fail("tests can't be chained with is")
		}
		test.args.pos = []expr{p.postfix(p.primary())}
	}
	if negated {
		return &notExpr{test}
	}
	return test
}

func (p *parser) args() callArgs {
	var a callArgs
	open := p.expect("(")
	ensure := func(ok bool) {
		if !ok {
			failAt(open.line, "invalid syntax for a call")
		}
	}
	for first := true; !p.is(")"); first = false {
		if !first {
			p.expect(",")
			if p.is(")") {
				break
			}
		}
		switch {
		case p.skip("*"):
			ensure(a.star == nil && a.stars == nil)
			a.star = p.expression(true)
		case p.skip("**"):
			ensure(a.stars == nil)
			a.stars = p.expression(true)
		case p.is(tName) && p.peek().kind == "=":
			ensure(a.stars == nil)
			name := p.next().text
			p.next()
			a.addNamed(name, p.expression(true), open.line)
		default:
			ensure(a.star == nil && a.stars == nil && len(a.names) == 0)
			a.pos = append(a.pos, p.expression(true))
		}
	}
	p.expect(")")
	return a
}

func (a *callArgs) addNamed(name string, x expr, line int) {
	for _, old := range a.names {
		if old == name {
			failAt(line, "keyword argument %s is repeated", name)
		}
	}
	a.names = append(a.names, name)
	a.named = append(a.named, x)
}
