package parse

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDigits is how long a decimal number Python turns into an int, and back:
// beyond it both raise a ValueError.
const maxDigits = 4300

// pyInt is Python's int(s): blanks around it, a sign, single underscores
// between digits and the decimal digits of every script are accepted.
func pyInt(s string) (value, bool) {
	s = strings.TrimFunc(s, numberSpace)
	negative := false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		negative = s[0] == '-'
		s = s[1:]
	}
	digits, ok := plainDigits(s)
	if !ok || len(digits) > maxDigits {
		return value{}, false
	}
	return intValue(digits, negative), true
}

// intValue makes an int of decimal digits.
func intValue(digits string, negative bool) value {
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return value{kind: kInt, s: "0"}
	}
	if negative {
		digits = "-" + digits
	}
	return value{kind: kInt, s: digits}
}

// plainDigits turns a run of digits of any script, with single underscores
// between them, into ASCII digits.
func plainDigits(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	gap := true // an underscore may not stand here
	for _, r := range s {
		if r == '_' {
			if gap {
				return "", false
			}
			gap = true
			continue
		}
		d := digitOf(r)
		if d < 0 {
			return "", false
		}
		out = append(out, '0'+byte(d))
		gap = false
	}
	return string(out), !gap
}

// digitOf returns the value of a decimal digit of any script, or -1. Unicode
// lays the ten digits of each out in order, from a zero on.
func digitOf(r rune) int {
	if r < utf8.RuneSelf {
		if r >= '0' && r <= '9' {
			return int(r - '0')
		}
		return -1
	}
	if !unicode.Is(unicode.Nd, r) {
		return -1
	}
	for _, t := range unicode.Nd.R16 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return int(r-rune(t.Lo)) % 10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return int(r-rune(t.Lo)) % 10
		}
	}
	return -1
}

// pyParseFloat is Python's float(s): no hexadecimal, but inf, infinity and nan,
// and the digits of every script.
func pyParseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, numberSpace)
	var b strings.Builder
	prev := byte(0)
	for i, r := range s {
		if d := digitOf(r); d >= 0 {
			prev = '0' + byte(d)
			b.WriteByte(prev)
			continue
		}
		if r == '_' {
			next, _ := utf8.DecodeRuneInString(s[i+1:])
			if prev < '0' || prev > '9' || digitOf(next) < 0 {
				return 0, false
			}
			prev = '_'
			continue
		}
		if r >= utf8.RuneSelf {
			return 0, false
		}
		prev = byte(r)
		b.WriteByte(prev)
	}
	return plainFloat(b.String())
}

// plainFloat reads an ASCII float without underscores.
func plainFloat(s string) (float64, bool) {
	body := strings.TrimPrefix(strings.TrimPrefix(s, "+"), "-")
	if len(s)-len(body) > 1 {
		return 0, false
	}
	switch asciiLower(body) {
	case "inf", "infinity":
		if s[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	case "nan":
		return math.NaN(), true
	}
	if body == "" || strings.Trim(body, "0123456789.eE+-") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// pyFloat writes a float as json.dumps does: the shortest digits that read
// back, an exponent below 1e-4 and from 1e16 on.
func pyFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	a := math.Abs(f)
	if a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// floatDigits writes a finite whole float as the int that Python makes of it.
func floatDigits(f float64) string {
	i, _ := big.NewFloat(f).Int(nil)
	return i.String()
}

// pySpace is Python's str.isspace for one rune.
func pySpace(r rune) bool {
	return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r)
}

// numberSpace is what may stand around a number: of ASCII C's blanks only.
func numberSpace(r rune) bool { return unicode.IsSpace(r) }

// pyStrip is Python's str.strip().
func pyStrip(s string) string { return strings.TrimFunc(s, pySpace) }

// asciiLower lowers ASCII letters. Python's lower() on the words that the
// parsers compare with does no more.
func asciiLower(s string) string {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if b[j] >= 'A' && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
