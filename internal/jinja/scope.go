package jinja

// Names are resolved as Jinja2's compiler resolves them: statically, scope by
// scope. A for-loop, set block, with, filter block and macro open a scope, an
// if does not. A name that a scope assigns is a variable of that scope, which
// begins as a copy of the outer one of that name; a name that is assigned
// nowhere around comes from the variables of the rendering.

// function is what has an activation of its own: the root, a macro, a call
// block's body, a recursive loop.
type function struct {
	up    *function
	slots int
}

// binding is a name within a scope.
type binding struct {
	fn     *function // nil: global holds the index of a rendering's variable
	slot   int
	global int
	name   string
	init   initKind
	outer  *binding // for initAlias
}

type initKind int

const (
	initResolve initKind = iota // from the rendering's variables
	initAlias                   // from the outer scope's variable
	initUnset                   // undefined until assigned
	initParam                   // set by whoever enters the scope
)

type scope struct {
	c      *compiler
	up     *scope
	fn     *function
	refs   map[string]*binding
	order  []*binding
	stores map[string]bool
	soft   bool // within an if or a conditional expression: unknown filters fail only when reached
}

func (c *compiler) newScope(up *scope, fn *function) *scope {
	return &scope{c: c, up: up, fn: fn, refs: map[string]*binding{}, stores: map[string]bool{}}
}

// inner opens a scope within the same function.
func (s *scope) inner() *scope { return s.c.newScope(s, s.fn) }

func (s *scope) find(name string) *binding {
	for ; s != nil; s = s.up {
		if b := s.refs[name]; b != nil {
			return b
		}
	}
	return nil
}

func (s *scope) define(name string, init initKind, outer *binding) *binding {
	b := s.refs[name]
	if b == nil {
		b = &binding{name: name, global: -1}
		s.refs[name] = b
		s.order = append(s.order, b)
	}
	b.init, b.outer = init, outer
	return b
}

func (s *scope) load(name string) {
	if s.find(name) == nil {
		s.define(name, initResolve, nil)
	}
}

func (s *scope) param(name string) *binding {
	s.stores[name] = true
	return s.define(name, initParam, nil)
}

// store notes an assignment; in a branch of an if the variable may be read
// without having been assigned, and has its outer value then.
func (s *scope) store(name string, branch bool) {
	if s.stores[name] {
		return
	}
	s.stores[name] = true
	outer := s.up.find(name)
	known := s.refs[name] != nil
	switch {
	case !branch && known:
	case outer != nil:
		s.define(name, initAlias, outer)
	case branch:
		s.define(name, initResolve, nil)
	default:
		s.define(name, initUnset, nil)
	}
}

// close gives each binding its place, once all names of the scope are known,
// and returns what sets them when the scope is entered.
func (s *scope) close() func(st *state, e *env) {
	var starts []func(st *state, e *env)
	for _, b := range s.order {
		if b.init == initResolve {
			b.global = s.c.global(b.name)
			if !s.stores[b.name] {
				continue
			}
		}
		b.fn, b.slot = s.fn, s.fn.slots
		s.fn.slots++
		if start := s.start(b); start != nil {
			starts = append(starts, start)
		}
	}
	return func(st *state, e *env) {
		for _, start := range starts {
			start(st, e)
		}
	}
}

func (s *scope) start(b *binding) func(st *state, e *env) {
	slot := b.slot
	switch b.init {
	case initResolve:
		global := b.global
		return func(st *state, e *env) { e.slots[slot] = st.globals[global] }
	case initAlias:
		read := b.outer.read(s.fn)
		return func(st *state, e *env) { e.slots[slot] = read(st, e) }
	case initUnset:
		return func(st *state, e *env) { e.slots[slot] = nil }
	}
	return nil
}

// read returns what reads the binding from within fn: nil when it is unset.
func (b *binding) read(fn *function) func(st *state, e *env) Value {
	if b.fn == nil {
		global := b.global
		return func(st *state, _ *env) Value { return st.globals[global] }
	}
	slot := b.slot
	switch up := fn.distance(b.fn); up {
	case 0:
		return func(_ *state, e *env) Value { return e.slots[slot] }
	case 1:
		return func(_ *state, e *env) Value { return e.up.slots[slot] }
	default:
		return func(_ *state, e *env) Value {
			for range up {
				e = e.up
			}
			return e.slots[slot]
		}
	}
}

func (fn *function) distance(to *function) int {
	n := 0
	for ; fn != to; fn = fn.up {
		n++
	}
	return n
}

// scanBody notes the names that statements load and store in this scope; it
// does not look into scopes that they open.
func (s *scope) scanBody(body []stmt, branch bool) {
	for _, st := range body {
		s.scan(st, branch)
	}
}

func (s *scope) scan(st stmt, branch bool) {
	switch st := st.(type) {
	case *printStmt:
		s.scanExpr(st.x)
	case *ifStmt:
		s.scanExpr(st.tests...)
		for _, body := range st.bodies {
			s.scanBody(body, true)
		}
		s.scanBody(st.orElse, true)
	case *forStmt:
		s.scanExpr(st.iter)
	case *setStmt:
		s.scanExpr(st.value)
		s.scanTarget(st.target, branch)
	case *setBlock:
		s.scanTarget(st.target, branch)
	case *macroStmt:
		s.store(st.name, branch)
	case *callBlock:
		s.scanExpr(st.call)
	case *filterBlock:
		s.scanExpr(st.filter)
	case *withStmt:
		s.scanExpr(st.values...)
	}
}

func (s *scope) scanTarget(target expr, branch bool) {
	switch t := target.(type) {
	case *nameExpr:
		s.store(t.name, branch)
	case *nsRefExpr:
		s.load(t.name)
	case *tupleExpr:
		for _, item := range t.items {
			s.scanTarget(item, branch)
		}
	}
}

// scanParams declares the names of a target as parameters.
func (s *scope) scanParams(target expr) {
	switch t := target.(type) {
	case *nameExpr:
		s.param(t.name)
	case *tupleExpr:
		for _, item := range t.items {
			s.scanParams(item)
		}
	}
}

func (s *scope) scanExpr(list ...expr) {
	for _, x := range list {
		walkNames(x, func(name string) bool { s.load(name); return true })
	}
}
