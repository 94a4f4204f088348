package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is a conversion of % formatting or of str.format.
type spec struct {
	left, plus, space, alt, zero bool
	center, afterSign            bool // only str.format has them
	fill                         string
	width, precision             int // precision -1: none
	comma                        bool
	verb                         byte
}

// percent formats with Python's % operator.
type percent struct {
	format string
	pos    int
	args   []Value
	used   int
	dict   *Dict // for %(name)s; nil when the argument is no dict
	escape bool  // the format is Markup
}

func percentFormat(format string, arg Value, escape bool) string {
	p := &percent{format: format, escape: escape}
	named := false
	switch v := arg.(type) {
	case *tuple:
		p.args = v.items
	case *Dict:
		p.dict, p.args, named = v, []Value{v}, true
	case *List, *rangeValue, *undefined:
		p.args, named = []Value{v}, true // what has a subscript may be left over unused
	default:
		p.args = []Value{v}
	}
	var b strings.Builder
	for p.pos < len(format) {
		i := strings.IndexByte(format[p.pos:], '%')
		if i < 0 {
			break
		}
		b.WriteString(format[p.pos : p.pos+i])
		p.pos += i + 1
		b.WriteString(p.one())
	}
	b.WriteString(format[p.pos:])
	if p.used < len(p.args) && !named {
		fail("not all arguments converted during string formatting")
	}
	return b.String()
}

func (p *percent) peek() byte {
	if p.pos >= len(p.format) {
		fail("incomplete format")
	}
	return p.format[p.pos]
}

func (p *percent) one() string {
	var v Value
	if p.peek() == '(' {
		end := strings.IndexByte(p.format[p.pos:], ')')
		if end < 0 {
			fail("incomplete format key")
		}
		if p.dict == nil {
			fail("format requires a mapping")
		}
		key := p.format[p.pos+1 : p.pos+end]
		if strings.Contains(key, "(") {
			fail("a format key with brackets is not supported")
		}
		got, ok := p.dict.Get(key)
		if !ok {
			fail("format: no key '%s'", key)
		}
		v = got
		p.pos += end + 1
	}
	s := p.spec()
	if s.verb == '%' {
		return "%"
	}
	if v == nil {
		v = p.next()
	}
	return s.percent(v, p.escape)
}

func (p *percent) spec() *spec {
	s := &spec{precision: -1, fill: " "}
	for flags := true; flags; {
		switch p.peek() {
		case '-':
			s.left = true
		case '+':
			s.plus = true
		case ' ':
			s.space = true
		case '#':
			s.alt = true
		case '0':
			s.zero = true
		default:
			flags = false
			continue
		}
		p.pos++
	}
	s.width = p.count()
	if s.width < 0 {
		s.left, s.width = true, -s.width
	}
	if p.peek() == '.' {
		p.pos++
		s.precision = max(p.count(), 0)
	}
	for strings.IndexByte("hlL", p.peek()) >= 0 {
		p.pos++
	}
	s.verb = p.peek()
	p.pos++
	return s
}

// count reads a width or precision.
func (p *percent) count() int {
	if p.peek() == '*' {
		p.pos++
		return max(-maxRange, min(maxRange, intArg(p.next(), "* in a format")))
	}
	n := 0
	for isDigit(p.peek()) {
		n = min(n*10+int(p.peek()-'0'), maxRange)
		p.pos++
	}
	return n
}

func (p *percent) next() Value {
	if p.used == len(p.args) {
		fail("not enough arguments for format string")
	}
	p.used++
	return p.args[p.used-1]
}

func (s *spec) percent(v Value, escape bool) string {
	switch s.verb {
	case 's':
		out := str(v)
		if _, ok := v.(markup); escape && !ok {
			out = escapeHTML(out)
		}
		return s.text(out)
	case 'r', 'a':
		out := string(appendRepr(nil, v))
		if s.verb == 'a' && !isASCII(out) {
			fail("%%a of text beyond ASCII is not supported")
		}
		if escape {
			out = escapeHTML(out)
		}
		return s.text(out)
	case 'c':
		if t, ok := text(v); ok && runeCount(t) == 1 {
			return s.text(t)
		}
		i, ok := asInt(v)
		if !ok || i < 0 || i > utf8.MaxRune || i >= 0xd800 && i < 0xe000 {
			fail("%%c requires int or char")
		}
		return s.text(string(rune(i)))
	}
	failUndefined(v)
	if !isNumber(v) {
		fail("%%%c format: a real number is required, not %s", s.verb, typeName(v))
	}
	switch s.verb {
	case 'd', 'i', 'u':
		return s.integer(wholeNumber(v), 10)
	case 'x', 'X', 'o':
		if _, ok := v.(Float); ok {
			fail("%%%c format: an integer is required, not float", s.verb)
		}
		base := 16
		if s.verb == 'o' {
			base = 8
		}
		i, _ := asBig(v)
		return s.integer(i, base)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return s.float(asFloat(v))
	}
	fail("unsupported format character '%c'", s.verb)
	return ""
}

