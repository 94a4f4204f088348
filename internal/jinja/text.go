package jinja

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// str is Python's str(v).
func str(v Value) string {
	switch v := v.(type) {
	case String:
		return string(v)
	case markup:
		return string(v)
	}
	return string(appendStr(nil, v))
}

func appendStr(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case String:
		return append(dst, v...)
	case markup:
		return append(dst, v...)
	case Int:
		return strconv.AppendInt(dst, int64(v), 10)
	case *undefined:
		return dst
	}
	return appendRepr(dst, v)
}

// appendRepr is Python's repr(v). What Python would show with an address can't
// be shown.
func appendRepr(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case noneType:
		return append(dst, "None"...)
	case Bool:
		if v {
			return append(dst, "True"...)
		}
		return append(dst, "False"...)
	case Int:
		return strconv.AppendInt(dst, int64(v), 10)
	case *BigInt:
		return v.i.Append(dst, 10)
	case Float:
		return append(dst, formatFloat(float64(v))...)
	case String:
		return appendQuoted(dst, string(v))
	case markup:
		return append(appendQuoted(append(dst, "Markup("...), string(v)), ')')
	case *undefined:
		return append(dst, "Undefined"...)
	case *List:
		return append(appendItems(append(dst, '['), v.Items), ']')
	case *tuple:
		dst = appendItems(append(dst, '('), v.items)
		if len(v.items) == 1 {
			dst = append(dst, ',')
		}
		return append(dst, ')')
	case *Dict:
		return appendDict(dst, v)
	case *rangeValue:
		return appendRange(dst, v)
	case *view:
		dst = append(append(dst, v.pyType()...), "(["...)
		return append(appendItems(dst, items(v)), "])"...)
	case *namespace:
		return append(appendDict(append(dst, "<Namespace "...), v.attrs), '>')
	}
	fail("a %s can't be printed: Python would show its address", typeName(v))
	return nil
}

func appendItems(dst []byte, items []Value) []byte {
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendRepr(dst, item)
	}
	return dst
}

func appendDict(dst []byte, d *Dict) []byte {
	dst = append(dst, '{')
	for i, e := range d.entries {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(appendRepr(dst, e.key), ": "...)
		dst = appendRepr(dst, e.value)
	}
	return append(dst, '}')
}

func appendRange(dst []byte, r *rangeValue) []byte {
	dst = strconv.AppendInt(append(dst, "range("...), r.start, 10)
	dst = strconv.AppendInt(append(dst, ", "...), r.stop, 10)
	if r.step != 1 {
		dst = strconv.AppendInt(append(dst, ", "...), r.step, 10)
	}
	return append(dst, ')')
}

// appendQuoted is Python's repr of a str.
func appendQuoted(dst []byte, s string) []byte {
	quote := byte('\'')
	single, double := false, false
	for i := 0; i < len(s); i++ {
		single = single || s[i] == '\''
		double = double || s[i] == '"'
	}
	if single && !double {
		quote = '"'
	}
	dst = append(dst, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case unicode.IsPrint(r):
			dst = utf8.AppendRune(dst, r)
		case r <= 0xff:
			dst = appendHex(append(dst, `\x`...), r, 2)
		case r <= 0xffff:
			dst = appendHex(append(dst, `\u`...), r, 4)
		default:
			dst = appendHex(append(dst, `\U`...), r, 8)
		}
	}
	return append(dst, quote)
}

func appendHex(dst []byte, r rune, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[r>>shift&15])
	}
	return dst
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func runeCount(s string) int { return utf8.RuneCountInString(s) }

// overRunes yields the characters of s, each a str or, if marked, a Markup.
func overRunes(s string, marked bool) func() (Value, bool) {
	return func() (Value, bool) {
		if s == "" {
			return nil, false
		}
		_, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		if marked {
			return markup(c), true
		}
		return String(c), true
	}
}
