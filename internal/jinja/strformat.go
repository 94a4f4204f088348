package jinja

import (
	"math/big"
	"strings"
	"unicode/utf8"
)

// formatMethod is str.format with plain fields: {}, {0}, {name}, a conversion
// and a format specification. Fields that reach into a value are refused.
func formatMethod(s string) *callable {
	return &callable{name: "format", raw: func(_ *state, a []Value, kw []keyword) Value {
		f := &fieldFormat{args: a, kw: kw}
		return String(f.run(s))
	}}
}

type fieldFormat struct {
	args   []Value
	kw     []keyword
	next   int
	manual bool
}

func (f *fieldFormat) run(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		c := s[i]
		s = s[i+1:]
		if s != "" && s[0] == c {
			b.WriteByte(c)
			s = s[1:]
			continue
		}
		if c == '}' {
			fail("single '}' encountered in format string")
		}
		end := strings.IndexByte(s, '}')
		if end < 0 {
			fail("expected '}' before end of string")
		}
		b.WriteString(f.field(s[:end]))
		s = s[end+1:]
	}
	return b.String() + s
}

func (f *fieldFormat) field(field string) string {
	if strings.Contains(field, "{") {
		fail("a field within a format's field is not supported")
	}
	name, layout, _ := strings.Cut(field, ":")
	name, conversion, converted := strings.Cut(name, "!")
	v := f.value(name)
	if converted {
		switch conversion {
		case "s":
			v = String(str(v))
		case "r":
			v = String(appendRepr(nil, v))
		default:
			fail("the conversion !%s is not supported", conversion)
		}
	}
	return formatValue(v, layout)
}

func (f *fieldFormat) value(name string) Value {
	if name == "" {
		f.next++
		if f.manual {
			fail("cannot switch from manual field specification to automatic field numbering")
		}
		return f.at(f.next - 1)
	}
	if n := parseInt(name, 10); n != nil && isDigit(name[0]) {
		if f.next > 0 {
			fail("cannot switch from automatic field numbering to manual field specification")
		}
		f.manual = true
		return f.at(intArg(n, "format"))
	}
	if strings.ContainsAny(name, ".[") {
		fail("the format field {%s} is not supported", name)
	}
	for _, k := range f.kw {
		if k.name == name {
			return k.value
		}
	}
	fail("format: no argument '%s'", name)
	return nil
}

func (f *fieldFormat) at(i int) Value {
	if i >= len(f.args) {
		fail("replacement index %d out of range for positional args tuple", i)
	}
	return f.args[i]
}

// formatValue is Python's format(v, layout).
func formatValue(v Value, layout string) string {
	if layout == "" {
		return str(v)
	}
	s := parseLayout(layout)
	if t, ok := text(v); ok {
		if s.verb != 0 && s.verb != 's' || s.plus || s.space || s.alt || s.comma || s.afterSign {
			fail("the format %q is not for a string", layout)
		}
		s.left = s.left || s.fill == "" && !s.zero
		s.verb = 's'
		return s.filled().text(t)
	}
	boolean := false
	if _, boolean = v.(Bool); boolean && s.verb == 0 || !isNumber(v) {
		fail("formatting a %s with %q is not supported", typeName(v), layout)
	}
	return s.number(v, layout)
}

func (s *spec) number(v Value, layout string) string {
	_, isFloat := v.(Float)
	switch s.verb {
	case 0, 'd', 'b', 'o', 'x', 'X':
		if isFloat || s.precision >= 0 {
			break
		}
		base := map[byte]int{'b': 2, 'o': 8, 'x': 16, 'X': 16}[s.verb]
		if base == 0 {
			base, s.verb = 10, 'd'
		}
		if base != 10 && s.comma {
			break
		}
		i, _ := asBig(v)
		return s.filled().integer(new(big.Int).Set(i), base)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return s.filled().float(asFloat(v))
	case '%':
		s.verb = 'f'
		out := *s
		out.width = 0
		body := out.float(asFloat(v)*100) + "%"
		return s.filled().pad("", body)
	}
	fail("formatting a %s with %q is not supported", typeName(v), layout)
	return ""
}

// filled settles the fill character.
func (s *spec) filled() *spec {
	switch {
	case s.fill != "":
	case s.zero:
		s.fill = "0"
	default:
		s.fill = " "
	}
	return s
}

// parseLayout reads [[fill]align][sign][#][0][width][,][.precision][type].
func parseLayout(layout string) *spec {
	s := &spec{precision: -1}
	rest := layout
	_, n := utf8.DecodeRuneInString(rest)
	aligned := false
	if len(rest) > n && strings.IndexByte("<>^=", rest[n]) >= 0 {
		s.fill = rest[:n]
		rest = rest[n:]
	}
	if rest != "" && strings.IndexByte("<>^=", rest[0]) >= 0 {
		aligned = true
		s.left, s.center, s.afterSign = rest[0] == '<', rest[0] == '^', rest[0] == '='
		if s.fill == "" {
			s.fill = " "
		}
		rest = rest[1:]
	}
	take := func(c string) bool {
		ok := strings.HasPrefix(rest, c)
		if ok {
			rest = rest[1:]
		}
		return ok
	}
	s.plus = take("+")
	if !s.plus && !take("-") {
		s.space = take(" ")
	}
	s.alt = take("#")
	s.zero = take("0") && !aligned
	s.width, rest = leadingInt(rest)
	s.comma = take(",")
	if take(".") {
		s.precision, rest = leadingInt(rest)
	}
	if len(rest) == 1 {
		s.verb, rest = rest[0], ""
	}
	if rest != "" {
		fail("invalid format specifier '%s'", layout)
	}
	return s
}

func leadingInt(s string) (int, string) {
	n, i := 0, 0
	for ; i < len(s) && isDigit(s[i]); i++ {
		n = min(n*10+int(s[i]-'0'), maxRange)
	}
	return n, s[i:]
}
