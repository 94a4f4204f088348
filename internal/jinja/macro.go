package jinja

// macroCode is a compiled macro or call block, without the activation that it
// was defined in.
type macroCode struct {
	name     string
	fn       *function
	start    func(st *state, e *env)
	params   []string
	slots    []int
	defaults []evalFunc // one a parameter; nil without a default
	caller   int        // slot of caller; -1: not used
	kwargs   int
	varargs  int
	body     execFunc
	line     int
}

func (s *scope) macroStmt(node *macroStmt) execFunc {
	code := s.macro(node.name, node.sig, node.body, node.line)
	slot := s.refs[node.name].slot
	return func(_ *state, e *env) control {
		e.slots[slot] = code.bind(e)
		return goOn
	}
}

func (s *scope) callBlock(node *callBlock) execFunc {
	code := s.macro("caller", node.sig, node.body, node.line)
	fn, args, line := s.expr(node.call.fn), s.args(&node.call.args), node.line
	return func(st *state, e *env) control {
		st.line = line
		callee := fn(st, e)
		pos, kw := args(st, e, nil)
		kw = append(kw, keyword{"caller", code.bind(e)})
		st.out = appendStr(st.out, call(st, callee, pos, kw))
		return goOn
	}
}

func (s *scope) macro(name string, sig signature, body []stmt, line int) *macroCode {
	m := &macroCode{name: name, params: sig.params, line: line, fn: &function{up: s.fn}}
	in := s.c.newScope(s, m.fn)
	for _, p := range sig.params {
		in.param(p)
	}
	in.scanExpr(sig.defaults...)
	in.scanBody(body, false)
	caller := in.special(sig, body, "caller")
	kwargs := in.special(sig, body, "kwargs")
	varargs := in.special(sig, body, "varargs")
	m.start = in.close()
	m.caller, m.kwargs, m.varargs = slotOf(caller), slotOf(kwargs), slotOf(varargs)
	m.defaults = make([]evalFunc, len(sig.params))
	for i, p := range sig.params {
		m.slots = append(m.slots, in.refs[p].slot)
		if d := i - (len(sig.params) - len(sig.defaults)); d >= 0 {
			m.defaults[i] = in.expr(sig.defaults[d])
		}
	}
	m.body = in.body(body)
	return m
}

// special declares one of a macro's implicit variables if the body reads it.
func (s *scope) special(sig signature, body []stmt, name string) *binding {
	for _, p := range sig.params {
		if p == name {
			return nil
		}
	}
	if !reads(body, name) {
		return nil
	}
	return s.param(name)
}

func slotOf(b *binding) int {
	if b == nil {
		return -1
	}
	return b.slot
}

// bind makes the macro callable; e is the activation that it is defined in.
func (m *macroCode) bind(e *env) *callable {
	return &callable{name: m.name, raw: func(st *state, a []Value, kw []keyword) Value {
		return m.call(st, &env{slots: make([]Value, m.fn.slots), up: e}, a, kw)
	}}
}

func (m *macroCode) call(st *state, e *env, a []Value, kw []keyword) Value {
	line := st.line
	st.enter()
	defer st.leave()
	m.start(st, e)
	rest := m.setArgs(e, a, kw)
	m.setSpecial(e, a, rest)
	for i, d := range m.defaults {
		if slot := m.slots[i]; e.slots[slot] == nil {
			if d != nil {
				e.slots[slot] = d(st, e)
			} else {
				e.slots[slot] = &undefined{"parameter '" + m.params[i] + "' was not provided"}
			}
		}
	}
	out := st.capture(m.body, e)
	st.line = line
	return out
}

// setArgs sets the parameters that arguments are given for, and returns the
// keyword arguments that are left.
func (m *macroCode) setArgs(e *env, a []Value, kw []keyword) []keyword {
	for i := range min(len(a), len(m.slots)) {
		e.slots[m.slots[i]] = a[i]
	}
	var rest []keyword
	for _, k := range kw {
		i := m.param(k.name)
		if i < len(a) {
			rest = append(rest, k)
			continue
		}
		e.slots[m.slots[i]] = k.value
	}
	return rest
}

func (m *macroCode) param(name string) int {
	for i, p := range m.params {
		if p == name {
			return i
		}
	}
	return -1
}

func (m *macroCode) setSpecial(e *env, a []Value, rest []keyword) {
	if m.caller >= 0 {
		e.slots[m.caller] = &undefined{"no caller defined"}
		for i, k := range rest {
			if k.name == "caller" {
				e.slots[m.caller] = k.value
				rest = append(rest[:i:i], rest[i+1:]...)
				break
			}
		}
	}
	if m.kwargs >= 0 {
		d := NewDict(len(rest))
		for _, k := range rest {
			d.Set(k.name, k.value)
		}
		e.slots[m.kwargs] = d
	} else if len(rest) > 0 {
		fail("macro '%s' takes no keyword argument '%s'", m.name, rest[0].name)
	}
	var extra []Value
	if len(a) > len(m.params) {
		extra = append(extra, a[len(m.params):]...)
	}
	if m.varargs >= 0 {
		e.slots[m.varargs] = &tuple{extra}
	} else if len(extra) > 0 {
		fail("macro '%s' takes not more than %d argument(s)", m.name, len(m.params))
	}
}

// macroAttr returns an attribute of a macro, or nil.
func macroAttr(v *callable, name string) Value {
	if name == "name" {
		return String(v.name)
	}
	return nil
}
