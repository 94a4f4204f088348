package jinja

// loopContext is the variable loop within a for-loop.
type loopContext struct {
	next     func() (Value, bool)
	size     int // -1: not known yet
	index0   int // of the current item; -1 before the first
	depth0   int
	previous Value
	current  Value
	ahead    []Value                                   // items taken from next early
	changed  Value                                     // what changed() was called with last, or nil
	again    func(st *state, v Value, depth int) Value // nil: not recursive
}

func newLoop(v Value) *loopContext {
	l := &loopContext{next: iterate(v), size: -1, index0: -1}
	if n, ok := lengthOf(v); ok {
		l.size = n
	}
	return l
}

// advance moves to the next item.
func (l *loopContext) advance() bool {
	var v Value
	if len(l.ahead) > 0 {
		v, l.ahead = l.ahead[0], l.ahead[1:]
	} else {
		var ok bool
		if v, ok = l.next(); !ok {
			return false
		}
	}
	l.index0++
	l.previous, l.current = l.current, v
	return true
}

// peek returns the item after the current one, or nil.
func (l *loopContext) peek() Value {
	if len(l.ahead) == 0 {
		v, ok := l.next()
		if !ok {
			return nil
		}
		l.ahead = append(l.ahead, v)
	}
	return l.ahead[0]
}

func (l *loopContext) len() int {
	if l.size < 0 {
		for v, ok := l.next(); ok; v, ok = l.next() {
			l.ahead = append(l.ahead, v)
		}
		l.size = l.index0 + 1 + len(l.ahead)
	}
	return l.size
}

// attr returns an attribute of loop, or nil.
func (l *loopContext) attr(name string) Value {
	switch name {
	case "index":
		return Int(l.index0 + 1)
	case "index0":
		return Int(l.index0)
	case "first":
		return Bool(l.index0 == 0)
	case "last":
		return Bool(l.peek() == nil)
	case "length":
		return Int(l.len())
	case "revindex":
		return Int(l.len() - l.index0)
	case "revindex0":
		return Int(l.len() - l.index0 - 1)
	case "previtem":
		return orUndefined(l.previous, "there is no previous item")
	case "nextitem":
		return orUndefined(l.peek(), "there is no next item")
	case "depth":
		return Int(l.depth0 + 1)
	case "depth0":
		return Int(l.depth0)
	case "cycle":
		return &callable{name: "cycle", raw: l.cycle}
	case "changed":
		return &callable{name: "changed", raw: l.hasChanged}
	}
	return nil
}

func orUndefined(v Value, hint string) Value {
	if v == nil {
		return &undefined{hint}
	}
	return v
}

func (l *loopContext) cycle(_ *state, a []Value, kw []keyword) Value {
	noKeywords("cycle", kw)
	if len(a) == 0 {
		fail("no items for cycling given")
	}
	return a[l.index0%len(a)]
}

func (l *loopContext) hasChanged(_ *state, a []Value, kw []keyword) Value {
	noKeywords("changed", kw)
	now := &tuple{append([]Value(nil), a...)}
	if l.changed != nil && equal(l.changed, now) {
		return Bool(false)
	}
	l.changed = now
	return Bool(true)
}

// forLoop is a compiled for-loop, without where its items come from.
type forLoop struct {
	start    func(st *state, e *env)
	assign   assignFunc
	loopSlot int // -1: the body does not use loop
	test     func(st *state, e *env, v Value) bool
	body     execFunc
	orElse   execFunc
}

func (s *scope) forStmt(node *forStmt) execFunc {
	iter, line := s.expr(node.iter), node.line
	if node.recursive {
		return s.recursive(node, iter)
	}
	loop := s.forLoop(node)
	return func(st *state, e *env) control {
		st.line = line
		return loop.run(st, e, iter(st, e), nil, 0)
	}
}

func (s *scope) forLoop(node *forStmt) *forLoop {
	f := &forLoop{loopSlot: -1}
	in := s.inner()
	var loop *binding
	if node.recursive || reads(node.body, "loop") {
		loop = in.param("loop")
	}
	in.scanParams(node.target)
	in.scanBody(node.body, false)
	f.start = in.close()
	if loop != nil {
		f.loopSlot = loop.slot
	}
	f.assign = in.assign(node.target)
	f.test = s.loopTest(node)
	f.body = in.body(node.body)
	f.orElse = s.within(node.orElse)
	return f
}

func (s *scope) loopTest(node *forStmt) func(st *state, e *env, v Value) bool {
	if node.test == nil {
		return nil
	}
	walkNames(node.test, func(name string) bool {
		if name == "loop" {
			failAt(node.line, "the filter of a loop can't use the variable loop")
		}
		return true
	})
	in := s.inner()
	in.scanParams(node.target)
	in.scanExpr(node.test)
	start := in.close()
	assign, test := in.assign(node.target), in.expr(node.test)
	return func(st *state, e *env, v Value) bool {
		start(st, e)
		assign(st, e, v)
		return truth(test(st, e))
	}
}

// run walks the items of v. A break or continue that it returns stands in the
// loop's else, and is meant for the loop around it.
func (f *forLoop) run(st *state, e *env, v Value, again func(*state, Value, int) Value, depth int) control {
	if f.test != nil {
		v = f.filtered(st, e, v)
	}
	if f.loopSlot < 0 {
		return f.plain(st, e, iterate(v))
	}
	loop := newLoop(v)
	loop.again, loop.depth0 = again, depth
	none := true
	for loop.advance() {
		e.slots[f.loopSlot] = loop
		f.start(st, e)
		f.assign(st, e, loop.current)
		c := f.body(st, e)
		if c == doBreak {
			break
		}
		none = none && c == doContinue
	}
	if none {
		return f.orElse(st, e)
	}
	return goOn
}

func (f *forLoop) plain(st *state, e *env, next func() (Value, bool)) control {
	none := true
	for v, ok := next(); ok; v, ok = next() {
		f.start(st, e)
		f.assign(st, e, v)
		c := f.body(st, e)
		if c == doBreak {
			break
		}
		none = none && c == doContinue
	}
	if none {
		return f.orElse(st, e)
	}
	return goOn
}

// filtered is v without the items that the loop's own if leaves out; they are
// tested as the loop gets to them.
func (f *forLoop) filtered(st *state, e *env, v Value) Value {
	next := iterate(v)
	return &generator{next: func() (Value, bool) {
		for item, ok := next(); ok; item, ok = next() {
			if f.test(st, e, item) {
				return item, true
			}
		}
		return nil, false
	}}
}

// recursive compiles a loop that may call itself through loop(items).
func (s *scope) recursive(node *forStmt, iter evalFunc) execFunc {
	fn := &function{up: s.fn}
	in := s.c.newScope(s, fn)
	in.close()
	loop := in.forLoop(node)
	line := node.line
	return func(st *state, e *env) control {
		st.line = line
		var again func(st *state, v Value, depth int) Value
		again = func(st *state, v Value, depth int) Value {
			st.enter()
			defer st.leave()
			own := &env{slots: make([]Value, fn.slots), up: e}
			return st.capture(func(st *state, own *env) control {
				return loop.run(st, own, v, again, depth)
			}, own)
		}
		text := again(st, iter(st, e), 0)
		st.out = append(st.out, text.(String)...)
		return goOn
	}
}

// maxDepth bounds nested calls; Python's own recursion limit is reached a little later.
const maxDepth = 200

func (st *state) enter() {
	if st.depth++; st.depth > maxDepth {
		fail("maximum recursion depth exceeded")
	}
}

func (st *state) leave() { st.depth-- }
