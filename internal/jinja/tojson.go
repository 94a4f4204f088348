package jinja

import (
	"math"
	"sort"
	"strings"
	"unicode/utf8"
)

// jsonWriter writes values as Python's json.dumps does.
type jsonWriter struct {
	out      []byte
	ascii    bool
	indent   string // meaningful if indented
	indented bool
	item     string // between items
	key      string // between a key and its value
	sort     bool
	depth    int
}

// toJSON is the filter tojson as transformers defines it.
func toJSON(st *state, a []Value) Value {
	w := &jsonWriter{out: st.scratch[:0], item: ", ", key: ": "}
	w.ascii = a[1] != nil && truth(a[1])
	w.sort = a[4] != nil && truth(a[4])
	if a[2] != nil && a[2] != None {
		w.indented = true
		w.item = ","
		w.indent = jsonIndent(a[2])
	}
	if a[3] != nil && a[3] != None {
		parts := items(a[3])
		if len(parts) != 2 || !isText(parts[0]) || !isText(parts[1]) {
			fail("separators must be two strings")
		}
		w.item, w.key = str(parts[0]), str(parts[1])
	}
	w.value(a[0])
	st.scratch = w.out
	return String(w.out)
}

func jsonIndent(v Value) string {
	if s, ok := text(v); ok {
		return s
	}
	n, ok := asInt(v)
	if !ok || n > 1000 {
		fail("bad indent for tojson: %s", typeName(v))
	}
	return strings.Repeat(" ", int(max(n, 0)))
}

func (w *jsonWriter) value(v Value) {
	switch v := v.(type) {
	case String:
		w.str(string(v))
	case markup:
		w.str(string(v))
	case noneType:
		w.out = append(w.out, "null"...)
	case Bool, Int, *BigInt, Float:
		w.out = appendJSONNumber(w.out, v)
	case *List:
		w.list(v.Items)
	case *tuple:
		w.list(v.items)
	case *Dict:
		w.dict(v)
	default:
		fail("object of type %s is not JSON serializable", typeName(v))
	}
}

func appendJSONNumber(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case Bool:
		if v {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case Float:
		switch f := float64(v); {
		case math.IsNaN(f):
			return append(dst, "NaN"...)
		case math.IsInf(f, 1):
			return append(dst, "Infinity"...)
		case math.IsInf(f, -1):
			return append(dst, "-Infinity"...)
		}
	}
	return appendRepr(dst, v)
}

func (w *jsonWriter) newline() {
	if !w.indented {
		return
	}
	w.out = append(w.out, '\n')
	for range w.depth {
		w.out = append(w.out, w.indent...)
	}
}

func (w *jsonWriter) list(list []Value) {
	if len(list) == 0 {
		w.out = append(w.out, "[]"...)
		return
	}
	w.open('[')
	for i, v := range list {
		w.before(i)
		w.value(v)
	}
	w.close(']')
}

func (w *jsonWriter) dict(d *Dict) {
	if len(d.entries) == 0 {
		w.out = append(w.out, "{}"...)
		return
	}
	entries := d.entries
	if w.sort {
		entries = append([]entry(nil), entries...)
		sort.SliceStable(entries, func(i, j int) bool { return compare("<", entries[i].key, entries[j].key) })
	}
	w.open('{')
	for i, e := range entries {
		w.before(i)
		w.dictKey(e.key)
		w.out = append(w.out, w.key...)
		w.value(e.value)
	}
	w.close('}')
}

func (w *jsonWriter) open(c byte) {
	w.out = append(w.out, c)
	if w.depth++; w.depth > maxJSONDepth {
		fail("a value nested deeper than %d is not JSON serializable", maxJSONDepth)
	}
}

func (w *jsonWriter) before(i int) {
	if i > 0 {
		w.out = append(w.out, w.item...)
	}
	w.newline()
}

func (w *jsonWriter) close(c byte) {
	w.depth--
	w.newline()
	w.out = append(w.out, c)
}

func (w *jsonWriter) dictKey(key Value) {
	switch k := key.(type) {
	case String:
		w.str(string(k))
	case markup:
		w.str(string(k))
	case noneType:
		w.out = append(w.out, `"null"`...)
	case Bool, Int, *BigInt, Float:
		w.out = append(appendJSONNumber(append(w.out, '"'), k), '"')
	default:
		fail("keys must be str, int, float, bool or None, not %s", typeName(key))
	}
}

func (w *jsonWriter) str(s string) {
	dst := append(w.out, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && (c < 0x7f || !w.ascii) {
			continue
		}
		dst = append(dst, s[start:i]...)
		size := 1
		if c < utf8.RuneSelf {
			dst = appendJSONEscape(dst, c)
		} else {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			dst = appendJSONRune(dst, r)
		}
		i += size - 1
		start = i + 1
	}
	w.out = append(append(dst, s[start:]...), '"')
}

func appendJSONEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	case '\f':
		return append(dst, `\f`...)
	case '\b':
		return append(dst, `\b`...)
	}
	return appendHex(append(dst, `\u`...), rune(c), 4)
}

func appendJSONRune(dst []byte, r rune) []byte {
	if r <= 0xffff {
		return appendHex(append(dst, `\u`...), r, 4)
	}
	r -= 0x10000
	dst = appendHex(append(dst, `\u`...), 0xd800+r>>10, 4)
	return appendHex(append(dst, `\u`...), 0xdc00+r&0x3ff, 4)
}
