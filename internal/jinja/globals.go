package jinja

import "strings"

// lookupGlobal finds a name in the variables, else among the functions that
// every template has; nil when it is in neither.
func lookupGlobal(vars *Dict, name string) Value {
	if v, ok := vars.Get(name); ok {
		return v
	}
	switch name {
	case "range":
		return &callable{name: name, raw: rangeFunc}
	case "dict":
		return &callable{name: name, raw: dictFunc}
	case "namespace":
		return &callable{name: name, raw: func(st *state, a []Value, kw []keyword) Value {
			return &namespace{dictFunc(st, a, kw).(*Dict)}
		}}
	case "raise_exception":
		return &callable{name: name, params: []string{"message"}, call: raise}
	case "strftime_now":
		return &callable{name: name, params: []string{"format"}, call: strftimeNow}
	}
	return nil
}

// refuseGlobal fails for a function that Jinja2 has and this package lacks.
func refuseGlobal(name string) {
	switch name {
	case "lipsum", "cycler", "joiner", "self":
		fail("the global %s is not supported", name)
	}
}

func raise(_ *state, a []Value) Value {
	panic(&failure{msg: str(a[0])})
}

// maxRange is the sandbox's limit for a range's length.
const maxRange = 100000

func rangeFunc(_ *state, a []Value, kw []keyword) Value {
	noKeywords("range", kw)
	if len(a) == 0 || len(a) > 3 {
		fail("range expected 1 to 3 arguments, got %d", len(a))
	}
	n := make([]int64, len(a))
	for i, v := range a {
		failUndefined(v)
		x, ok := asInt(v)
		if !ok || x > maxIndex || x < -maxIndex {
			fail("'%s' object cannot be interpreted as an integer for range", typeName(v))
		}
		n[i] = x
	}
	r := &rangeValue{0, n[0], 1}
	if len(n) > 1 {
		r.start, r.stop = n[0], n[1]
	}
	if len(n) > 2 {
		r.step = n[2]
	}
	if r.step == 0 {
		fail("range() arg 3 must not be zero")
	}
	if r.len() > maxRange {
		fail("range too big: more than %d items", maxRange)
	}
	return r
}

func dictFunc(_ *state, a []Value, kw []keyword) Value {
	if len(a) > 1 {
		fail("dict expected at most 1 argument, got %d", len(a))
	}
	d := &Dict{}
	if len(a) == 1 {
		if from, ok := a[0].(*Dict); ok {
			d = merge(d, from)
		} else {
			for _, pair := range items(a[0]) {
				kv := items(pair)
				if len(kv) != 2 {
					fail("dict() needs pairs, not sequences of %d", len(kv))
				}
				d.set(kv[0], kv[1])
			}
		}
	}
	for _, k := range kw {
		d.Set(k.name, k.value)
	}
	return d
}

func strftimeNow(st *state, a []Value) Value {
	layout, ok := text(a[0])
	if !ok {
		fail("strftime_now expects a format, not %s", typeName(a[0]))
	}
	if st.options.Strftime != nil {
		return String(st.options.Strftime(layout))
	}
	var b strings.Builder
	formatTime(&b, st.now(), layout)
	return String(b.String())
}
