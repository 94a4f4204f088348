package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds the nesting of a JSON text, about where Python's parser gives up.
const maxJSONDepth = 900

// maxIntDigits is the longest integer that Python converts from text.
const maxIntDigits = 4300

// ParseJSON reads one JSON text as Python's json.loads does: objects keep
// their order, of a repeated key the last value at the first place; a number
// without fraction and exponent is an integer of any size, any other a float.
// Unlike Python it refuses NaN, Infinity and lone surrogates. The error names
// the offset in bytes.
func ParseJSON(data []byte) (v Value, err error) {
	defer catch(&err, nil)
	if !utf8.Valid(data) {
		return nil, &Error{Message: "the JSON text is not valid UTF-8"}
	}
	p := &jsonParser{src: string(data)}
	v = p.value()
	p.space()
	if p.pos < len(p.src) {
		p.fail("unexpected text after the value")
	}
	return v, nil
}

type jsonParser struct {
	src   string
	pos   int
	depth int
}

func (p *jsonParser) fail(format string, args ...any) {
	fail("JSON at offset %d: %s", p.pos, fmt.Sprintf(format, args...))
}

func (p *jsonParser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// byte skips whitespace and returns the next byte without consuming it, 0 at the end.
func (p *jsonParser) byte() byte {
	p.space()
	if p.pos == len(p.src) {
		return 0
	}
	return p.src[p.pos]
}

func (p *jsonParser) value() Value {
	switch c := p.byte(); {
	case c == '{':
		return p.object()
	case c == '[':
		return p.array()
	case c == '"':
		return String(p.str())
	case c == '-' || isDigit(c):
		return p.number()
	case p.word("true"):
		return Bool(true)
	case p.word("false"):
		return Bool(false)
	case p.word("null"):
		return None
	case c == 0 && p.pos == len(p.src):
		p.fail("unexpected end")
	}
	p.fail("expected a value")
	return nil
}

func (p *jsonParser) word(w string) bool {
	if !strings.HasPrefix(p.src[p.pos:], w) {
		return false
	}
	p.pos += len(w)
	return true
}

// enter consumes an opening bracket.
func (p *jsonParser) enter() {
	p.pos++
	if p.depth++; p.depth > maxJSONDepth {
		p.fail("nested deeper than %d", maxJSONDepth)
	}
}

// more reports whether another item follows, and consumes what separates or ends them.
func (p *jsonParser) more(first bool, end byte) bool {
	c := p.byte()
	if c == end {
		p.pos++
		p.depth--
		return false
	}
	if first {
		return true
	}
	if c != ',' {
		p.fail("expected a comma or %q", end)
	}
	p.pos++
	return true
}

func (p *jsonParser) object() Value {
	p.enter()
	d := &Dict{}
	for first := true; p.more(first, '}'); first = false {
		if p.byte() != '"' {
			p.fail("expected a key in quotes")
		}
		key := p.str()
		if p.byte() != ':' {
			p.fail("expected a colon")
		}
		p.pos++
		d.Set(key, p.value())
	}
	return d
}

func (p *jsonParser) array() Value {
	p.enter()
	l := &List{}
	for first := true; p.more(first, ']'); first = false {
		l.Items = append(l.Items, p.value())
	}
	return l
}

func (p *jsonParser) number() Value {
	start, float := p.pos, false
	p.word("-")
	switch n := p.digits(); {
	case n == 0:
		p.fail("expected a digit")
	case n > 1 && p.src[p.pos-n] == '0':
		p.fail("a number can't begin with 0")
	}
	if p.word(".") {
		float = true
		if p.digits() == 0 {
			p.fail("expected a digit")
		}
	}
	if p.word("e") || p.word("E") {
		float = true
		if !p.word("+") {
			p.word("-")
		}
		if p.digits() == 0 {
			p.fail("expected a digit")
		}
	}
	text := p.src[start:p.pos]
	if float {
		f, _ := strconv.ParseFloat(text, 64) // out of range is an infinity, as in Python
		return Float(f)
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Int(i)
	}
	if len(text) > maxIntDigits {
		p.fail("an integer of %d digits is more than is supported", len(text))
	}
	i, _ := new(big.Int).SetString(text, 10)
	return normInt(i)
}

func (p *jsonParser) digits() int {
	start := p.pos
	for p.pos < len(p.src) && isDigit(p.src[p.pos]) {
		p.pos++
	}
	return p.pos - start
}

// str reads a string; the opening quote is the next byte.
func (p *jsonParser) str() string {
	p.pos++
	start := p.pos
	p.plain()
	if p.pos < len(p.src) && p.src[p.pos] == '"' {
		p.pos++
		return p.src[start : p.pos-1]
	}
	return p.escaped(start)
}

// plain skips the characters of a string that stand for themselves.
func (p *jsonParser) plain() {
	src, i := p.src, p.pos
	for i < len(src) && src[i] != '"' && src[i] != '\\' && src[i] >= 0x20 {
		i++
	}
	p.pos = i
}

// escaped reads a string that holds escapes, of which the next byte is the first.
func (p *jsonParser) escaped(start int) string {
	var b strings.Builder
	b.Grow(p.rawLen(start))
	b.WriteString(p.src[start:p.pos])
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '"':
			p.pos++
			return b.String()
		case c == '\\':
			p.escape(&b)
		case c < 0x20:
			p.fail("a control character in a string")
		default:
			from := p.pos
			p.plain()
			b.WriteString(p.src[from:p.pos])
		}
	}
	p.fail("unterminated string")
	return ""
}

// rawLen is the length of the string that begins at start, as it is written.
func (p *jsonParser) rawLen(start int) int {
	for i := start; i < len(p.src); i++ {
		if p.src[i] == '"' {
			return i - start
		}
		if p.src[i] == '\\' {
			i++
		}
	}
	return len(p.src) - start
}

func (p *jsonParser) escape(b *strings.Builder) {
	p.pos++
	if p.pos == len(p.src) {
		p.fail("unterminated string")
	}
	c := p.src[p.pos]
	p.pos++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		b.WriteByte("\"\\/\b\f\n\r\t"[i])
		return
	}
	if c != 'u' {
		p.fail("bad escape")
	}
	r := p.hex()
	if utf16.IsSurrogate(r) {
		low := rune(0)
		if p.word(`\u`) {
			low = p.hex()
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			p.fail("a lone surrogate is no character")
		}
	}
	b.WriteRune(r)
}

func (p *jsonParser) hex() rune {
	if p.pos+4 > len(p.src) {
		p.fail("bad escape")
	}
	v, err := strconv.ParseUint(p.src[p.pos:p.pos+4], 16, 32)
	if err != nil {
		p.fail("bad escape")
	}
	p.pos += 4
	return rune(v)
}
