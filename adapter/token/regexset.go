package token

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A charSet is a set of characters: those of classes, ranges and parts, and of
// all of and; or, negated, the others.
type charSet struct {
	classes class
	ranges  [][2]rune
	parts   []*charSet
	and     []*charSet // intersected with what stands before
	negated bool
}

// has reports whether r, which is in the classes k, is in the set.
func (s *charSet) has(r rune, k class) bool {
	in := s.classes&k != 0
	for i := 0; i < len(s.ranges) && !in; i++ {
		in = s.ranges[i][0] <= r && r <= s.ranges[i][1]
	}
	for i := 0; i < len(s.parts) && !in; i++ {
		in = s.parts[i].has(r, k)
	}
	for i := 0; i < len(s.and) && in; i++ {
		in = s.and[i].has(r, k)
	}
	return in != s.negated
}

// property returns the class that \p{name} is, 0 where it is not known.
func property(name string) class {
	switch name {
	case "L":
		return classL
	case "Lu":
		return classLu
	case "Ll":
		return classLl
	case "Lt":
		return classLt
	case "Lm":
		return classLm
	case "Lo":
		return classLo
	case "M":
		return classM
	case "N":
		return classN
	case "Nd":
		return classNd
	case "P":
		return classP
	case "S":
		return classS
	case "Han":
		return classHan
	}
	return 0
}

// escape reads what a backslash begins.
func (p *regexParser) escape() (*charSet, error) {
	p.src = p.src[1:]
	if p.src == "" {
		return nil, errors.New("\\ at the end")
	}
	c := p.src[0]
	p.src = p.src[1:]
	char := func(r rune) (*charSet, error) { return &charSet{ranges: [][2]rune{{r, r}}}, nil }
	switch c {
	case 'p', 'P':
		return p.property(c == 'P')
	case 's', 'S':
		return &charSet{classes: classSpace, negated: c == 'S'}, nil
	case 'd', 'D':
		return &charSet{classes: classNd, negated: c == 'D'}, nil
	case 'n':
		return char('\n')
	case 'r':
		return char('\r')
	case 't':
		return char('\t')
	}
	if c < utf8.RuneSelf && strings.IndexByte("\\/|()[]{}.*+?^$-'\"#&!,:;<=>@_`~% ", c) >= 0 {
		return char(rune(c))
	}
	return nil, fmt.Errorf("escape \\%c is not known", c)
}

func (p *regexParser) property(negated bool) (*charSet, error) {
	if p.fold {
		return nil, errors.New("\\p in a case-insensitive group")
	}
	name, rest, ok := strings.Cut(p.src, "}")
	if !ok || !strings.HasPrefix(name, "{") {
		return nil, errors.New("\\p without a name in braces")
	}
	p.src = rest
	name = name[1:]
	if inner, ok := strings.CutPrefix(name, "^"); ok {
		name, negated = inner, !negated
	}
	k := property(name)
	if k == 0 {
		return nil, fmt.Errorf("property %q is not known", name)
	}
	return &charSet{classes: k, negated: negated}, nil
}

// class reads a character class, whose [ is read.
func (p *regexParser) class() (*charSet, error) {
	set := &charSet{negated: p.take("^")}
	if strings.HasPrefix(p.src, "]") || strings.HasPrefix(p.src, "[:") || set.negated && p.fold {
		return nil, errors.New("a class that begins with ] or [: or is negated in a case-insensitive group")
	}
	sum := &charSet{} // since the last &&
	var terms []*charSet
	for {
		switch {
		case p.src == "":
			return nil, errors.New("class without end")
		case p.take("]"):
			terms = append(terms, sum)
			set.parts, set.and = terms[:1], terms[1:]
			return set, nil
		case p.take("&&"):
			terms = append(terms, sum)
			sum = &charSet{}
		default:
			if err := p.classItem(sum); err != nil {
				return nil, err
			}
		}
	}
}

// classItem reads a character, a range, an escape or a class in a class.
func (p *regexParser) classItem(sum *charSet) error {
	low, err := p.classSingle()
	if err != nil {
		return err
	}
	single := len(low.ranges) == 1 && !low.negated && low.ranges[0][0] == low.ranges[0][1]
	if !strings.HasPrefix(p.src, "-") || strings.HasPrefix(p.src, "-]") {
		sum.parts = append(sum.parts, low)
		return nil
	}
	p.src = p.src[1:]
	high, err := p.classSingle()
	if err != nil {
		return err
	}
	if !single || len(high.ranges) != 1 || high.negated || high.ranges[0][0] < low.ranges[0][0] || p.fold {
		return errors.New("range is not known")
	}
	sum.ranges = append(sum.ranges, [2]rune{low.ranges[0][0], high.ranges[0][0]})
	return nil
}

func (p *regexParser) classSingle() (*charSet, error) {
	switch {
	case p.src == "":
		return nil, errors.New("class without end")
	case p.take("["):
		return p.class()
	case p.src[0] == '\\':
		return p.escape()
	}
	r, n := utf8.DecodeRuneInString(p.src)
	p.src = p.src[n:]
	if !p.fold {
		return &charSet{ranges: [][2]rune{{r, r}}}, nil
	}
	return (&regexParser{chars: p.chars, fold: true}).literal(r)
}
