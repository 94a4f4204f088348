package parse

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the Python type of a value.
type kind uint8

const (
	kNone kind = iota
	kBool
	kInt
	kFloat
	kStr
	kList
	kDict
	kTuple // this and what follows come from literals only
	kSet
	kBytes
	kComplex
	kEllipsis
)

// A value is a Python value as json.loads and ast.literal_eval make them. Only
// the compat mode and the reading of schemas use it: strict keeps what the
// model wrote.
type value struct {
	kind kind
	b    bool
	s    string  // a str's text, a bytes' bytes, an int's decimal digits
	f    float64 // a float; of a complex the imaginary part
	re   float64 // of a complex
	list []value // items; of a dict: key, value, key, value, …
}

func strValue(s string) value { return value{kind: kStr, s: s} }

func boolValue(b bool) value { return value{kind: kBool, b: b} }

func dictValue() *dict { return &dict{at: map[string]int{}} }

// A dict builds a Python dict: a repeated key keeps its first place and takes
// the last value.
type dict struct {
	list []value
	at   map[string]int
}

func (d *dict) set(key, v value) {
	id := key.identity()
	if i, ok := d.at[id]; ok {
		d.list[i+1] = v
		return
	}
	d.at[id] = len(d.list)
	d.list = append(d.list, key, v)
}

func (d *dict) value() value { return value{kind: kDict, list: d.list} }

// get returns the value of a string key.
func (v value) get(key string) (value, bool) {
	if v.kind != kDict {
		return value{}, false
	}
	for i := 0; i+1 < len(v.list); i += 2 {
		if v.list[i].kind == kStr && v.list[i].s == key {
			return v.list[i+1], true
		}
	}
	return value{}, false
}

// truthy is Python's bool(v).
func (v value) truthy() bool {
	switch v.kind {
	case kNone:
		return false
	case kBool:
		return v.b
	case kInt:
		return v.s != "0"
	case kFloat:
		return v.f != 0
	case kComplex:
		return v.f != 0 || v.re != 0
	case kStr, kBytes:
		return v.s != ""
	case kEllipsis:
		return true
	}
	return len(v.list) > 0
}

// identity is equal for values that a Python dict takes for the same key:
// 1, 1.0 and True are one.
func (v value) identity() string {
	switch v.kind {
	case kStr:
		return "s" + v.s
	case kBytes:
		return "b" + v.s
	case kBool:
		if v.b {
			return "n1"
		}
		return "n0"
	case kInt:
		return "n" + v.s
	case kFloat:
		if v.f == math.Trunc(v.f) && !math.IsInf(v.f, 0) {
			return "n" + floatDigits(v.f)
		}
		return "n" + pyFloat(v.f)
	}
	return "o" + v.repr()
}

// hashable reports whether the value can be a key of a dict.
func (v value) hashable() bool {
	switch v.kind {
	case kList, kDict, kSet:
		return false
	case kTuple:
		for _, e := range v.list {
			if !e.hashable() {
				return false
			}
		}
	}
	return true
}

// str is Python's str(v).
func (v value) str() string {
	if v.kind == kStr {
		return v.s
	}
	return v.repr()
}

// repr is Python's repr(v).
func (v value) repr() string {
	var b strings.Builder
	v.writeRepr(&b)
	return b.String()
}

func (v value) writeRepr(b *strings.Builder) {
	switch v.kind {
	case kNone:
		b.WriteString("None")
	case kBool:
		if v.b {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case kInt:
		b.WriteString(v.s)
	case kFloat:
		b.WriteString(strings.ToLower(strings.Replace(pyFloat(v.f), "Infinity", "inf", 1)))
	case kStr:
		quoteRepr(b, v.s, false)
	case kBytes:
		b.WriteByte('b')
		quoteRepr(b, v.s, true)
	case kComplex:
		b.WriteString(complexRepr(v.re, v.f))
	case kEllipsis:
		b.WriteString("Ellipsis")
	case kDict:
		b.WriteByte('{')
		for i := 0; i+1 < len(v.list); i += 2 {
			if i > 0 {
				b.WriteString(", ")
			}
			v.list[i].writeRepr(b)
			b.WriteString(": ")
			v.list[i+1].writeRepr(b)
		}
		b.WriteByte('}')
	case kSet:
		if len(v.list) == 0 {
			b.WriteString("set()")
			return
		}
		writeItems(b, "{", v.list, "}")
	case kTuple:
		if len(v.list) == 1 {
			writeItems(b, "(", v.list, ",)")
			return
		}
		writeItems(b, "(", v.list, ")")
	default:
		writeItems(b, "[", v.list, "]")
	}
}

func writeItems(b *strings.Builder, open string, items []value, end string) {
	b.WriteString(open)
	for i, e := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		e.writeRepr(b)
	}
	b.WriteString(end)
}

// complexRepr writes a complex number: the real part is left out only where it
// is a positive zero.
func complexRepr(re, im float64) string {
	part := func(f float64) string {
		s := strconv.FormatFloat(f, 'g', -1, 64)
		if math.Abs(f) < 1e16 && math.Abs(f) >= 1e-4 || f == 0 {
			s = strconv.FormatFloat(f, 'f', -1, 64)
		}
		return strings.ToLower(strings.TrimPrefix(s, "+"))
	}
	if re == 0 && !math.Signbit(re) {
		return part(im) + "j"
	}
	sign := "+"
	if math.Signbit(im) {
		sign = ""
	}
	return "(" + part(re) + sign + part(im) + "j)"
}

// quoteRepr writes a string the way Python shows it: in single quotes unless
// it has some and no double ones.
func quoteRepr(b *strings.Builder, s string, bytes bool) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if !bytes {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case bytes && r >= 0x7f, r < 0x20, r == 0x7f:
			b.WriteString(`\x` + hexDigits(r, 2))
		case bytes || unicode.IsPrint(r) || r == utf8.RuneError:
			b.WriteString(s[i : i+n])
		case r <= 0xff:
			b.WriteString(`\x` + hexDigits(r, 2))
		case r <= 0xffff:
			b.WriteString(`\u` + hexDigits(r, 4))
		default:
			b.WriteString(`\U` + hexDigits(r, 8))
		}
		i += n
	}
	b.WriteByte(quote)
}

func hexDigits(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, width-len(s))) + s
}
