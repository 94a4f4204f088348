package jinja

import "slices"

// control is how a statement ended.
type control int

const (
	goOn control = iota
	doBreak
	doContinue
)

type (
	execFunc func(st *state, e *env) control
	evalFunc func(st *state, e *env) Value
)

// compiler turns statements into closures.
type compiler struct {
	globalNames []string
	globals     map[string]int
	attrs       map[string]bool
}

func newCompiler() *compiler {
	return &compiler{globals: map[string]int{}, attrs: map[string]bool{}}
}

// global returns the index of a variable of the rendering.
func (c *compiler) global(name string) int {
	i, ok := c.globals[name]
	if !ok {
		i = len(c.globalNames)
		c.globals[name] = i
		c.globalNames = append(c.globalNames, name)
		refuseGlobal(name)
	}
	return i
}

func (c *compiler) compileRoot(body []stmt) (*function, execFunc) {
	fn := &function{}
	s := c.newScope(nil, fn)
	s.scanBody(body, false)
	start := s.close()
	exec := s.body(body)
	return fn, func(st *state, e *env) control {
		start(st, e)
		return exec(st, e)
	}
}

// body compiles statements to be executed in this scope.
func (s *scope) body(body []stmt) execFunc {
	list := make([]execFunc, 0, len(body))
	for _, st := range body {
		list = append(list, s.stmt(st))
	}
	switch len(list) {
	case 0:
		return func(*state, *env) control { return goOn }
	case 1:
		return list[0]
	}
	return func(st *state, e *env) control {
		for _, exec := range list {
			if c := exec(st, e); c != goOn {
				return c
			}
		}
		return goOn
	}
}

// within compiles a body that opens a scope of its own.
func (s *scope) within(body []stmt) execFunc {
	in := s.inner()
	in.scanBody(body, false)
	start := in.close()
	exec := in.body(body)
	return func(st *state, e *env) control {
		start(st, e)
		return exec(st, e)
	}
}

func (s *scope) stmt(node stmt) execFunc {
	switch node := node.(type) {
	case *dataStmt:
		text := node.text
		return func(st *state, _ *env) control {
			st.out = append(st.out, text...)
			return goOn
		}
	case *printStmt:
		return s.print(node)
	case *ifStmt:
		return s.ifStmt(node)
	case *forStmt:
		return s.forStmt(node)
	case *setStmt:
		return s.set(node)
	case *setBlock:
		return s.setBlock(node)
	case *macroStmt:
		return s.macroStmt(node)
	case *callBlock:
		return s.callBlock(node)
	case *filterBlock:
		return s.filterBlock(node)
	case *withStmt:
		return s.with(node)
	case *generationStmt:
		return s.within(node.body)
	case *breakStmt:
		return func(*state, *env) control { return doBreak }
	case *continueStmt:
		return func(*state, *env) control { return doContinue }
	}
	panic("jinja: unknown statement")
}

func (s *scope) print(node *printStmt) execFunc {
	line := node.line
	switch x := node.x.(type) {
	case *binaryExpr:
		if x.op == "+" {
			return s.printSum(x, line)
		}
	case *concatExpr:
		parts := s.exprs(x.items)
		return func(st *state, e *env) control {
			st.line = line
			for _, v := range evalAll(st, e, parts) {
				st.out = appendStr(st.out, v)
			}
			return goOn
		}
	}
	x := s.expr(node.x)
	return func(st *state, e *env) control {
		st.line = line
		st.print(x(st, e))
		return goOn
	}
}

func (st *state) print(v Value) {
	if text, ok := v.(String); ok {
		st.out = append(st.out, text...)
		return
	}
	st.out = appendStr(st.out, v)
}

// printSum prints a + b + …, the parts one after another where all are strings:
// that is most of what templates print, and long.
func (s *scope) printSum(x *binaryExpr, line int) execFunc {
	var terms []expr
	var left expr = x
	for {
		sum, ok := left.(*binaryExpr)
		if !ok || sum.op != "+" {
			break
		}
		terms = append(terms, sum.right)
		left = sum.left
	}
	terms = append(terms, left)
	slices.Reverse(terms)
	parts := s.exprs(terms)
	return func(st *state, e *env) control {
		st.line = line
		values := evalAll(st, e, parts)
		for _, v := range values {
			if _, ok := v.(String); !ok {
				st.print(sum(values))
				return goOn
			}
		}
		for _, v := range values {
			st.out = append(st.out, v.(String)...)
		}
		return goOn
	}
}

func sum(values []Value) Value {
	total := values[0]
	for _, v := range values[1:] {
		total = binary("+", total, v)
	}
	return total
}

func (s *scope) ifStmt(node *ifStmt) execFunc {
	soft := s.soft
	s.soft = true
	tests := s.exprs(node.tests)
	bodies := make([]execFunc, len(node.bodies))
	for i, body := range node.bodies {
		bodies[i] = s.body(body)
	}
	orElse := s.body(node.orElse)
	s.soft = soft
	line := node.line
	return func(st *state, e *env) control {
		st.line = line
		for i, test := range tests {
			if truth(test(st, e)) {
				return bodies[i](st, e)
			}
		}
		return orElse(st, e)
	}
}

