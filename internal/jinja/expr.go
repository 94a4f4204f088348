package jinja

func (s *scope) exprs(list []expr) []evalFunc {
	out := make([]evalFunc, len(list))
	for i, x := range list {
		out[i] = s.expr(x)
	}
	return out
}

func (s *scope) expr(x expr) evalFunc {
	switch x := x.(type) {
	case *constExpr:
		v := x.value
		return func(*state, *env) Value { return v }
	case *nameExpr:
		return s.name(x)
	case *tupleExpr:
		list := s.exprs(x.items)
		return func(st *state, e *env) Value { return &tuple{evalAll(st, e, list)} }
	case *listExpr:
		list := s.exprs(x.items)
		return func(st *state, e *env) Value { return &List{Items: evalAll(st, e, list)} }
	case *dictExpr:
		return s.dictExpr(x)
	case *condExpr:
		return s.cond(x)
	case *logicExpr:
		return s.logic(x)
	case *binaryExpr:
		op, left, right := x.op, s.expr(x.left), s.expr(x.right)
		return func(st *state, e *env) Value { return binary(op, left(st, e), right(st, e)) }
	case *notExpr:
		operand := s.expr(x.x)
		return func(st *state, e *env) Value { return Bool(!truth(operand(st, e))) }
	case *signExpr:
		op, operand := x.op, s.expr(x.x)
		return func(st *state, e *env) Value { return sign(op, operand(st, e)) }
	case *concatExpr:
		return s.concat(x)
	case *compareExpr:
		return s.compareExpr(x)
	case *attrExpr:
		return s.attr(x)
	case *itemExpr:
		of, index := s.expr(x.x), s.expr(x.index)
		if name, ok := x.index.(*constExpr); ok && isText(name.value) {
			s.c.attrs[str(name.value)] = true
		}
		return func(st *state, e *env) Value { return getItem(st, of(st, e), index(st, e)) }
	case *sliceExpr:
		return s.slice(x)
	case *callExpr:
		return s.call(x)
	case *filterExpr:
		return s.filter(x)
	case *testExpr:
		return s.test(x)
	}
	panic("jinja: unknown expression")
}

func evalAll(st *state, e *env, list []evalFunc) []Value {
	out := make([]Value, len(list))
	for i, eval := range list {
		out[i] = eval(st, e)
	}
	return out
}

func (s *scope) name(x *nameExpr) evalFunc {
	read := s.find(x.name).read(s.fn)
	unset := &undefined{"'" + x.name + "' is undefined"}
	return func(st *state, e *env) Value {
		if v := read(st, e); v != nil {
			return v
		}
		return unset
	}
}

func (s *scope) dictExpr(x *dictExpr) evalFunc {
	keys, values := s.exprs(x.keys), s.exprs(x.values)
	return func(st *state, e *env) Value {
		d := NewDict(len(keys))
		for i, key := range keys {
			d.set(key(st, e), values[i](st, e))
		}
		return d
	}
}

func (s *scope) cond(x *condExpr) evalFunc {
	soft := s.soft
	s.soft = true
	test, yes := s.expr(x.test), s.expr(x.yes)
	var no evalFunc
	if x.no != nil {
		no = s.expr(x.no)
	}
	s.soft = soft
	none := &undefined{"the inline if-expression evaluated to false and no else section was defined"}
	return func(st *state, e *env) Value {
		switch {
		case truth(test(st, e)):
			return yes(st, e)
		case no != nil:
			return no(st, e)
		}
		return none
	}
}

func (s *scope) logic(x *logicExpr) evalFunc {
	or, left, right := x.or, s.expr(x.left), s.expr(x.right)
	return func(st *state, e *env) Value {
		if v := left(st, e); truth(v) == or {
			return v
		}
		return right(st, e)
	}
}

func (s *scope) concat(x *concatExpr) evalFunc {
	list := s.exprs(x.items)
	return func(st *state, e *env) Value {
		var buf []byte
		for _, eval := range list {
			buf = appendStr(buf, eval(st, e))
		}
		return String(buf)
	}
}

func (s *scope) compareExpr(x *compareExpr) evalFunc {
	first, ops, rest := s.expr(x.first), x.ops, s.exprs(x.rest)
	if len(ops) == 1 {
		op, right := ops[0], rest[0]
		return func(st *state, e *env) Value {
			left := first(st, e)
			return Bool(compare(op, left, right(st, e)))
		}
	}
	return func(st *state, e *env) Value {
		left := first(st, e)
		for i, op := range ops {
			right := rest[i](st, e)
			if !compare(op, left, right) {
				return Bool(false)
			}
			left = right
		}
		return Bool(true)
	}
}

func (s *scope) attr(x *attrExpr) evalFunc {
	of, name := s.expr(x.x), x.name
	s.c.attrs[name] = true
	missing := &undefined{"object has no attribute '" + name + "'"}
	method := isDictMethod(name) || isHidden(name)
	return func(st *state, e *env) Value {
		v := of(st, e)
		if d, ok := v.(*Dict); ok && !method {
			if i := d.findString(name); i >= 0 {
				return d.entries[i].value
			}
			return missing
		}
		return getAttr(v, name, missing)
	}
}

func (s *scope) slice(x *sliceExpr) evalFunc {
	of := s.expr(x.x)
	bounds := make([]evalFunc, 3)
	for i, b := range []expr{x.low, x.high, x.step} {
		if b != nil {
			bounds[i] = s.expr(b)
		}
	}
	return func(st *state, e *env) Value {
		v := of(st, e)
		got := [3]Value{None, None, None}
		for i, b := range bounds {
			if b != nil {
				got[i] = b(st, e)
			}
		}
		return slice(v, got[0], got[1], got[2])
	}
}

