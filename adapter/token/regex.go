package token

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A regex is a pattern that has no scanner of its own, matched as Oniguruma
// matches it: the first alternative that fits, by backtracking. Only what its
// parser knows to mean the same there is taken; there are no anchors, captures,
// look-behinds, positive look-aheads or repeated groups, and a pattern that can match nothing is
// refused.
type regex struct {
	chars *charTables
	start *regexNode
}

func compileRegex(chars *charTables, pattern string) (*regex, error) {
	p := &regexParser{chars: chars, src: pattern}
	accept := &regexNode{op: opAccept}
	start, err := p.alternatives(func(n *regexNode) *regexNode { return n }, accept)
	if err == nil && p.src != "" {
		err = errors.New("unmatched )")
	}
	if err != nil {
		return nil, fmt.Errorf("before %.20q: %w", p.src, err)
	}
	re := &regex{chars, start}
	if re.match(start, "", 0) >= 0 {
		return nil, errors.New("it can match the empty string")
	}
	return re, nil
}

// end is a matcher's.
func (re *regex) end(s string, i int) int { return max(i, re.match(re.start, s, i)) }

type regexOp int

const (
	opAccept   regexOp = iota
	opChar             // one character of set
	opRepeat           // from least to most characters of set, as many as possible
	opFork             // the first of forks that leads to a match
	opNotAhead         // not followed by forks[0]
)

// A regexNode is one step of a pattern; next comes after it.
type regexNode struct {
	op          regexOp
	set         *charSet
	least, most int // most < 0: no limit
	possessive  bool
	forks       []*regexNode
	next        *regexNode
}

// match returns the end of the match that begins at n and s[i], -1 for none.
func (re *regex) match(n *regexNode, s string, i int) int {
	for {
		switch n.op {
		case opAccept:
			return i
		case opChar:
			end := re.one(n.set, s, i)
			if end < 0 {
				return -1
			}
			i = end
		case opRepeat:
			return re.repeat(n, s, i)
		case opFork:
			for _, f := range n.forks {
				if end := re.match(f, s, i); end >= 0 {
					return end
				}
			}
			return -1
		case opNotAhead:
			if re.match(n.forks[0], s, i) >= 0 {
				return -1
			}
		}
		n = n.next
	}
}

// one returns the end of the character at s[i] if it is in set, else -1.
func (re *regex) one(set *charSet, s string, i int) int {
	if i >= len(s) {
		return -1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if !set.has(r, re.chars.of(r)) {
		return -1
	}
	return i + n
}

func (re *regex) repeat(n *regexNode, s string, i int) int {
	count, end := 0, i
	for n.most < 0 || count < n.most {
		next := re.one(n.set, s, end)
		if next < 0 {
			break
		}
		end = next
		count++
	}
	for ; count >= n.least; count-- {
		if m := re.match(n.next, s, end); m >= 0 || n.possessive {
			return m
		}
		_, size := utf8.DecodeLastRuneInString(s[i:end])
		end -= size
	}
	return -1
}

// A regexParser reads a pattern, src being what is left of it.
type regexParser struct {
	chars *charTables
	src   string
	fold  bool // inside (?i:…)
}

func (p *regexParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.src, prefix)
	p.src = rest
	return ok
}

// alternatives reads up to the end of the pattern or the group; each
// alternative leads to next.
func (p *regexParser) alternatives(wrap func(*regexNode) *regexNode, next *regexNode) (*regexNode, error) {
	fork := &regexNode{op: opFork}
	for {
		n, err := p.sequence(next)
		if err != nil {
			return nil, err
		}
		fork.forks = append(fork.forks, n)
		if !p.take("|") {
			return wrap(fork), nil
		}
	}
}

