package parse

import (
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A jsonValue is a JSON value that was found in a text.
type jsonValue struct {
	end     int // where it ends; where it breaks, if it is none
	ok      bool
	flags   []Flag
	members []jsonMember // of the outermost object
}

// A jsonMember is a member of an object: key is unescaped.
type jsonMember struct {
	key        string
	start, end int // of the value
}

// scanJSON reads the JSON value at i in one pass, without recursion. It is
// strict where Python is lenient: repeated keys, numbers beyond a float, NaN
// and lone surrogates are flagged.
func scanJSON(s string, i int) jsonValue {
	r := jsonReader{s: s, i: i}
	ok := r.value()
	for ok && len(r.open) > 0 {
		ok = r.step()
	}
	return jsonValue{end: r.i, ok: ok, flags: r.flags, members: r.members}
}

// A jsonLevel is an object or array that stands open.
type jsonLevel struct {
	object bool
	any    bool            // it has a member
	keys   map[string]bool // an object's keys so far
}

type jsonReader struct {
	s       string
	i       int
	open    []jsonLevel
	flags   []Flag
	members []jsonMember
}

func (r *jsonReader) note(f Flag) { r.flags = addFlag(r.flags, f) }

func (r *jsonReader) is(c byte) bool { return r.i < len(r.s) && r.s[r.i] == c }

// step reads the next member of the innermost open value, or its end.
func (r *jsonReader) step() bool {
	r.i = skipBlank(r.s, r.i)
	top := &r.open[len(r.open)-1]
	end := byte(']')
	if top.object {
		end = '}'
	}
	if r.is(end) {
		r.i++
		r.open = r.open[:len(r.open)-1]
		r.closed()
		return true
	}
	if top.any {
		if !r.is(',') {
			return false
		}
		r.i = skipBlank(r.s, r.i+1)
	}
	top.any = true
	if !top.object {
		return r.value()
	}
	return r.key(top) && r.value()
}

// key reads a key and its colon.
func (r *jsonReader) key(top *jsonLevel) bool {
	if !r.is('"') {
		return false
	}
	key, end, err := pyString(r.s, r.i+1)
	if err != nil {
		return false
	}
	r.lone(r.s[r.i:end])
	if top.keys[key] {
		r.note(DuplicateJSONKey)
	}
	if top.keys == nil {
		top.keys = map[string]bool{}
	}
	top.keys[key] = true
	r.i = skipBlank(r.s, end)
	if !r.is(':') {
		return false
	}
	r.i = skipBlank(r.s, r.i+1)
	if len(r.open) == 1 {
		r.members = append(r.members, jsonMember{key: key, start: r.i, end: -1})
	}
	return true
}

// closed notes where a member of the outermost object ends.
func (r *jsonReader) closed() {
	if n := len(r.members); n > 0 && len(r.open) == 1 && r.members[n-1].end < 0 {
		r.members[n-1].end = r.i
	}
}

// value reads a scalar, or opens an object or array.
func (r *jsonReader) value() bool {
	if r.i >= len(r.s) {
		return false
	}
	switch c := r.s[r.i]; c {
	case '{', '[':
		r.i++
		r.open = append(r.open, jsonLevel{object: c == '{'})
		if len(r.open) > maxDepth {
			r.note(InvalidJSONArgs)
		}
		return true
	case '"':
		_, end, err := pyString(r.s, r.i+1)
		if err != nil {
			return false
		}
		r.lone(r.s[r.i:end])
		r.i = end
	default:
		if !r.scalar() {
			return false
		}
	}
	r.closed()
	return true
}

// scalar reads a word or a number.
func (r *jsonReader) scalar() bool {
	rest := r.s[r.i:]
	for _, word := range []string{"null", "true", "false"} {
		if strings.HasPrefix(rest, word) {
			r.i += len(word)
			return true
		}
	}
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if strings.HasPrefix(rest, word) {
			r.note(NonFiniteNumber)
			r.i += len(word)
			return true
		}
	}
	end, float := scanNumber(r.s, r.i)
	if end < 0 {
		return false
	}
	if f, ok := plainFloat(r.s[r.i:end]); float && (!ok || math.IsInf(f, 0)) {
		r.note(NonFiniteNumber)
	}
	r.i = end
	return true
}

// lone flags escapes of a surrogate without its other half: such a string has
// no UTF-8.
func (r *jsonReader) lone(quoted string) {
	for i := strings.Index(quoted, `\`); i >= 0 && i+1 < len(quoted); {
		step := 2
		if high, ok := hexRune(quoted, i+2); ok && quoted[i+1] == 'u' && utf16.IsSurrogate(high) {
			low, ok := rune(0), false
			if strings.HasPrefix(quoted[i+6:], `\u`) {
				low, ok = hexRune(quoted, i+8)
			}
			if !ok || utf16.DecodeRune(high, low) == utf8.RuneError {
				r.note(InvalidJSONArgs)
				return
			}
			step = 12
		}
		next := strings.Index(quoted[i+step:], `\`)
		if next < 0 {
			return
		}
		i += step + next
	}
}
