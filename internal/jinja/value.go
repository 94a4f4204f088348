package jinja

import "math/big"

// A Value is what a template computes with: one of None, Bool, Int, *BigInt,
// Float, String, *List, *Dict, or a kind of this package's own. Values that
// were handed to Render are read only; they may be shared between renderings.
type Value interface{ pyType() string }

type (
	noneType struct{}
	// Bool is a Python bool.
	Bool bool
	// Int is a Python int that fits 64 bits.
	Int int64
	// BigInt is a Python int that does not fit an Int.
	BigInt struct{ i *big.Int }
	// Float is a Python float.
	Float float64
	// String is a Python str.
	String string
	// List is a Python list. Its items belong to the value.
	List struct{ Items []Value }
)

// None is Python's None, JSON's null.
var None Value = noneType{}

type (
	markup string // a str that escape or safe made
	tuple  struct{ items []Value }
	// undefined is what a name, attribute or item that is not there evaluates to.
	undefined struct{ hint string }
	// namespace is the one mutable value.
	namespace struct{ attrs *Dict }
	// rangeValue is range(start, stop, step).
	rangeValue struct{ start, stop, step int64 }
	// view is dict.keys(), .values() or .items().
	view struct {
		d    *Dict
		kind string
	}
	// generator is a lazy sequence that can be walked once.
	generator struct{ next func() (Value, bool) }
	// callable is a function, a method bound to its value, or a macro.
	callable struct {
		name   string
		params []string // names; a trailing "?" marks an optional one
		call   func(st *state, a []Value) Value
		raw    func(st *state, a []Value, kw []keyword) Value // takes any arguments; instead of call
	}
)

// keyword is one keyword argument.
type keyword struct {
	name  string
	value Value
}

func (noneType) pyType() string     { return "NoneType" }
func (Bool) pyType() string         { return "bool" }
func (Int) pyType() string          { return "int" }
func (*BigInt) pyType() string      { return "int" }
func (Float) pyType() string        { return "float" }
func (String) pyType() string       { return "str" }
func (*List) pyType() string        { return "list" }
func (*Dict) pyType() string        { return "dict" }
func (markup) pyType() string       { return "Markup" }
func (*tuple) pyType() string       { return "tuple" }
func (*undefined) pyType() string   { return "Undefined" }
func (*namespace) pyType() string   { return "Namespace" }
func (*rangeValue) pyType() string  { return "range" }
func (v *view) pyType() string      { return "dict_" + v.kind }
func (*generator) pyType() string   { return "generator" }
func (*callable) pyType() string    { return "function" }
func (*loopContext) pyType() string { return "LoopContext" }

func typeName(v Value) string {
	if v == nil {
		return "nothing"
	}
	return v.pyType()
}

func isUndefined(v Value) bool {
	_, ok := v.(*undefined)
	return ok
}

// failUndefined raises if v is undefined.
func failUndefined(v Value) {
	if u, ok := v.(*undefined); ok {
		fail("%s", u.hint)
	}
}

// text returns the string of a str or Markup.
func text(v Value) (string, bool) {
	switch v := v.(type) {
	case String:
		return string(v), true
	case markup:
		return string(v), true
	}
	return "", false
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case Bool:
		return bool(v)
	case String:
		return v != ""
	case noneType, *undefined:
		return false
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return len(v.entries) > 0
	case Int:
		return v != 0
	case Float:
		return v != 0
	case markup:
		return v != ""
	case *tuple:
		return len(v.items) > 0
	case *rangeValue:
		return v.len() > 0
	case *view:
		return len(v.d.entries) > 0
	}
	return true
}

// length is Python's len(v).
func length(v Value) int {
	n, ok := lengthOf(v)
	if !ok {
		fail("object of type '%s' has no len()", typeName(v))
	}
	return n
}

func lengthOf(v Value) (int, bool) {
	switch v := v.(type) {
	case String:
		return runeCount(string(v)), true
	case markup:
		return runeCount(string(v)), true
	case *List:
		return len(v.Items), true
	case *tuple:
		return len(v.items), true
	case *Dict:
		return len(v.entries), true
	case *undefined:
		return 0, true
	case *rangeValue:
		return v.len(), true
	case *view:
		return len(v.d.entries), true
	case *loopContext:
		return v.len(), true
	}
	return 0, false
}

func (r *rangeValue) len() int {
	if r.step > 0 && r.start < r.stop {
		return int((r.stop-r.start-1)/r.step + 1)
	}
	if r.step < 0 && r.start > r.stop {
		return int((r.start-r.stop-1)/-r.step + 1)
	}
	return 0
}

func (r *rangeValue) at(i int) Value { return Int(r.start + int64(i)*r.step) }

func (v *view) at(i int) Value {
	e := &v.d.entries[i]
	switch v.kind {
	case "keys":
		return e.key
	case "values":
		return e.value
	}
	return &tuple{[]Value{e.key, e.value}}
}

// iterate returns a function that yields the items of v, as Python's iter does.
func iterate(v Value) func() (Value, bool) {
	next, ok := iterateOf(v)
	if !ok {
		fail("'%s' object is not iterable", typeName(v))
	}
	return next
}

func iterateOf(v Value) (func() (Value, bool), bool) {
	switch v := v.(type) {
	case *List:
		return over(v.Items), true
	case *tuple:
		return over(v.items), true
	case *Dict:
		return counted(len(v.entries), func(i int) Value { return v.entries[i].key }), true
	case *view:
		return counted(len(v.d.entries), v.at), true
	case *rangeValue:
		return counted(v.len(), v.at), true
	case String:
		return overRunes(string(v), false), true
	case markup:
		return overRunes(string(v), true), true
	case *undefined:
		return over(nil), true
	case *generator:
		return v.next, true
	}
	return nil, false
}

func over(items []Value) func() (Value, bool) {
	i := 0
	return func() (Value, bool) {
		if i == len(items) {
			return nil, false
		}
		i++
		return items[i-1], true
	}
}

func counted(n int, at func(int) Value) func() (Value, bool) {
	i := 0
	return func() (Value, bool) {
		if i == n {
			return nil, false
		}
		i++
		return at(i - 1), true
	}
}

// items returns all items of v; the slice may be v's own.
func items(v Value) []Value {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *tuple:
		return v.items
	}
	var out []Value
	next := iterate(v)
	for x, ok := next(); ok; x, ok = next() {
		out = append(out, x)
	}
	return out
}
