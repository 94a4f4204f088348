package parse

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// What Python's readers raise. Some parsers of SGLang survive some of these
// and not the others.
var (
	errDecode    = errors.New("JSONDecodeError")
	errValue     = errors.New("ValueError") // an int of more than 4300 digits
	errRecursion = errors.New("RecursionError")
	errType      = errors.New("TypeError")
	errSyntax    = errors.New("SyntaxError")
	errOverflow  = errors.New("OverflowError")
)

// maxDepth is how deep a value Python's recursion limit lets json.loads read
// from where SGLang calls it.
const maxDepth = 990

// pyLoads is Python's json.loads: NaN and Infinity are read, a repeated key
// takes the last value, control characters in strings are refused.
func pyLoads(s string) (value, error) {
	d := pyDecoder{s: s}
	v, err := d.value(skipBlank(s, 0), 0)
	if err != nil {
		return value{}, err
	}
	if skipBlank(s, d.end) != len(s) {
		return value{}, errDecode
	}
	return v, nil
}

// pyRawDecode is JSONDecoder.raw_decode: the value that s begins with, without
// leading blanks, and where it ends. Of one that is broken it returns how far
// it looked.
func pyRawDecode(s string) (value, int, error) {
	d := pyDecoder{s: s}
	v, err := d.value(0, 0)
	if err != nil {
		return v, d.far, err
	}
	return v, d.end, nil
}

// A pyDecoder reads one value; end is where the last value read ends, far how
// far it looked.
type pyDecoder struct {
	s        string
	end, far int
}

func skipBlank(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r') {
		i++
	}
	return i
}

func (d *pyDecoder) value(i, depth int) (value, error) {
	d.far = i
	if i >= len(d.s) {
		return value{}, errDecode
	}
	switch c := d.s[i]; {
	case c == '"':
		s, end, err := pyString(d.s, i+1)
		d.end, d.far = end, max(end, d.far)
		return strValue(s), err
	case c == '{':
		return d.object(i, depth)
	case c == '[':
		return d.array(i, depth)
	case c == '-' || c >= '0' && c <= '9':
		if strings.HasPrefix(d.s[i:], "-Infinity") {
			break
		}
		return d.number(i)
	}
	for _, word := range [...]struct {
		text  string
		value value
	}{
		{"null", value{}}, {"true", boolValue(true)}, {"false", boolValue(false)}, {"NaN", value{kind: kFloat, f: math.NaN()}},
		{"Infinity", value{kind: kFloat, f: math.Inf(1)}}, {"-Infinity", value{kind: kFloat, f: math.Inf(-1)}},
	} {
		if strings.HasPrefix(d.s[i:], word.text) {
			d.end = i + len(word.text)
			return word.value, nil
		}
	}
	return value{}, errDecode
}

func (d *pyDecoder) object(i, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, errRecursion
	}
	out := dictValue()
	i = skipBlank(d.s, i+1)
	if i < len(d.s) && d.s[i] == '}' {
		d.end = i + 1
		return out.value(), nil
	}
	for {
		if i >= len(d.s) || d.s[i] != '"' {
			return value{}, errDecode
		}
		key, end, err := pyString(d.s, i+1)
		if err != nil {
			return value{}, err
		}
		i = skipBlank(d.s, end)
		if i >= len(d.s) || d.s[i] != ':' {
			return value{}, errDecode
		}
		v, err := d.value(skipBlank(d.s, i+1), depth+1)
		if err != nil {
			return value{}, err
		}
		out.set(strValue(key), v)
		i = skipBlank(d.s, d.end)
		if i < len(d.s) && d.s[i] == '}' {
			d.end = i + 1
			return out.value(), nil
		}
		if i >= len(d.s) || d.s[i] != ',' {
			return value{}, errDecode
		}
		i = skipBlank(d.s, i+1)
	}
}

func (d *pyDecoder) array(i, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, errRecursion
	}
	out := value{kind: kList}
	i = skipBlank(d.s, i+1)
	if i < len(d.s) && d.s[i] == ']' {
		d.end = i + 1
		return out, nil
	}
	for {
		v, err := d.value(i, depth+1)
		if err != nil {
			return value{}, err
		}
		out.list = append(out.list, v)
		i = skipBlank(d.s, d.end)
		if i < len(d.s) && d.s[i] == ']' {
			d.end = i + 1
			return out, nil
		}
		if i >= len(d.s) || d.s[i] != ',' {
			return value{}, errDecode
		}
		i = skipBlank(d.s, i+1)
	}
}

// number reads the longest number from i on.
func (d *pyDecoder) number(i int) (value, error) {
	end, float := scanNumber(d.s, i)
	if end < 0 {
		return value{}, errDecode
	}
	d.end = end
	text := d.s[i:end]
	if float {
		f, _ := plainFloat(text)
		return value{kind: kFloat, f: f}, nil
	}
	digits := strings.TrimPrefix(text, "-")
	if len(digits) > maxDigits {
		return value{}, errValue
	}
	return intValue(digits, digits != text), nil
}