func (s *scope) call(x *callExpr) evalFunc {
	fn, args := s.expr(x.fn), s.args(&x.args)
	return func(st *state, e *env) Value {
		callee := fn(st, e)
		pos, kw := args(st, e, nil)
		return call(st, callee, pos, kw)
	}
}

// call calls v.
func call(st *state, v Value, pos []Value, kw []keyword) Value {
	switch f := v.(type) {
	case *callable:
		if f.raw != nil {
			return f.raw(st, pos, kw)
		}
		return f.call(st, bindArgs(f.name, f.params, pos, kw))
	case *loopContext:
		if f.again == nil {
			fail("the loop must have the recursive marker to be called")
		}
		if len(pos) != 1 || len(kw) > 0 {
			fail("loop() takes one argument")
		}
		return f.again(st, pos[0], f.depth0+1)
	}
	failUndefined(v)
	fail("'%s' object is not callable", typeName(v))
	return nil
}

// argsFunc evaluates arguments; first, if not nil, is put before them.
type argsFunc func(st *state, e *env, first Value) ([]Value, []keyword)

func (s *scope) args(a *callArgs) argsFunc {
	pos, named, names := s.exprs(a.pos), s.exprs(a.named), a.names
	var star, stars evalFunc
	if a.star != nil {
		star = s.expr(a.star)
	}
	if a.stars != nil {
		stars = s.expr(a.stars)
	}
	return func(st *state, e *env, first Value) ([]Value, []keyword) {
		list := make([]Value, 0, len(pos)+1)
		if first != nil {
			list = append(list, first)
		}
		for _, eval := range pos {
			list = append(list, eval(st, e))
		}
		var kw []keyword
		for i, eval := range named {
			kw = append(kw, keyword{names[i], eval(st, e)})
		}
		if star != nil {
			list = append(list, items(star(st, e))...)
		}
		if stars != nil {
			kw = appendKeywords(kw, stars(st, e))
		}
		return list, kw
	}
}

func appendKeywords(kw []keyword, v Value) []keyword {
	d, ok := v.(*Dict)
	if !ok {
		fail("the argument after ** must be a mapping, not %s", typeName(v))
	}
	for _, e := range d.entries {
		name, ok := text(e.key)
		if !ok {
			fail("keywords must be strings")
		}
		for _, k := range kw {
			if k.name == name {
				fail("got multiple values for keyword argument '%s'", name)
			}
		}
		kw = append(kw, keyword{name, e.value})
	}
	return kw
}

func noKeywords(name string, kw []keyword) {
	if len(kw) > 0 {
		fail("%s() takes no keyword arguments", name)
	}
}

// bindArgs puts arguments into the places of params; one that is not given is
// nil, which only an optional parameter ("name?") may be.
func bindArgs(name string, params []string, pos []Value, kw []keyword) []Value {
	if len(pos) > len(params) {
		fail("%s() takes %d arguments but %d were given", name, len(params), len(pos))
	}
	out := make([]Value, len(params))
	copy(out, pos)
	for _, k := range kw {
		i := indexParam(params, k.name)
		if i < 0 {
			fail("%s() got an unexpected keyword argument '%s'", name, k.name)
		}
		if out[i] != nil {
			fail("%s() got multiple values for argument '%s'", name, k.name)
		}
		out[i] = k.value
	}
	for i, p := range params {
		if out[i] == nil && p[len(p)-1] != '?' {
			fail("%s() is missing the argument '%s'", name, p)
		}
	}
	return out
}

func indexParam(params []string, name string) int {
	for i, p := range params {
		if p == name || len(p) == len(name)+1 && p[:len(name)] == name && p[len(name)] == '?' {
			return i
		}
	}
	return -1
}

func (s *scope) filter(x *filterExpr) evalFunc {
	of, apply, args := s.expr(x.x), s.filterFunc(x), s.args(&x.args)
	return func(st *state, e *env) Value {
		v := of(st, e)
		pos, kw := args(st, e, v)
		return apply(st, pos, kw)
	}
}

// filterFunc finds a filter. One that Jinja2 does not know either is refused
// now, or when it is reached if it stands in a branch; one that only we lack is
// always refused now.
func (s *scope) filterFunc(x *filterExpr) func(st *state, pos []Value, kw []keyword) Value {
	f := findFilter(x.name)
	if f == nil {
		if !s.soft || isForeignFilter(x.name) {
			failAt(x.line, "the filter %s is not supported", x.name)
		}
		return func(*state, []Value, []keyword) Value {
			fail("no filter named '%s'", x.name)
			return nil
		}
	}
	return func(st *state, pos []Value, kw []keyword) Value { return call(st, f, pos, kw) }
}

func (s *scope) test(x *testExpr) evalFunc {
	of, args := s.expr(x.x), s.args(&x.args)
	t := findTest(x.name)
	if t == nil {
		if !s.soft {
			failAt(x.line, "the test %s is not supported", x.name)
		}
		t = &callable{raw: func(*state, []Value, []keyword) Value {
			fail("no test named '%s'", x.name)
			return nil
		}}
	}
	if t.simple() && len(x.args.pos) == 0 && x.args.star == nil && len(x.args.names) == 0 && x.args.stars == nil {
		return func(st *state, e *env) Value { return t.call(st, []Value{of(st, e)}) }
	}
	return func(st *state, e *env) Value {
		v := of(st, e)
		pos, kw := args(st, e, v)
		return call(st, t, pos, kw)
	}
}

// simple reports whether the callable takes one argument.
func (c *callable) simple() bool { return c.raw == nil && len(c.params) == 1 }
