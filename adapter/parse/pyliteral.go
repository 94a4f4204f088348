package parse

import (
	"math/big"
	"strings"
	"unicode/utf8"
)

// pyLiteral is Python's ast.literal_eval: the literals of the language and
// nothing that computes. errSyntax stands for a SyntaxError and for the
// ValueError of an expression that is no literal; no parser tells them apart.
// Character names (\N{…}) are not known here and read as such an error.
func pyLiteral(s string) (value, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return value{}, errValue
	}
	s = strings.ReplaceAll(strings.ReplaceAll(strings.TrimLeft(s, " \t"), "\r\n", "\n"), "\r", "\n")
	p := pyReader{s: s}
	if !p.leadIn() {
		return value{}, errSyntax
	}
	v, ok := p.top()
	if !ok || !p.atEnd() {
		return value{}, errSyntax
	}
	return v, p.err
}

// maxNesting is how many brackets Python's tokenizer lets stand open.
const maxNesting = 200

// A pyReader reads literals. Its methods return false for a syntax error; err
// is the first error of the evaluation, which a syntax error further on wins
// over.
type pyReader struct {
	s     string
	i     int
	depth int // open brackets: line ends are blanks inside them
	err   error

	constants bool // no signs, sums, tuples and sets
	signs     bool // but signs
}

// leadIn skips empty lines; an indented first line is a syntax error.
func (p *pyReader) leadIn() bool {
	for {
		start := p.i
		p.blanks()
		if p.i >= len(p.s) || p.s[p.i] != '\n' {
			return start == p.i
		}
		p.i++
	}
}

// atEnd skips the blanks and line ends after the expression.
func (p *pyReader) atEnd() bool {
	for p.blanks(); p.i < len(p.s) && p.s[p.i] == '\n'; p.blanks() {
		p.i++
	}
	return p.i == len(p.s)
}

// blanks skips blanks, comments, continued lines, and line ends in brackets.
func (p *pyReader) blanks() {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == ' ' || c == '\t' || c == '\f' || c == '\n' && p.depth > 0:
			p.i++
		case c == '#':
			end := strings.IndexByte(p.s[p.i:], '\n')
			if end < 0 {
				end = len(p.s) - p.i
			}
			p.i += end
		case c == '\\' && strings.HasPrefix(p.s[p.i:], "\\\n"):
			p.i += 2
		default:
			return
		}
	}
}