func (s *scope) set(node *setStmt) execFunc {
	value, assign, line := s.expr(node.value), s.assign(node.target), node.line
	check := s.checkNamespaces(node.target)
	return func(st *state, e *env) control {
		st.line = line
		check(st, e)
		assign(st, e, value(st, e))
		return goOn
	}
}

func (s *scope) setBlock(node *setBlock) execFunc {
	in := s.inner()
	in.scanBody(node.body, false)
	if node.filter != nil {
		in.scanExpr(node.filter)
	}
	start := in.close()
	body := in.body(node.body)
	assign := s.assign(node.target)
	filter := in.captured(node.filter)
	line := node.line
	return func(st *state, e *env) control {
		start(st, e)
		text := st.capture(body, e)
		st.line = line
		assign(st, e, filter(st, e, text))
		return goOn
	}
}

// capture returns what exec prints.
func (st *state) capture(exec execFunc, e *env) String {
	mark := len(st.out)
	exec(st, e)
	text := String(st.out[mark:])
	st.out = st.out[:mark]
	return text
}

// captured compiles the filters that are applied to a captured body; x may be nil.
func (s *scope) captured(x expr) func(st *state, e *env, text Value) Value {
	if x == nil {
		return func(_ *state, _ *env, text Value) Value { return text }
	}
	f := x.(*filterExpr)
	inner := func(_ *state, _ *env, text Value) Value { return text }
	if f.x != nil {
		inner = s.captured(f.x)
	}
	apply, args := s.filterFunc(f), s.args(&f.args)
	return func(st *state, e *env, text Value) Value {
		v := inner(st, e, text)
		pos, kw := args(st, e, v)
		return apply(st, pos, kw)
	}
}

func (s *scope) filterBlock(node *filterBlock) execFunc {
	in := s.inner()
	in.scanBody(node.body, false)
	in.scanExpr(node.filter)
	start := in.close()
	body := in.body(node.body)
	filter := in.captured(node.filter)
	return func(st *state, e *env) control {
		start(st, e)
		text := st.capture(body, e)
		st.out = appendStr(st.out, filter(st, e, text))
		return goOn
	}
}

func (s *scope) with(node *withStmt) execFunc {
	values := s.exprs(node.values)
	in := s.inner()
	for _, target := range node.targets {
		in.scanParams(target)
	}
	in.scanBody(node.body, false)
	start := in.close()
	assigns := make([]assignFunc, len(node.targets))
	for i, target := range node.targets {
		assigns[i] = in.assign(target)
	}
	body := in.body(node.body)
	return func(st *state, e *env) control {
		start(st, e)
		got := make([]Value, len(values))
		for i, value := range values {
			got[i] = value(st, e)
		}
		for i, assign := range assigns {
			assign(st, e, got[i])
		}
		return body(st, e)
	}
}

type assignFunc func(st *state, e *env, v Value)

// assign compiles an assignment to a target that was scanned in this scope.
func (s *scope) assign(target expr) assignFunc {
	switch t := target.(type) {
	case *nameExpr:
		slot := s.refs[t.name].slot
		return func(_ *state, e *env, v Value) { e.slots[slot] = v }
	case *nsRefExpr:
		read, attr := s.find(t.name).read(s.fn), t.attr
		return func(st *state, e *env, v Value) { asNamespace(read(st, e)).attrs.Set(attr, v) }
	case *tupleExpr:
		return s.assignTuple(t)
	}
	panic("jinja: unknown target")
}

func (s *scope) assignTuple(t *tupleExpr) assignFunc {
	parts := make([]assignFunc, len(t.items))
	for i, item := range t.items {
		parts[i] = s.assign(item)
	}
	return func(st *state, e *env, v Value) {
		if pair, ok := v.(*tuple); ok && len(pair.items) == len(parts) {
			for i, part := range parts {
				part(st, e, pair.items[i])
			}
			return
		}
		list := items(v)
		if len(list) != len(parts) {
			fail("%d values to unpack, expected %d", len(list), len(parts))
		}
		for i, part := range parts {
			part(st, e, list[i])
		}
	}
}

// checkNamespaces raises, before the value is computed, if an attribute is
// about to be set on what is no namespace.
func (s *scope) checkNamespaces(target expr) func(st *state, e *env) {
	switch t := target.(type) {
	case *nsRefExpr:
		read := s.find(t.name).read(s.fn)
		return func(st *state, e *env) { asNamespace(read(st, e)) }
	case *tupleExpr:
		var list []func(st *state, e *env)
		for _, item := range t.items {
			list = append(list, s.checkNamespaces(item))
		}
		return func(st *state, e *env) {
			for _, check := range list {
				check(st, e)
			}
		}
	}
	return func(*state, *env) {}
}

func asNamespace(v Value) *namespace {
	ns, ok := v.(*namespace)
	if !ok {
		fail("cannot assign attribute on non-namespace object")
	}
	return ns
}
