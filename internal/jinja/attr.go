package jinja

import "strings"

// getAttr is v.name: Python's attribute first, then the item of that name.
// It returns missing when there is neither.
func getAttr(v Value, name string, missing *undefined) Value {
	failUndefined(v)
	if isHidden(name) {
		return missing // exists in Python, but the sandbox forbids it
	}
	if a := pyAttr(v, name); a != nil {
		return a
	}
	if d, ok := v.(*Dict); ok {
		if item, ok := d.Get(name); ok {
			return item
		}
	}
	return missing
}

// isHidden reports whether a name is one of Python's own.
func isHidden(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// pyAttr returns the attribute that Python's object has, or nil. An attribute
// that the sandbox forbids is undefined; one that we lack fails.
func pyAttr(v Value, name string) Value {
	switch v := v.(type) {
	case String, markup:
		return stringMethod(v, name)
	case *Dict:
		return dictMethod(v, name)
	case *List:
		return listMethod(v, name)
	case *tuple:
		return sequenceMethod("tuple", v.items, name)
	case *namespace:
		if a, ok := v.attrs.Get(name); ok {
			return a
		}
	case *loopContext:
		return v.attr(name)
	case *callable:
		return macroAttr(v, name)
	case Bool, Int, *BigInt, Float:
		return numberAttr(v, name)
	case *rangeValue, *view, *generator:
		if isSequenceAttr(name) {
			fail("the attribute %s of a %s is not supported", name, typeName(v))
		}
	}
	return nil
}

// getItem is v[key]: Python's item first, then, for a string, the attribute.
func getItem(st *state, v, key Value) Value {
	failUndefined(v)
	switch c := v.(type) {
	case *Dict:
		if _, bad := key.(*List); bad {
			return &undefined{"a list is no key"}
		}
		if _, bad := key.(*Dict); bad {
			return &undefined{"a dict is no key"}
		}
		if item, ok := c.get(key); ok {
			return item
		}
	default:
		if i, ok := asInt(key); ok {
			return at(v, i)
		}
	}
	if name, ok := key.(String); ok && !isHidden(string(name)) {
		if a := pyAttr(v, string(name)); a != nil {
			return a
		}
	}
	return &undefined{typeName(v) + " object has no element " + elementName(key)}
}

func elementName(key Value) string {
	if s, ok := text(key); ok {
		return "'" + s + "'"
	}
	if isNumber(key) {
		return str(key)
	}
	return "of that " + typeName(key)
}

// at is v[i] for a sequence; undefined when there is none.
func at(v Value, i int64) Value {
	n, sequence := lengthOf(v)
	if i < 0 {
		i += int64(n)
	}
	if sequence && i >= 0 && i < int64(n) {
		switch c := v.(type) {
		case *List:
			return c.Items[i]
		case *tuple:
			return c.items[i]
		case *rangeValue:
			return c.at(int(i))
		case String:
			return String(runeSlice(string(c), int(i), int(i)+1))
		case markup:
			return markup(runeSlice(string(c), int(i), int(i)+1))
		}
	}
	return &undefined{typeName(v) + " object has no such element"}
}

// runeSlice is s[low:high] in characters; the bounds lie within s.
func runeSlice(s string, low, high int) string {
	if isASCII(s) {
		return s[low:high]
	}
	start, end, n := len(s), len(s), 0
	for i := range s {
		if n == low {
			start = i
		}
		if n == high {
			end = i
			break
		}
		n++
	}
	return s[min(start, end):end]
}

// slice is v[low:high:step].
func slice(v, low, high, step Value) Value {
	failUndefined(v)
	n, ok := lengthOf(v)
	if !ok {
		fail("'%s' object is not subscriptable", typeName(v))
	}
	start, stop, by := sliceBounds(n, low, high, step)
	switch c := v.(type) {
	case *List:
		return &List{Items: sliceItems(c.Items, start, stop, by)}
	case *tuple:
		return &tuple{sliceItems(c.items, start, stop, by)}
	case String:
		return String(sliceText(string(c), start, stop, by))
	case markup:
		return markup(sliceText(string(c), start, stop, by))
	case *rangeValue:
		return &rangeValue{c.start + int64(start)*c.step, c.start + int64(stop)*c.step, c.step * int64(by)}
	}
	fail("'%s' object is not subscriptable", typeName(v))
	return nil
}

// sliceBounds clips the bounds of a slice of n items as Python does.
func sliceBounds(n int, low, high, step Value) (start, stop, by int) {
	by = bound(step, 1, -maxIndex, maxIndex)
	if by == 0 {
		fail("slice step cannot be zero")
	}
	if by > 0 {
		return clip(bound(low, 0, -maxIndex, maxIndex), n, 0, n), clip(bound(high, n, -maxIndex, maxIndex), n, 0, n), by
	}
	start, stop = n-1, -1
	if low != None {
		start = clip(bound(low, 0, -maxIndex, maxIndex), n, -1, n-1)
	}
	if high != None {
		stop = clip(bound(high, 0, -maxIndex, maxIndex), n, -1, n-1)
	}
	return start, stop, by
}

func clip(i, n, low, high int) int {
	if i < 0 {
		i += n
	}
	return max(low, min(high, i))
}

// bound reads a slice's bound, clipped to what no sequence exceeds.
func bound(v Value, otherwise, low, high int) int {
	if v == None {
		return otherwise
	}
	if i, ok := asInt(v); ok {
		return int(max(int64(low), min(int64(high), i)))
	}
	if b, ok := v.(*BigInt); ok {
		if b.i.Sign() < 0 {
			return low
		}
		return high
	}
	fail("slice indices must be integers or None, not %s", typeName(v))
	return 0
}

func sliceItems(list []Value, start, stop, by int) []Value {
	if by == 1 {
		return append([]Value(nil), list[start:max(start, stop)]...)
	}
	var out []Value
	for i := start; by > 0 && i < stop || by < 0 && i > stop; i += by {
		out = append(out, list[i])
	}
	return out
}

func sliceText(s string, start, stop, by int) string {
	if by == 1 {
		return runeSlice(s, start, max(start, stop))
	}
	runes := []rune(s)
	var out []rune
	for i := start; by > 0 && i < stop || by < 0 && i > stop; i += by {
		out = append(out, runes[i])
	}
	return string(out)
}

// maxIndex is beyond the length of any sequence here.
const maxIndex = 1 << 40
