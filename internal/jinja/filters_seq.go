package jinja

import (
	"sort"
	"strconv"
	"strings"
)

// sequenceFilter returns a filter over sequences, or one that takes any arguments.
func sequenceFilter(name string) *callable {
	if raw := openFilter(name); raw != nil {
		return &callable{name: name, raw: raw}
	}
	params, call := listFilter(name)
	if call == nil {
		return nil
	}
	return &callable{name: name, params: strings.Fields(params), call: call}
}

func openFilter(name string) func(st *state, a []Value, kw []keyword) Value {
	switch name {
	case "map":
		return mapFilter
	case "select", "reject", "selectattr", "rejectattr":
		keep, attr := name[0] == 's', strings.HasSuffix(name, "attr")
		return func(st *state, a []Value, kw []keyword) Value { return selectFilter(st, a, kw, keep, attr) }
	case "format":
		return formatFilter
	}
	return nil
}

func listFilter(name string) (params string, call filterImpl) {
	switch name {
	case "length", "count":
		return "obj", func(_ *state, a []Value) Value { return Int(length(a[0])) }
	case "first":
		return "seq", func(_ *state, a []Value) Value {
			v, _ := iterate(a[0])()
			return orUndefined(v, "no first item, sequence was empty")
		}
	case "last":
		return "seq", lastFilter
	case "list":
		return "value", func(_ *state, a []Value) Value { return &List{Items: append([]Value(nil), items(a[0])...)} }
	case "items":
		return "value", itemsFilter
	case "join":
		return "value d? attribute?", joinFilter
	case "reverse":
		return "value", reverseFilter
	case "sort":
		return "value reverse? case_sensitive? attribute?", sortFilter
	case "unique":
		return "value case_sensitive? attribute?", uniqueFilter
	case "min", "max":
		return "value case_sensitive? attribute?", func(st *state, a []Value) Value { return extreme(st, a, name == "max") }
	case "sum":
		return "iterable attribute? start?", sumFilter
	case "dictsort":
		return "value case_sensitive? by? reverse?", dictsortFilter
	case "batch":
		return "value linecount fill_with?", batchFilter
	case "slice":
		return "value slices fill_with?", sliceFilter
	}
	return "", nil
}

func lastFilter(_ *state, a []Value) Value {
	switch a[0].(type) {
	case *generator:
		fail("'generator' object is not reversible")
	}
	list := items(a[0])
	if len(list) == 0 {
		return &undefined{"no last item, sequence was empty"}
	}
	return list[len(list)-1]
}

func itemsFilter(_ *state, a []Value) Value {
	if isUndefined(a[0]) {
		return &generator{over(nil)}
	}
	d, ok := a[0].(*Dict)
	if !ok {
		fail("can only get item pairs from a mapping")
	}
	return &generator{iterate(&view{d, "items"})}
}

func joinFilter(st *state, a []Value) Value {
	list := items(a[0])
	get := attributeOf(or(a[2], None))
	sep := str(or(a[1], String("")))
	var buf []byte
	for i, v := range list {
		if i > 0 {
			buf = append(buf, sep...)
		}
		buf = appendStr(buf, get(st, v))
	}
	return String(buf)
}

func reverseFilter(_ *state, a []Value) Value {
	if s, ok := a[0].(String); ok {
		return String(sliceText(string(s), runeCount(string(s))-1, -1, -1))
	}
	if m, ok := a[0].(markup); ok {
		return markup(sliceText(string(m), runeCount(string(m))-1, -1, -1))
	}
	list := items(a[0])
	return &generator{counted(len(list), func(i int) Value { return list[len(list)-1-i] })}
}

// attributeOf compiles an attribute path such as "a.b.0"; None is the value itself.
func attributeOf(path Value) func(st *state, v Value) Value {
	if path == None {
		return func(_ *state, v Value) Value { return v }
	}
	var parts []Value
	if s, ok := text(path); ok {
		for _, part := range strings.Split(s, ".") {
			if i, err := strconv.Atoi(part); err == nil && i >= 0 {
				parts = append(parts, Int(i))
			} else {
				parts = append(parts, String(part))
			}
		}
	} else {
		parts = []Value{path}
	}
	return func(st *state, v Value) Value {
		for _, part := range parts {
			v = getItem(st, v, part)
		}
		return v
	}
}

// caseless compares as the filters do by default: strings without their case.
func caseless(sensitive Value, get func(st *state, v Value) Value) func(st *state, v Value) Value {
	if sensitive != nil && truth(sensitive) {
		return get
	}
	return func(st *state, v Value) Value {
		v = get(st, v)
		if s, ok := text(v); ok {
			return String(lower(s))
		}
		return v
	}
}

