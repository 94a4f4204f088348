package jinja

// mapFilter is map(attribute=...) or map('filter', ...).
func mapFilter(st *state, a []Value, kw []keyword) Value {
	if len(a) == 0 {
		fail("map needs a sequence")
	}
	apply := mapper(a[1:], kw)
	if !truth(a[0]) {
		return &generator{over(nil)}
	}
	next := iterate(a[0])
	return &generator{func() (Value, bool) {
		v, ok := next()
		if !ok {
			return nil, false
		}
		return apply(st, v), true
	}}
}

func mapper(a []Value, kw []keyword) func(st *state, v Value) Value {
	if len(a) == 0 && len(kw) > 0 {
		return attributeMapper(kw)
	}
	if len(a) == 0 {
		fail("map requires a filter argument")
	}
	name, ok := text(a[0])
	if !ok {
		fail("map: the name of a filter is a string, not %s", typeName(a[0]))
	}
	f := findFilter(name)
	if f == nil {
		fail("no filter named '%s'", name)
	}
	return func(st *state, v Value) Value {
		return call(st, f, append([]Value{v}, a[1:]...), kw)
	}
}

func attributeMapper(kw []keyword) func(st *state, v Value) Value {
	var path, otherwise Value
	for _, k := range kw {
		switch k.name {
		case "attribute":
			path = k.value
		case "default":
			otherwise = k.value
		default:
			fail("unexpected keyword argument '%s' to map", k.name)
		}
	}
	if path == nil {
		fail("map requires a filter argument")
	}
	get := attributeOf(path)
	return func(st *state, v Value) Value {
		v = get(st, v)
		if isUndefined(v) && otherwise != nil && otherwise != None {
			return otherwise
		}
		return v
	}
}

// selectFilter is select, reject, selectattr or rejectattr.
func selectFilter(st *state, a []Value, kw []keyword, keep, byAttr bool) Value {
	if len(a) == 0 {
		fail("select needs a sequence")
	}
	if !truth(a[0]) {
		return &generator{over(nil)}
	}
	rest := a[1:]
	get := attributeOf(None)
	if byAttr {
		if len(rest) == 0 {
			fail("missing parameter for attribute name")
		}
		get, rest = attributeOf(rest[0]), rest[1:]
	}
	test := tester(rest, kw)
	next := iterate(a[0])
	return &generator{func() (Value, bool) {
		for v, ok := next(); ok; v, ok = next() {
			if test(st, get(st, v)) == keep {
				return v, true
			}
		}
		return nil, false
	}}
}

func tester(a []Value, kw []keyword) func(st *state, v Value) bool {
	if len(a) == 0 {
		return func(_ *state, v Value) bool { return truth(v) }
	}
	name, ok := text(a[0])
	if !ok {
		fail("the name of a test is a string, not %s", typeName(a[0]))
	}
	t := findTest(name)
	if t == nil {
		fail("no test named '%s'", name)
	}
	return func(st *state, v Value) bool {
		return truth(call(st, t, append([]Value{v}, a[1:]...), kw))
	}
}

func formatFilter(_ *state, a []Value, kw []keyword) Value {
	if len(a) == 0 {
		fail("format needs a string")
	}
	if len(a) > 1 && len(kw) > 0 {
		fail("can't handle positional and keyword arguments at the same time")
	}
	var args Value = &tuple{a[1:]}
	if len(kw) > 0 {
		d := NewDict(len(kw))
		for _, k := range kw {
			d.Set(k.name, k.value)
		}
		args = d
	}
	s := soft(a[0])
	if m, ok := s.(markup); ok {
		return markup(percentFormat(string(m), args, true))
	}
	return String(percentFormat(str(s), args, false))
}
