package parse

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// stringPrefix returns the letters before a string literal's quote.
func stringPrefix(s string) (string, bool) {
	for n := 0; n <= 2 && n < len(s); n++ {
		if s[n] == '"' || s[n] == '\'' {
			switch prefix := asciiLower(s[:n]); prefix {
			case "", "r", "u", "b", "br", "rb":
				return prefix, true
			}
			return "", false
		}
	}
	return "", false
}

// strings reads one string literal and those that follow it directly, which
// Python joins.
func (p *pyReader) strings(prefix string) (value, bool) {
	out := value{kind: kStr}
	if strings.Contains(prefix, "b") {
		out.kind = kBytes
	}
	var joined strings.Builder
	for {
		text, ok := p.oneString(len(prefix), out.kind == kBytes, strings.Contains(prefix, "r"))
		if !ok {
			return value{}, false
		}
		joined.WriteString(text)
		p.blanks()
		next, more := stringPrefix(p.s[p.i:])
		if !more {
			out.s = joined.String()
			return out, true
		}
		if strings.Contains(next, "b") != (out.kind == kBytes) {
			return value{}, false
		}
		prefix = next
	}
}

// oneString reads the literal at p.i, whose prefix has skip letters.
func (p *pyReader) oneString(skip int, bytes, raw bool) (string, bool) {
	p.i += skip
	quote := p.s[p.i : p.i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(p.s[p.i:], triple) {
		quote = triple
	}
	p.i += len(quote)
	var b []byte
	for p.i < len(p.s) {
		c := p.s[p.i]
		switch {
		case strings.HasPrefix(p.s[p.i:], quote):
			p.i += len(quote)
			return string(b), true
		case c == '\n' && len(quote) == 1, bytes && c >= utf8.RuneSelf:
			return "", false
		case c == '\\' && p.i+1 < len(p.s) && raw:
			b = append(b, c, p.s[p.i+1])
			p.i += 2
		case c == '\\':
			var ok bool
			if b, ok = p.escape(b, bytes); !ok {
				return "", false
			}
		default:
			b = append(b, c)
			p.i++
		}
	}
	return "", false
}

// escape appends what the backslash at p.i and what follows it stand for. An
// escape that Python does not know keeps its backslash.
func (p *pyReader) escape(b []byte, bytes bool) ([]byte, bool) {
	if p.i+1 >= len(p.s) {
		return b, false
	}
	c := p.s[p.i+1]
	p.i += 2
	if at := strings.IndexByte("\\'\"abfnrtv", c); at >= 0 {
		return append(b, "\\'\"\a\b\f\n\r\t\v"[at]), true
	}
	switch {
	case c == '\n':
		return b, true
	case c >= '0' && c <= '7':
		end := p.i
		for end < len(p.s) && end < p.i+2 && p.s[end] >= '0' && p.s[end] <= '7' {
			end++
		}
		n, _ := strconv.ParseUint(p.s[p.i-1:end], 8, 32)
		p.i = end
		return appendCode(b, rune(n), bytes), true
	case c == 'x':
		return p.hexEscape(b, 2, bytes)
	case c == 'u' && !bytes:
		return p.hexEscape(b, 4, false)
	case c == 'U' && !bytes:
		return p.hexEscape(b, 8, false)
	case c == 'N' && !bytes:
		return b, false
	case bytes && c >= utf8.RuneSelf:
		return b, false
	}
	return append(b, '\\', c), true
}

func (p *pyReader) hexEscape(b []byte, width int, bytes bool) ([]byte, bool) {
	if p.i+width > len(p.s) {
		return b, false
	}
	n, err := strconv.ParseUint(p.s[p.i:p.i+width], 16, 32)
	if err != nil || n > utf8.MaxRune {
		return b, false
	}
	p.i += width
	return appendCode(b, rune(n), bytes), true
}

// appendCode appends a code point, or in bytes the byte itself.
func appendCode(b []byte, r rune, bytes bool) []byte {
	if bytes {
		return append(b, byte(r))
	}
	return utf8.AppendRune(b, r)
}