// sortBy sorts items stably by their keys.
func sortBy(list []Value, keys []Value, reverse bool) []Value {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool {
		if reverse {
			return compare("<", keys[order[j]], keys[order[i]])
		}
		return compare("<", keys[order[i]], keys[order[j]])
	})
	out := make([]Value, len(list))
	for i, from := range order {
		out[i] = list[from]
	}
	return out
}

func sortFilter(st *state, a []Value) Value {
	list := items(a[0])
	keys := make([]Value, len(list))
	get := sortKey(a[2], or(a[3], None))
	for i, v := range list {
		keys[i] = get(st, v)
	}
	return &List{Items: sortBy(list, keys, a[1] != nil && truth(a[1]))}
}

// sortKey makes the key of sort, which may name several attributes.
func sortKey(sensitive, attribute Value) func(st *state, v Value) Value {
	s, ok := text(attribute)
	if !ok || !strings.Contains(s, ",") {
		return caseless(sensitive, attributeOf(attribute))
	}
	var gets []func(st *state, v Value) Value
	for _, part := range strings.Split(s, ",") {
		gets = append(gets, caseless(sensitive, attributeOf(String(part))))
	}
	return func(st *state, v Value) Value {
		key := &List{}
		for _, get := range gets {
			key.Items = append(key.Items, get(st, v))
		}
		return key
	}
}

func uniqueFilter(st *state, a []Value) Value {
	get := caseless(a[1], attributeOf(or(a[2], None)))
	next, seen := iterate(a[0]), map[string]bool{}
	return &generator{func() (Value, bool) {
		for v, ok := next(); ok; v, ok = next() {
			if key := hashKey(get(st, v)); !seen[key] {
				seen[key] = true
				return v, true
			}
		}
		return nil, false
	}}
}

func extreme(st *state, a []Value, largest bool) Value {
	get := caseless(a[1], attributeOf(or(a[2], None)))
	var best, bestKey Value
	for _, v := range items(a[0]) {
		key := get(st, v)
		if best == nil || largest && compare(">", key, bestKey) || !largest && compare("<", key, bestKey) {
			best, bestKey = v, key
		}
	}
	return orUndefined(best, "no aggregated item, sequence was empty")
}

func sumFilter(st *state, a []Value) Value {
	get, total := attributeOf(or(a[1], None)), or(a[2], Int(0))
	if isText(total) {
		fail("sum() can't sum strings")
	}
	for _, v := range items(a[0]) {
		total = binary("+", total, get(st, v))
	}
	return total
}

func dictsortFilter(st *state, a []Value) Value {
	d, ok := a[0].(*Dict)
	if !ok {
		fail("dictsort needs a mapping, not %s", typeName(a[0]))
	}
	at := 0
	switch by := str(or(a[2], String("key"))); by {
	case "key":
	case "value":
		at = 1
	default:
		fail("dictsort: you can only sort by either key or value")
	}
	get := caseless(a[1], attributeOf(Int(at)))
	list := items(&view{d, "items"})
	keys := make([]Value, len(list))
	for i, v := range list {
		keys[i] = get(st, v)
	}
	return &List{Items: sortBy(list, keys, a[3] != nil && truth(a[3]))}
}

func batchFilter(_ *state, a []Value) Value {
	size, list := intArg(a[1], "linecount"), items(a[0])
	var out []Value
	for len(list) > 0 {
		n := len(list)
		if size > 0 {
			n = min(size, n)
		}
		row := append([]Value(nil), list[:n]...)
		list = list[n:]
		for len(row) < min(size, maxRange) && a[2] != nil && a[2] != None {
			row = append(row, a[2])
		}
		out = append(out, &List{Items: row})
	}
	return &generator{over(out)}
}

func sliceFilter(_ *state, a []Value) Value {
	slices, list := intArg(a[1], "slices"), items(a[0])
	if slices <= 0 || slices > maxRange {
		fail("slice: the number of slices must be from 1 to %d", maxRange)
	}
	per, extra := len(list)/slices, len(list)%slices
	var out []Value
	for i, from := 0, 0; i < slices; i++ {
		n := per
		if i < extra {
			n++
		}
		row := append([]Value(nil), list[from:from+n]...)
		from += n
		if i >= extra && a[2] != nil && a[2] != None {
			row = append(row, a[2])
		}
		out = append(out, &List{Items: row})
	}
	return &generator{over(out)}
}
