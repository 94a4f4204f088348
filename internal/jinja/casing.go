package jinja

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// casing.txt lists the characters that become several in upper ("u") or title
// ("t") case: Unicode's SpecialCasing, unconditional entries.
//
//go:embed casing.txt
var casingText string

// special holds the entries of casing.txt by kind and character.
var special = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(casingText), "\n") {
		f := strings.Split(line, " ")
		m[f[0]+f[1]] = f[2]
	}
	return m
})

// upper is Python's str.upper.
func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	var b strings.Builder
	for _, r := range s {
		b.WriteString(mapped("u", r, unicode.ToUpper))
	}
	return b.String()
}

func mapped(kind string, r rune, simple func(rune) rune) string {
	if r >= utf8.RuneSelf {
		if s, ok := special()[kind+string(r)]; ok {
			return s
		}
	}
	return string(simple(r))
}

// lower is Python's str.lower.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, r := range s {
		b.WriteString(lowered(s, i, r))
	}
	return b.String()
}

// lowered is the lower case of the character r at offset i of s.
func lowered(s string, i int, r rune) string {
	switch r {
	case 'İ':
		return "i̇"
	case 'Σ':
		if finalSigma(s, i) {
			return "ς"
		}
	}
	return string(unicode.ToLower(r))
}

// finalSigma reports whether the sigma at offset i ends a word.
func finalSigma(s string, i int) bool {
	before := strings.TrimRightFunc(s[:i], caseIgnorable)
	after := strings.TrimLeftFunc(s[i+len("Σ"):], caseIgnorable)
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return isCased(last) && !isCased(first)
}

func isCased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) ||
		unicode.Is(unicode.Other_Lowercase, r) || unicode.Is(unicode.Other_Uppercase, r)
}

func caseIgnorable(r rune) bool {
	if strings.ContainsRune("'.:^`\u00a8\u00ad\u00af\u00b4\u00b7\u00b8\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r) {
		return true
	}
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

// title is Python's str.title: a character after a cased one is lowered.
func title(s string) string {
	var b strings.Builder
	inWord := false
	for i, r := range s {
		if inWord {
			b.WriteString(lowered(s, i, r))
		} else {
			b.WriteString(mapped("t", r, unicode.ToTitle))
		}
		inWord = isCased(r)
	}
	return b.String()
}

func capitalize(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i == 0 {
			b.WriteString(mapped("t", r, unicode.ToTitle))
		} else {
			b.WriteString(lowered(s, i, r))
		}
	}
	return b.String()
}

func swapcase(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r):
			b.WriteString(lowered(s, i, r))
		case unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r):
			b.WriteString(mapped("u", r, unicode.ToUpper))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// titleFilter is Jinja2's own title: a word begins after whitespace, a hyphen
// or an opening bracket.
func titleFilter(s string) string {
	starts := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
	var b strings.Builder
	for s != "" {
		n := strings.IndexFunc(s, starts)
		if n < 0 {
			n = len(s)
		}
		if n > 0 {
			_, size := utf8.DecodeRuneInString(s)
			b.WriteString(upper(s[:size]))
			b.WriteString(lower(s[size:n]))
		}
		s = s[n:]
		m := len(s) - len(strings.TrimLeftFunc(s, starts))
		b.WriteString(s[:m])
		s = s[m:]
	}
	return b.String()
}

// wordsOf returns the words of s as Python's \w+ finds them.
func wordsOf(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
	})
}

func zfill(s string, width int) string {
	n := min(width, maxRange) - runeCount(s)
	if n <= 0 {
		return s
	}
	if s != "" && (s[0] == '+' || s[0] == '-') {
		return s[:1] + strings.Repeat("0", n) + s[1:]
	}
	return strings.Repeat("0", n) + s
}

func pad(s string, a []Value, name string) string {
	fill := " "
	if a[1] != nil {
		fill = textArg(a[1], name)
		if runeCount(fill) != 1 {
			fail("the fill character must be exactly one character long")
		}
	}
	width := min(intArg(a[0], name), maxRange)
	n := width - runeCount(s)
	switch {
	case n <= 0:
		return s
	case name == "ljust":
		return s + strings.Repeat(fill, n)
	case name == "rjust":
		return strings.Repeat(fill, n) + s
	}
	left := n/2 + n&width&1
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, n-left)
}
