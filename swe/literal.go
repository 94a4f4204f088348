package swe

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PythonList reads a Python literal that is a list or a tuple of strings, as
// `str(list)` writes it. Nothing is evaluated.
func PythonList(s string) ([]string, error) {
	p := literal{rest: strings.TrimSpace(s)}
	list, err := p.list()
	if err != nil {
		return nil, fmt.Errorf("python literal: %w at %q", err, shorten(p.rest, 20))
	}
	return list, nil
}

type literal struct{ rest string }

func (p *literal) list() ([]string, error) {
	closer := "]"
	switch {
	case p.eat("["):
	case p.eat("("):
		closer = ")"
	default:
		return nil, fmt.Errorf("no list")
	}
	list := []string{}
	for !p.eat(closer) {
		s, err := p.text()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
		if p.eat(",") || strings.HasPrefix(p.rest, closer) {
			continue
		}
		return nil, fmt.Errorf("no comma between items")
	}
	if p.rest != "" {
		return nil, fmt.Errorf("more after the list")
	}
	return list, nil
}

// eat takes a token and the space around it.
func (p *literal) eat(token string) bool {
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = strings.TrimSpace(rest)
	}
	return ok
}

// text reads one string; adjacent strings are one, as in Python.
func (p *literal) text() (string, error) {
	var b strings.Builder
	for n := 0; ; n++ {
		if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
			if n == 0 {
				return "", fmt.Errorf("no string")
			}
			return b.String(), nil
		}
		if err := p.quoted(&b); err != nil {
			return "", err
		}
		p.rest = strings.TrimSpace(p.rest)
	}
}

func (p *literal) quoted(b *strings.Builder) error {
	quote := p.rest[0]
	s := p.rest[1:]
	for s != "" {
		switch c := s[0]; c {
		case quote:
			p.rest = s[1:]
			return nil
		case '\n':
			return fmt.Errorf("a line break in a string")
		case '\\':
			rest, err := escape(b, s)
			if err != nil {
				return err
			}
			s = rest
		default:
			b.WriteByte(c)
			s = s[1:]
		}
	}
	p.rest = ""
	return fmt.Errorf("a string without end")
}

// escape writes what the escape sequence at the start of s stands for and
// returns what follows it.
func escape(b *strings.Builder, s string) (string, error) {
	if len(s) < 2 {
		return "", fmt.Errorf("a string without end")
	}
	const plain, means = `\'"abfnrtv`, "\\'\"\a\b\f\n\r\t\v"
	if i := strings.IndexByte(plain, s[1]); i >= 0 {
		b.WriteByte(means[i])
		return s[2:], nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	switch {
	case s[1] == '\n':
		return s[2:], nil
	case digits > 0:
		return codePoint(b, s, 2, digits, 16)
	case s[1] >= '0' && s[1] <= '7':
		n := 1
		for n < 3 && 1+n < len(s) && s[1+n] >= '0' && s[1+n] <= '7' {
			n++
		}
		return codePoint(b, s, 1, n, 8)
	case s[1] == 'N':
		return "", fmt.Errorf(`a \N escape, which is not supported`)
	}
	b.WriteByte('\\') // Python keeps the backslash of an escape that it does not know
	return s[1:], nil
}

func codePoint(b *strings.Builder, s string, from, digits, base int) (string, error) {
	if len(s) < from+digits {
		return "", fmt.Errorf("a cut escape")
	}
	n, err := strconv.ParseUint(s[from:from+digits], base, 32)
	if err != nil || n > utf8.MaxRune {
		return "", fmt.Errorf("a wrong escape")
	}
	b.WriteRune(rune(n))
	return s[from+digits:], nil
}