// scanNumber returns the end of the JSON number at i, or -1, and whether it
// has a fraction or an exponent.
func scanNumber(s string, i int) (end int, float bool) {
	if i < len(s) && s[i] == '-' {
		i++
	}
	switch {
	case i < len(s) && s[i] == '0':
		i++
	case digitRun(s, i) > i:
		i = digitRun(s, i)
	default:
		return -1, false
	}
	if i < len(s) && s[i] == '.' && digitRun(s, i+1) > i+1 {
		i, float = digitRun(s, i+1), true
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if digitRun(s, j) > j {
			i, float = digitRun(s, j), true
		}
	}
	return i, float
}

func digitRun(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// pyString reads the string whose opening quote is just before i. A lone
// surrogate becomes U+FFFD: Go strings cannot hold it.
func pyString(s string, i int) (text string, end int, err error) {
	start := i
	for i < len(s) && s[i] != '"' && s[i] != '\\' && s[i] >= 0x20 {
		i++
	}
	if i < len(s) && s[i] == '"' {
		return s[start:i], i + 1, nil
	}
	b := []byte(s[start:i])
	for i < len(s) {
		c := s[i]
		switch {
		case c == '"':
			return string(b), i + 1, nil
		case c < 0x20:
			return "", 0, errDecode
		case c != '\\':
			b = append(b, c)
			i++
		default:
			var ok bool
			if b, i, ok = pyEscape(b, s, i+1); !ok {
				return "", 0, errDecode
			}
		}
	}
	return "", len(s), errDecode
}

// pyEscape appends what the escape after a backslash at i stands for.
func pyEscape(b []byte, s string, i int) (out []byte, next int, ok bool) {
	if i >= len(s) {
		return b, i, false
	}
	if at := strings.IndexByte(`"\/bfnrt`, s[i]); at >= 0 {
		return append(b, "\"\\/\b\f\n\r\t"[at]), i + 1, true
	}
	if s[i] != 'u' {
		return b, i, false
	}
	r, ok := hexRune(s, i+1)
	if !ok {
		return b, i, false
	}
	i += 5
	if utf16.IsSurrogate(r) && strings.HasPrefix(s[i:], `\u`) {
		if low, ok := hexRune(s, i+2); ok {
			if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
				return utf8.AppendRune(b, full), i + 6, true
			}
		}
	}
	return utf8.AppendRune(b, r), i, true
}

func hexRune(s string, i int) (rune, bool) {
	if i+4 > len(s) {
		return 0, false
	}
	n, err := strconv.ParseUint(s[i:i+4], 16, 16)
	return rune(n), err == nil
}

// pyDumps is json.dumps(v, ensure_ascii=False).
func pyDumps(v value) (string, error) {
	b, err := appendDumps(nil, v, 0)
	return string(b), err
}

func appendDumps(b []byte, v value, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errRecursion
	}
	var err error
	switch v.kind {
	case kNone:
		return append(b, "null"...), nil
	case kBool:
		return strconv.AppendBool(b, v.b), nil
	case kInt:
		if len(strings.TrimPrefix(v.s, "-")) > maxDigits {
			return nil, errValue
		}
		return append(b, v.s...), nil
	case kFloat:
		return append(b, pyFloat(v.f)...), nil
	case kStr:
		return appendQuoted(b, v.s), nil
	case kList, kTuple:
		b = append(b, '[')
		for i, e := range v.list {
			if i > 0 {
				b = append(b, ", "...)
			}
			if b, err = appendDumps(b, e, depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case kDict:
		b = append(b, '{')
		for i := 0; i+1 < len(v.list); i += 2 {
			if i > 0 {
				b = append(b, ", "...)
			}
			if b, err = appendKey(b, v.list[i]); err != nil {
				return nil, err
			}
			if b, err = appendDumps(append(b, ": "...), v.list[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, errType
}

// appendKey writes a dict's key as json.dumps does: numbers become strings.
func appendKey(b []byte, key value) ([]byte, error) {
	switch key.kind {
	case kStr:
		return appendQuoted(b, key.s), nil
	case kNone, kBool, kInt, kFloat:
		text, err := appendDumps(nil, key, 0)
		return appendQuoted(b, string(text)), err
	}
	return nil, errType
}

// appendQuoted writes a JSON string and escapes no more than JSON demands.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		if at := strings.IndexByte("\"\\\b\f\n\r\t", c); at >= 0 {
			b = append(b, '\\', `"\bfnrt`[at])
		} else {
			b = append(b, `\u00`...)
			b = append(b, hexDigits(rune(c), 2)...)
		}
	}
	return append(append(b, s[start:]...), '"')
}
