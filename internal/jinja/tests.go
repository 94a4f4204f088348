package jinja

import (
	"math/big"
	"strings"
)

// findTest returns a test by its name, or nil.
func findTest(name string) *callable {
	if f := simpleTest(name); f != nil {
		return &callable{name: name, params: []string{"value"}, call: func(_ *state, a []Value) Value {
			return Bool(f(a[0]))
		}}
	}
	if op := comparisonTest(name); op != "" {
		return &callable{name: name, params: []string{"value", "other"}, call: func(_ *state, a []Value) Value {
			return Bool(compare(op, a[0], a[1]))
		}}
	}
	switch name {
	case "divisibleby":
		return &callable{name: name, params: []string{"value", "num"}, call: func(_ *state, a []Value) Value {
			return Bool(equal(binary("%", a[0], a[1]), Int(0)))
		}}
	case "sameas":
		return &callable{name: name, params: []string{"value", "other"}, call: func(_ *state, a []Value) Value {
			return Bool(same(a[0], a[1]))
		}}
	}
	return nil
}

func comparisonTest(name string) kind {
	switch name {
	case "eq", "==", "equalto":
		return "=="
	case "ne", "!=":
		return "!="
	case "lt", "<", "lessthan":
		return "<"
	case "le", "<=":
		return "<="
	case "gt", ">", "greaterthan":
		return ">"
	case "ge", ">=":
		return ">="
	case "in":
		return "in"
	}
	return ""
}

// same is Python's a is b for values whose identity shows.
func same(a, b Value) bool {
	switch a.(type) {
	case noneType, Bool:
		return a == b
	case String, markup, Int, *BigInt, Float, *tuple:
		// Whether equal ones are one object depends on how CPython made them.
		if typeName(a) == typeName(b) && equal(a, b) {
			if n, ok := a.(Int); ok && n >= -5 && n <= 256 {
				return true
			}
			fail("whether two equal values of type %s are the same object is not defined", typeName(a))
		}
		return false
	}
	return a == b
}

func simpleTest(name string) func(v Value) bool {
	switch name {
	case "defined":
		return func(v Value) bool { return !isUndefined(v) }
	case "undefined":
		return isUndefined
	case "none":
		return func(v Value) bool { return v == None }
	case "true":
		return func(v Value) bool { return v == Bool(true) }
	case "false":
		return func(v Value) bool { return v == Bool(false) }
	case "boolean":
		return func(v Value) bool { _, ok := v.(Bool); return ok }
	case "string":
		return isText
	case "number":
		return isNumber
	case "float":
		return func(v Value) bool { _, ok := v.(Float); return ok }
	case "integer":
		return func(v Value) bool {
			_, ok := asBig(v)
			_, boolean := v.(Bool)
			return ok && !boolean
		}
	case "mapping":
		return func(v Value) bool { _, ok := v.(*Dict); return ok }
	case "sequence":
		return isSequence
	case "iterable":
		return func(v Value) bool { _, ok := iterateOf(v); return ok || isLoop(v) }
	case "callable":
		return isCallable
	case "odd":
		return func(v Value) bool { return equal(binary("%", v, Int(2)), Int(1)) }
	case "even":
		return func(v Value) bool { return equal(binary("%", v, Int(2)), Int(0)) }
	case "lower":
		return func(v Value) bool { return cased(str(v), false) }
	case "upper":
		return func(v Value) bool { return cased(str(v), true) }
	case "escaped":
		return func(v Value) bool { _, ok := v.(markup); return ok }
	case "filter":
		return func(v Value) bool {
			return isKnown(v, func(n string) bool { return findFilter(n) != nil || isForeignFilter(n) })
		}
	case "test":
		return func(v Value) bool { return isKnown(v, func(n string) bool { return findTest(n) != nil }) }
	}
	return nil
}

func isKnown(v Value, known func(string) bool) bool {
	s, ok := text(v)
	return ok && known(s)
}

func isLoop(v Value) bool {
	_, ok := v.(*loopContext)
	return ok
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *callable, *loopContext, *undefined: // calling an undefined raises, but it can be called
		return true
	}
	return false
}

// isSequence is Jinja2's test: it has a length and a subscript.
func isSequence(v Value) bool {
	switch v.(type) {
	case String, markup, *List, *tuple, *Dict, *rangeValue, *undefined:
		return true
	}
	return false
}

// cased reports whether s has cased characters and all of them are of one case.
func cased(s string, upper bool) bool {
	if upper {
		return s != strings.ToLower(s) && s == strings.ToUpper(s)
	}
	return s != strings.ToUpper(s) && s == strings.ToLower(s)
}

// numberAttr returns an attribute of a number, or nil.
func numberAttr(v Value, name string) Value {
	i, isInt := asBig(v)
	switch name {
	case "real":
		if isInt {
			return normInt(new(big.Int).Set(i))
		}
		return v
	case "imag", "numerator", "denominator", "conjugate", "bit_length", "bit_count", "to_bytes", "from_bytes",
		"as_integer_ratio", "is_integer", "hex", "fromhex":
		fail("the attribute %s of a %s is not supported", name, typeName(v))
	}
	return nil
}
