package jinja

import "strings"

// Parameters that Python takes by position only are named by numbers here, so
// that no keyword matches them.

// stringMethod returns the method of a str or Markup, nil when Python has none
// of that name; one that only we lack fails.
func stringMethod(v Value, name string) Value {
	s, _ := text(v)
	if _, marked := v.(markup); marked {
		return markupMethod(s, name)
	}
	if name == "format" {
		return formatMethod(s)
	}
	params, fn := strMethod(name)
	if fn == nil {
		return nil
	}
	return &callable{name: name, params: params, call: func(_ *state, a []Value) Value { return fn(s, a) }}
}

// callMethod calls a method of a string.
func callMethod(st *state, v Value, name string, args ...Value) Value {
	var given []Value
	for _, a := range args {
		if a != nil {
			given = append(given, a)
		}
	}
	return call(st, stringMethod(v, name), given, nil)
}

// markupMethod wraps a method as Markup does: text arguments are escaped, text
// results are Markup.
func markupMethod(s, name string) Value {
	if name == "format" || name == "join" {
		fail("the method %s of a Markup is not supported", name)
	}
	params, fn := strMethod(name)
	if fn == nil {
		return nil
	}
	escapes := !strings.HasPrefix(name, "is") && !strings.HasSuffix(name, "with") && !strings.HasSuffix(name, "split") &&
		!strings.HasSuffix(name, "find") && !strings.HasSuffix(name, "index") && name != "count" && name != "splitlines" &&
		!strings.HasSuffix(name, "partition")
	return &callable{name: name, params: params, call: func(_ *state, a []Value) Value {
		if escapes {
			a = escapeArgs(a)
		}
		return marked(fn(s, a))
	}}
}

func escapeArgs(a []Value) []Value {
	out := make([]Value, len(a))
	for i, v := range a {
		out[i] = v
		if s, ok := v.(String); ok {
			out[i] = String(escapeHTML(string(s)))
		}
	}
	return out
}

// marked turns the strings of a result into Markup.
func marked(v Value) Value {
	switch v := v.(type) {
	case String:
		return markup(v)
	case *List:
		for i := range v.Items {
			v.Items[i] = marked(v.Items[i])
		}
	case *tuple:
		for i := range v.items {
			v.items[i] = marked(v.items[i])
		}
	}
	return v
}

// dictMethod returns the method of a dict, nil when Python has none of that name.
func dictMethod(d *Dict, name string) Value {
	switch name {
	case "get":
		return &callable{name: name, params: []string{"1", "2?"}, call: func(_ *state, a []Value) Value {
			if v, ok := d.get(a[0]); ok {
				return v
			}
			return or(a[1], None)
		}}
	case "keys", "values", "items":
		return &callable{name: name, call: func(*state, []Value) Value { return &view{d, name} }}
	case "copy":
		return &callable{name: name, call: func(*state, []Value) Value { return merge(d, &Dict{}) }}
	case "clear", "pop", "popitem", "setdefault", "update":
		return unsafe("dict", name)
	case "fromkeys":
		fail("the attribute fromkeys of a dict is not supported")
	}
	return nil
}

// isDictMethod reports whether Python's dict has an attribute of that name.
func isDictMethod(name string) bool {
	switch name {
	case "get", "keys", "values", "items", "copy", "clear", "pop", "popitem", "setdefault", "update", "fromkeys":
		return true
	}
	return false
}

func listMethod(l *List, name string) Value {
	switch name {
	case "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort":
		return unsafe("list", name)
	case "copy":
		return &callable{name: name, call: func(*state, []Value) Value {
			return &List{Items: append([]Value(nil), l.Items...)}
		}}
	}
	return sequenceMethod("list", l.Items, name)
}

func sequenceMethod(of string, list []Value, name string) Value {
	switch name {
	case "count":
		return &callable{name: name, params: []string{"1"}, call: func(_ *state, a []Value) Value {
			n := 0
			for _, v := range list {
				if equal(v, a[0]) {
					n++
				}
			}
			return Int(n)
		}}
	case "index":
		return &callable{name: name, params: []string{"1", "2?", "3?"}, call: func(_ *state, a []Value) Value {
			low, high, _ := sliceBounds(len(list), or(a[1], None), or(a[2], None), None)
			for i := low; i < high; i++ {
				if equal(list[i], a[0]) {
					return Int(i)
				}
			}
			fail("%s.index(x): x not in %s", of, of)
			return nil
		}}
	}
	return nil
}

func unsafe(of, name string) Value {
	return &undefined{"access to attribute '" + name + "' of '" + of + "' object is unsafe"}
}

// isSequenceAttr reports whether one of Python's lazy sequences has an attribute of that name.
func isSequenceAttr(name string) bool {
	switch name {
	case "count", "index", "start", "stop", "step", "isdisjoint", "mapping", "send", "throw", "close",
		"gi_code", "gi_frame", "gi_running", "gi_suspended", "gi_yieldfrom":
		return true
	}
	return false
}