// sequence reads what comes one after the other. Nodes are made from the last
// to the first, so the items are read first.
func (p *regexParser) sequence(next *regexNode) (*regexNode, error) {
	var items []func(next *regexNode) (*regexNode, error)
	for p.src != "" && p.src[0] != '|' && p.src[0] != ')' {
		item, err := p.item()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	for i := len(items) - 1; i >= 0; i-- {
		var err error
		if next, err = items[i](next); err != nil {
			return nil, err
		}
	}
	return next, nil
}

type itemFunc = func(next *regexNode) (*regexNode, error)

func (p *regexParser) item() (itemFunc, error) {
	switch {
	case p.take("(?!"):
		return p.notAhead()
	case p.take("(?i:"):
		return p.group(true)
	case p.take("(?:"):
		return p.group(p.fold)
	case p.src[0] == '(':
		return nil, errors.New("this kind of group is not known")
	}
	set, err := p.single()
	if err != nil {
		return nil, err
	}
	least, most, possessive, err := p.quantifier()
	if err != nil {
		return nil, err
	}
	return func(next *regexNode) (*regexNode, error) {
		if least == 1 && most == 1 {
			return &regexNode{op: opChar, set: set, next: next}, nil
		}
		return &regexNode{op: opRepeat, set: set, least: least, most: most, possessive: possessive, next: next}, nil
	}, nil
}

func (p *regexParser) notAhead() (itemFunc, error) {
	sub, err := p.alternatives(func(n *regexNode) *regexNode { return n }, &regexNode{op: opAccept})
	if err == nil && !p.take(")") {
		err = errors.New("group without end")
	}
	return func(next *regexNode) (*regexNode, error) {
		return &regexNode{op: opNotAhead, forks: []*regexNode{sub}, next: next}, nil
	}, err
}

// group reads a group, which may be optional. Its source is read again when
// what follows is known.
func (p *regexParser) group(fold bool) (itemFunc, error) {
	outer, src := p.fold, p.src
	p.fold = fold
	_, err := p.alternatives(func(n *regexNode) *regexNode { return n }, nil)
	p.fold = outer
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, errors.New("group without end")
	}
	least, most, possessive, err := p.quantifier()
	switch {
	case err != nil:
		return nil, err
	case most != 1 || possessive:
		return nil, errors.New("a group can only be optional")
	}
	return func(next *regexNode) (*regexNode, error) {
		inner := &regexParser{chars: p.chars, src: src, fold: fold}
		return inner.alternatives(func(n *regexNode) *regexNode {
			if least == 0 {
				n.forks = append(n.forks, next)
			}
			return n
		}, next)
	}, nil
}

func (p *regexParser) quantifier() (least, most int, possessive bool, err error) {
	least, most = 1, 1
	switch {
	case p.take("*"):
		least, most = 0, -1
	case p.take("+"):
		most = -1
	case p.take("?"):
		least = 0
	case p.take("{"):
		bounds, rest, ok := strings.Cut(p.src, "}")
		low, high, isRange := strings.Cut(bounds, ",")
		least, err = strconv.Atoi(low)
		if most = least; isRange {
			if most = -1; high != "" {
				most, _ = strconv.Atoi(high)
			}
		}
		if !ok || err != nil || least < 0 || most >= 0 && most < least || most > 1000 {
			return 0, 0, false, errors.New("quantifier is not known")
		}
		if p.src = rest; strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "?") {
			return 0, 0, false, errors.New("a quantifier after {} means another thing in each engine")
		}
		return least, most, false, nil
	default:
		return 1, 1, false, nil
	}
	if p.take("+") {
		return least, most, true, nil
	}
	if strings.HasPrefix(p.src, "?") || strings.HasPrefix(p.src, "*") {
		return 0, 0, false, errors.New("lazy and double quantifiers are not known")
	}
	return least, most, false, nil
}

// single reads what stands for one character.
func (p *regexParser) single() (*charSet, error) {
	switch c := p.src[0]; {
	case p.take("["):
		return p.class()
	case p.take("."):
		return &charSet{ranges: [][2]rune{{'\n', '\n'}}, negated: true}, nil
	case c == '\\':
		return p.escape()
	case strings.IndexByte("^$*+?{)", c) >= 0:
		return nil, fmt.Errorf("%q is not known here", c)
	}
	r, n := utf8.DecodeRuneInString(p.src)
	p.src = p.src[n:]
	return p.literal(r)
}

// literal returns the set of r, and, inside (?i:…), of what folds to it. The
// letters of English contractions have one fold outside ASCII, the long s; of
// two together only ss and st have any, and they are in no contraction.
func (p *regexParser) literal(r rune) (*charSet, error) {
	set := &charSet{ranges: [][2]rune{{r, r}}}
	if !p.fold || !unicode.IsLetter(r) {
		return set, nil
	}
	if !strings.ContainsRune("strevmldSTREVMLD", r) || strings.HasPrefix(strings.ToLower(string(r)+p.src), "ss") || strings.HasPrefix(strings.ToLower(string(r)+p.src), "st") {
		return nil, fmt.Errorf("%q in a case-insensitive group", r)
	}
	lower, upper := unicode.ToLower(r), unicode.ToUpper(r)
	set.ranges = [][2]rune{{lower, lower}, {upper, upper}}
	if lower == 's' {
		set.ranges = append(set.ranges, [2]rune{'ſ', 'ſ'})
	}
	return set, nil
}