func (p *pyReader) peek() byte {
	p.blanks()
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

// top reads one expression, or a tuple without parentheses.
func (p *pyReader) top() (value, bool) {
	v, ok := p.expr()
	if !ok || p.peek() != ',' {
		return v, ok
	}
	out := value{kind: kTuple, list: []value{v}}
	for p.peek() == ',' {
		p.i++
		if c := p.peek(); c == 0 || c == '\n' {
			break
		}
		if v, ok = p.expr(); !ok {
			return v, false
		}
		out.list = append(out.list, v)
	}
	return out, true
}

// expr reads an atom, a signed number or a sum that makes a complex number.
func (p *pyReader) expr() (value, bool) {
	left, signed, ok := p.signed()
	if !ok {
		return value{}, false
	}
	op := p.peek()
	if op != '+' && op != '-' {
		return left, true
	}
	if p.constants {
		return value{}, false
	}
	p.i++
	p.peek()
	right, ok := p.atom()
	if !ok || right.kind != kComplex || left.kind != kInt && left.kind != kFloat || signed > 1 {
		return value{}, false
	}
	if op == '-' {
		right.f = -right.f
	}
	right.re = left.float()
	return right, p.peek() != '+' && p.peek() != '-'
}

// signed reads an atom with at most one sign, which only a number may have.
func (p *pyReader) signed() (v value, signs int, ok bool) {
	sign := p.peek()
	if sign != '+' && sign != '-' {
		v, ok = p.atom()
		return v, 0, ok
	}
	if p.constants && !p.signs {
		return value{}, 1, false
	}
	p.i++
	p.peek()
	v, ok = p.atom()
	if !ok || v.kind != kInt && v.kind != kFloat && v.kind != kComplex {
		return value{}, 1, false
	}
	if sign == '-' {
		v = v.negated()
	}
	return v, 1, true
}

func (v value) negated() value {
	v.f, v.re = -v.f, -v.re
	if v.kind == kInt && v.s != "0" {
		v.s = "-" + v.s
	}
	return v
}

// float returns an int or float as a float.
func (v value) float() float64 {
	if v.kind != kInt {
		return v.f
	}
	f, _ := plainFloat(v.s)
	return f
}

func (p *pyReader) atom() (value, bool) {
	if p.i >= len(p.s) {
		return value{}, false
	}
	switch c := p.s[p.i]; {
	case c == '(' || c == '[' || c == '{':
		return p.bracket(c)
	case c >= '0' && c <= '9' || c == '.' && p.i+1 < len(p.s) && p.s[p.i+1] >= '0' && p.s[p.i+1] <= '9':
		return p.number()
	case strings.HasPrefix(p.s[p.i:], "..."):
		p.i += 3
		return value{kind: kEllipsis}, true
	}
	if prefix, ok := stringPrefix(p.s[p.i:]); ok {
		return p.strings(prefix)
	}
	word := p.s[p.i:identEnd(p.s, p.i)]
	p.i += len(word)
	switch word {
	case "None":
		return value{}, true
	case "True", "False":
		return boolValue(word == "True"), true
	case "set":
		if p.peek() == '(' && !p.constants {
			p.i++
			p.depth++
			closed := p.peek() == ')'
			p.i++
			p.depth--
			return value{kind: kSet}, closed
		}
	}
	return value{}, false
}

// bracket reads a tuple, list, dict or set.
func (p *pyReader) bracket(open byte) (value, bool) {
	p.i++
	p.depth++
	if p.depth > maxNesting {
		return value{}, false
	}
	defer func() { p.depth-- }()
	if open == '{' {
		return p.braces()
	}
	out, end := value{kind: kList}, byte(']')
	if open == '(' {
		out.kind, end = kTuple, ')'
	}
	comma := false
	for p.peek() != end {
		v, ok := p.expr()
		if !ok {
			return value{}, false
		}
		out.list = append(out.list, v)
		if comma = p.peek() == ','; comma {
			p.i++
		} else if p.peek() != end {
			return value{}, false
		}
	}
	p.i++
	if open == '(' && len(out.list) == 1 && !comma {
		return out.list[0], true
	}
	return out, !p.constants || out.kind == kList
}

// braces reads the rest of a dict or a set.
func (p *pyReader) braces() (value, bool) {
	d, isSet := dictValue(), false
	for n := 0; p.peek() != '}'; n++ {
		key, ok := p.expr()
		if !ok {
			return value{}, false
		}
		pair := p.peek() == ':'
		if n > 0 && pair == isSet {
			return value{}, false
		}
		isSet = !pair
		val := key
		if pair {
			p.i++
			if val, ok = p.expr(); !ok {
				return value{}, false
			}
		}
		if p.err == nil && !key.hashable() {
			p.err = errType
		}
		if p.err == nil {
			d.set(key, val)
		}
		if p.peek() == ',' {
			p.i++
		} else if p.peek() != '}' {
			return value{}, false
		}
	}
	p.i++
	if !isSet {
		return d.value(), true
	}
	if p.constants {
		return value{}, false
	}
	out := value{kind: kSet}
	for i := 0; i < len(d.list); i += 2 {
		out.list = append(out.list, d.list[i])
	}
	return out, true
}

// number reads an int, a float or an imaginary number.
func (p *pyReader) number() (value, bool) {
	end := p.i
	for end < len(p.s) && (isWord(p.s[end]) || p.s[end] == '.' ||
		(p.s[end] == '+' || p.s[end] == '-') && !strings.HasPrefix(asciiLower(p.s[p.i:p.i+2]), "0x") && p.s[end-1]|0x20 == 'e') {
		end++
	}
	text := p.s[p.i:end]
	p.i = end
	imaginary := strings.HasSuffix(text, "j") || strings.HasSuffix(text, "J")
	if len(text) > 1 && text[0] == '0' && !imaginary {
		if base := strings.IndexByte("bBoOxX", text[1]); base >= 0 {
			return basedInt(text[2:], [...]int{2, 8, 16}[base/2])
		}
	}
	if imaginary {
		text = text[:len(text)-1]
	}
	if strings.ContainsAny(text, ".eE") || imaginary {
		f, ok := pyParseFloat(text)
		if !ok || strings.HasPrefix(text, "_") {
			return value{}, false
		}
		if imaginary {
			return value{kind: kComplex, f: f}, true
		}
		return value{kind: kFloat, f: f}, true
	}
	digits, ok := plainDigits(text)
	if !ok || len(digits) > maxDigits || digits[0] == '0' && strings.Trim(digits, "0") != "" {
		return value{}, false
	}
	return intValue(digits, false), true
}

// basedInt reads the digits after 0x, 0o or 0b. One that is too long to be
// written in decimal keeps a length that json.dumps refuses.
func basedInt(text string, base int) (value, bool) {
	text = strings.TrimPrefix(text, "_")
	digits := strings.ReplaceAll(text, "_", "")
	if digits == "" || strings.Contains(text, "__") || strings.HasSuffix(text, "_") {
		return value{}, false
	}
	for _, c := range asciiLower(digits) {
		if d := strings.IndexRune("0123456789abcdef", c); d < 0 || d >= base {
			return value{}, false
		}
	}
	if len(digits) > maxDigits*4 {
		return value{kind: kInt, s: strings.Repeat("9", maxDigits+1)}, true
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return value{}, false
	}
	return value{kind: kInt, s: n.String()}, true
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

// identEnd returns the end of the identifier at i.
func identEnd(s string, i int) int {
	for i < len(s) && isWord(s[i]) {
		i++
	}
	return i
}