func wholeNumber(v Value) *big.Int {
	if f, ok := v.(Float); ok {
		if math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
			fail("cannot convert float %s to integer", formatFloat(float64(f)))
		}
		i, _ := big.NewFloat(float64(f)).Int(nil)
		return i
	}
	i, _ := asBig(v)
	return i
}

func (s *spec) text(out string) string {
	if s.precision >= 0 && runeCount(out) > s.precision {
		out = runeSlice(out, 0, s.precision)
	}
	return s.pad("", out)
}

func (s *spec) integer(i *big.Int, base int) string {
	digits := new(big.Int).Abs(i).Text(base)
	if len(digits) < s.precision {
		digits = strings.Repeat("0", s.precision-len(digits)) + digits
	}
	prefix := s.sign(i.Sign() < 0)
	if s.alt {
		prefix += map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]
	}
	if s.verb == 'X' {
		digits, prefix = strings.ToUpper(digits), strings.ToUpper(prefix)
	}
	if s.comma {
		digits = grouped(digits)
	}
	return s.pad(prefix, digits)
}

func (s *spec) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case s.plus:
		return "+"
	case s.space:
		return " "
	}
	return ""
}

// grouped puts commas between the thousands of a number's integer part.
func grouped(digits string) string {
	whole, rest := digits, ""
	if i := strings.IndexAny(digits, ".e"); i >= 0 {
		whole, rest = digits[:i], digits[i:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + rest
}

func (s *spec) float(f float64) string {
	precision := s.precision
	if precision < 0 {
		precision = 6
	}
	precision = min(precision, 1000)
	prefix := s.sign(math.Signbit(f) && !math.IsNaN(f))
	var digits string
	switch f = math.Abs(f); {
	case math.IsInf(f, 0):
		digits = "inf"
	case math.IsNaN(f):
		digits = "nan"
	case s.verb|0x20 == 'g':
		digits = general(f, max(precision, 1), s.alt)
	default:
		digits = strconv.FormatFloat(f, s.verb|0x20, precision, 64)
		if s.alt && precision == 0 {
			fail("the flag # for a float without digits is not supported")
		}
	}
	if s.verb == 'E' || s.verb == 'F' || s.verb == 'G' {
		digits = strings.ToUpper(digits)
	}
	if s.comma {
		digits = grouped(digits)
	}
	return s.pad(prefix, digits)
}

// general is C's %g.
func general(f float64, precision int, keepZeros bool) string {
	e := strconv.FormatFloat(f, 'e', precision-1, 64)
	_, exponent, _ := strings.Cut(e, "e")
	x, _ := strconv.Atoi(exponent)
	if x < -4 || x >= precision {
		mantissa := e[:strings.IndexByte(e, 'e')]
		if !keepZeros && strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		return mantissa + e[strings.IndexByte(e, 'e'):]
	}
	out := strconv.FormatFloat(f, 'f', precision-1-x, 64)
	if !keepZeros && strings.Contains(out, ".") {
		out = strings.TrimRight(strings.TrimRight(out, "0"), ".")
	}
	return out
}

// pad brings prefix and body to the width.
func (s *spec) pad(prefix, body string) string {
	n := s.width - runeCount(prefix) - runeCount(body)
	switch {
	case n <= 0:
		return prefix + body
	case s.center:
		return strings.Repeat(s.fill, n/2) + prefix + body + strings.Repeat(s.fill, n-n/2)
	case s.left:
		return prefix + body + strings.Repeat(s.fill, n)
	case s.afterSign:
		return prefix + strings.Repeat(s.fill, n) + body
	case s.zero && s.verb != 's' && s.verb != 'r' && s.verb != 'c' && s.verb != 'a':
		return prefix + strings.Repeat("0", n) + body
	}
	return strings.Repeat(s.fill, n) + prefix + body
}
