package jinja

import (
	"math/big"
	"strings"
)

// binary applies an arithmetic operator as Python does.
func binary(op kind, a, b Value) Value {
	if isNumber(a) && isNumber(b) {
		return arithmetic(op, a, b)
	}
	if !(op == "%" && isText(a)) {
		failUndefined(a)
		failUndefined(b)
	}
	switch op {
	case "+":
		if v := add(a, b); v != nil {
			return v
		}
	case "*":
		if v := repeat(a, b); v != nil {
			return v
		}
		if v := repeat(b, a); v != nil {
			return v
		}
	case "%":
		if s, ok := a.(String); ok {
			return String(percentFormat(string(s), b, false))
		}
		if m, ok := a.(markup); ok {
			return markup(percentFormat(string(m), b, true))
		}
	}
	fail("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return nil
}

func isText(v Value) bool {
	_, ok := text(v)
	return ok
}

// add concatenates; nil when the types don't fit.
func add(a, b Value) Value {
	switch x := a.(type) {
	case String:
		switch y := b.(type) {
		case String:
			return x + y
		case markup:
			return markup(escapeHTML(string(x))) + y
		}
	case markup:
		switch y := b.(type) {
		case String:
			return x + markup(escapeHTML(string(y)))
		case markup:
			return x + y
		}
	case *List:
		if y, ok := b.(*List); ok {
			return &List{Items: joined(x.Items, y.Items)}
		}
	case *tuple:
		if y, ok := b.(*tuple); ok {
			return &tuple{joined(x.items, y.items)}
		}
	}
	return nil
}

func joined(a, b []Value) []Value {
	out := make([]Value, 0, len(a)+len(b))
	return append(append(out, a...), b...)
}

// maxRepeat bounds the length of what * makes of a sequence.
const maxRepeat = 1 << 24

// repeat is a * n for a sequence; nil when the types don't fit.
func repeat(a, n Value) Value {
	count, ok := asInt(n)
	if !ok {
		return nil
	}
	count = max(count, 0)
	size, sequence := lengthOf(a)
	if sequence && count > 0 && int64(size) > maxRepeat/count {
		fail("a repetition of %d times %d items is more than is supported", count, size)
	}
	switch v := a.(type) {
	case String:
		return String(strings.Repeat(string(v), int(count)))
	case markup:
		return markup(strings.Repeat(string(v), int(count)))
	case *List:
		return &List{Items: repeated(v.Items, int(count))}
	case *tuple:
		return &tuple{repeated(v.items, int(count))}
	}
	return nil
}

func repeated(items []Value, n int) []Value {
	out := make([]Value, 0, n*len(items))
	for range n {
		out = append(out, items...)
	}
	return out
}

// sign applies a unary + or -.
func sign(op kind, v Value) Value {
	failUndefined(v)
	switch x := v.(type) {
	case Float:
		if op == "-" {
			return -x
		}
		return x
	case Bool, Int, *BigInt:
		i, _ := asBig(x)
		if op == "-" {
			return normInt(new(big.Int).Neg(i))
		}
		return normInt(new(big.Int).Set(i))
	}
	fail("bad operand type for unary %s: '%s'", op, typeName(v))
	return nil
}

// equal is Python's ==.
func equal(a, b Value) bool {
	switch x := a.(type) {
	case String:
		s, ok := text(b)
		return ok && s == string(x)
	case markup:
		s, ok := text(b)
		return ok && s == string(x)
	case Bool, Int, *BigInt, Float:
		if !isNumber(b) {
			return false
		}
		c, ok := cmpNumbers(x, b)
		return ok && c == 0
	case noneType:
		_, ok := b.(noneType)
		return ok
	case *undefined:
		return isUndefined(b)
	case *List:
		y, ok := b.(*List)
		return ok && equalItems(x.Items, y.Items)
	case *tuple:
		y, ok := b.(*tuple)
		return ok && equalItems(x.items, y.items)
	case *Dict:
		y, ok := b.(*Dict)
		return ok && equalDicts(x, y)
	case *rangeValue:
		y, ok := b.(*rangeValue)
		return ok && equalItems(items(x), items(y))
	case *view:
		fail("comparing a %s is not supported", typeName(a))
	}
	return a == b
}

func equalItems(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equalDicts(a, b *Dict) bool {
	if len(a.entries) != len(b.entries) {
		return false
	}
	for _, e := range a.entries {
		v, ok := b.get(e.key)
		if !ok || !equal(e.value, v) {
			return false
		}
	}
	return true
}

// compare applies a comparison operator.
func compare(op kind, a, b Value) bool {
	switch op {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	case "in":
		return contains(b, a)
	case "not in":
		return !contains(b, a)
	}
	c, ok := order(op, a, b)
	switch op {
	case "<":
		return ok && c < 0
	case "<=":
		return ok && c <= 0
	case ">":
		return ok && c > 0
	}
	return ok && c >= 0
}

// order compares for op; ok is false when a NaN is involved.
func order(op kind, a, b Value) (c int, ok bool) {
	failUndefined(a)
	failUndefined(b)
	if isNumber(a) && isNumber(b) {
		return cmpNumbers(a, b)
	}
	if s, isStr := text(a); isStr {
		if t, isStr := text(b); isStr {
			return strings.Compare(s, t), true // UTF-8 sorts as code points do
		}
	}
	if x, isList := a.(*List); isList {
		if y, isList := b.(*List); isList {
			return orderItems(op, x.Items, y.Items)
		}
	}
	if x, isTuple := a.(*tuple); isTuple {
		if y, isTuple := b.(*tuple); isTuple {
			return orderItems(op, x.items, y.items)
		}
	}
	fail("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	return 0, false
}

func orderItems(op kind, a, b []Value) (int, bool) {
	for i := range min(len(a), len(b)) {
		if !equal(a[i], b[i]) {
			return order(op, a[i], b[i])
		}
	}
	return cmpInt(int64(len(a)), int64(len(b))), true
}

// contains is Python's x in v.
func contains(v, x Value) bool {
	switch c := v.(type) {
	case String, markup:
		in, _ := text(v)
		s, ok := text(x)
		if !ok {
			failUndefined(x)
			fail("'in <string>' requires string as left operand, not %s", typeName(x))
		}
		return strings.Contains(in, s)
	case *Dict:
		_, ok := c.get(x)
		return ok
	case *view:
		if c.kind == "keys" {
			_, ok := c.d.get(x)
			return ok
		}
	}
	next, ok := iterateOf(v)
	if !ok {
		fail("argument of type '%s' is not iterable", typeName(v))
	}
	for item, ok := next(); ok; item, ok = next() {
		if equal(item, x) {
			return true
		}
	}
	return false
}

func escapeHTML(s string) string {
	return htmlEscaper.Replace(s)
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")
