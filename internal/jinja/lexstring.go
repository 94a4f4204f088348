package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// str consumes a string literal.
func (lx *lexer) str(rest string) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[0]:
			lx.emit(token{kind: tString, text: unescape(rest[1:i], lx.line)})
			lx.take(i + 1)
			return
		}
	}
	failAt(lx.line, "unexpected char %q", rest[0])
}

// simpleEscapes are Python's escapes of one letter.
const simpleEscapes = `\'"abfnrtv`
const simpleValues = "\\'\"\a\b\f\n\r\t\v"

// unescape decodes a literal as Python's unicode-escape does.
func unescape(s string, line int) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		out, n := escape(s, line)
		b.WriteString(out)
		s = s[n:]
	}
	return b.String() + s
}

// escape decodes the escape that s begins with, the backslash being cut off,
// and says how much of s it took.
func escape(s string, line int) (string, int) {
	c := s[0]
	if i := strings.IndexByte(simpleEscapes, c); i >= 0 {
		return simpleValues[i : i+1], 1
	}
	switch {
	case c == '\n':
		return "", 1
	case c == 'x':
		return hexEscape(s, 2, line)
	case c == 'u':
		return hexEscape(s, 4, line)
	case c == 'U':
		return hexEscape(s, 8, line)
	case c == 'N':
		failAt(line, `the escape \N{...} is not supported in a string`)
	case c >= '0' && c <= '7':
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[:n], 8, 16)
		return string(rune(v)), n
	case c >= utf8.RuneSelf:
		// Python escapes the character before it decodes, so the backslash ends
		// up before the escape's own.
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r <= 0xff:
			return fmt.Sprintf(`\x%02x`, r), n
		case r <= 0xffff:
			return fmt.Sprintf(`\u%04x`, r), n
		}
		return fmt.Sprintf(`\U%08x`, r), n
	}
	return `\` + s[:1], 1
}

func hexEscape(s string, digits, line int) (string, int) {
	if len(s) < 1+digits {
		failAt(line, `truncated \%c escape in a string`, s[0])
	}
	v, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	if err != nil {
		failAt(line, `bad \%c escape in a string`, s[0])
	}
	if v > utf8.MaxRune || v >= 0xd800 && v < 0xe000 {
		failAt(line, `the escape \%s is not a character`, s[:1+digits])
	}
	return string(rune(v)), 1 + digits
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r == ' ' || r >= 9 && r <= 13 || r >= 0x1c && r <= 0x1f
	case r < 0x1680:
		return r == 0x85 || r == 0xa0
	}
	return r == 0x1680 || r >= 0x2000 && r <= 0x200a || r == 0x2028 || r == 0x2029 || r == 0x202f || r == 0x205f || r == 0x3000
}
