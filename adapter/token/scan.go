package token

import "unicode/utf8"

// A splitter cuts a piece of text into smaller ones and hands each, in order,
// to the next step of the pre-tokenizer.
type splitter interface {
	split(e *encoding, step int, s string)
}

// A scanner is the hand-written form of the regular expressions that byte-level
// tokenizers split by. They differ in few points; each field is one of them.
// Every character belongs to some piece: nothing is left between matches.
type scanner struct {
	*charTables
	han         bool        // runs of Han are pieces, and no Han is in a word
	contraction contraction // 's 't 're 've 'm 'll 'd
	words       wordForm
	word        class // what words are made of, wordPlain and wordSpace only
	digits      int   // how many numbers a piece may have; 0: a run of them, led by a space
	punct       class // what a run of punctuation must not have
	tail        tailForm
}

// Where the contractions of English stand in a pattern.
type contraction int

const (
	contractionNone   contraction = iota
	contractionPlain              // pieces of their own, in lower case
	contractionFolded             // pieces of their own, in any case
	contractionSuffix             // the end of a word, in any case
)

// What a word looks like.
type wordForm int

const (
	wordPlain wordForm = iota // letters, led by one character that is no letter, number or line break
	wordCased                 // the same, but lower case must not be followed by upper case
	wordSpace                 // letters, led by one space
)

// What ends a run of punctuation.
type tailForm int

const (
	tailLines tailForm = iota // line breaks
	tailSlash                 // line breaks and slashes
	tailNone                  // nothing, and line breaks end no white space either
)

// Upper and lower case in o200k's words: each has the characters without case.
const (
	classUpper = classLu | classLt | classLm | classLo | classM
	classLower = classLl | classLm | classLo | classM
)

// A matcher finds the match of a pattern that begins at s[i] and returns its
// end, or i where there is none. No pattern here matches the empty string.
type matcher interface {
	end(s string, i int) int
}

// isolate makes each match a piece, and what is left between two matches.
type isolate struct{ matcher }

func (p isolate) split(e *encoding, step int, s string) {
	gap := 0
	for i := 0; i < len(s); {
		j := p.end(s, i)
		if j == i {
			_, n := utf8.DecodeRuneInString(s[i:])
			i += n
			continue
		}
		if gap < i {
			e.piece(step+1, s[gap:i])
		}
		e.piece(step+1, s[i:j])
		gap, i = j, j
	}
	if gap < len(s) {
		e.piece(step+1, s[gap:])
	}
}

func (p *scanner) split(e *encoding, step int, s string) {
	for i := 0; i < len(s); {
		j := p.end(s, i)
		e.piece(step+1, s[i:j])
		i = j
	}
}

// end returns the end of the piece that begins at s[i].
func (p *scanner) end(s string, i int) int {
	k, n := p.at(s, i)
	if p.han && k&classHan != 0 {
		return p.run(s, i, classHan, 0)
	}
	if s[i] == '\'' && (p.contraction == contractionPlain || p.contraction == contractionFolded) {
		if n := contractionLen(s[i:], p.contraction == contractionFolded); n > 0 {
			return i + n
		}
	}
	if j := p.wordEnd(s, i, k, n); j > i {
		return j
	}
	if j := p.numberEnd(s, i, k); j > i {
		return j
	}
	if j := p.punctEnd(s, i, k); j > i {
		return j
	}
	return p.spaceEnd(s, i)
}

func (p *scanner) wordEnd(s string, i int, k class, n int) int {
	switch p.words {
	case wordCased:
		return p.casedEnd(s, i, k, n)
	case wordSpace:
		if s[i] == ' ' {
			return p.ledRun(s, i, i+1, p.word)
		}
		return p.run(s, i, p.word, 0)
	}
	if k&p.word != 0 {
		return p.run(s, i, p.word, 0)
	}
	if k&(classNL|classL|classN) == 0 {
		return p.ledRun(s, i, i+n, p.word)
	}
	return i
}

// ledRun returns the end of the run of in at j, or i where there is none.
func (p *scanner) ledRun(s string, i, j int, in class) int {
	if end := p.run(s, j, in, 0); end > j {
		return end
	}
	return i
}

// casedEnd is o200k's pair of alternatives, tried as a backtracking engine
// tries them: upper* lower+, then upper+ lower*, each with and without a
// leading character.
func (p *scanner) casedEnd(s string, i int, k class, n int) int {
	var out class
	if p.han {
		out = classHan
	}
	lead := -1 // where the letters begin if s[i] leads them
	if k&(classNL|classL|classN) == 0 {
		lead = i + n
	}
	end := i
	if lead > 0 {
		end = p.upperLower(s, lead, out)
	}
	if end <= i {
		end = p.upperLower(s, i, out)
	}
	if end <= i && lead > 0 {
		end = p.ledRunBut(s, i, lead, out)
	}
	if end <= i {
		end = p.run(s, i, classUpper, out)
	}
	if end > i && p.contraction == contractionSuffix && end < len(s) && s[end] == '\'' {
		end += contractionLen(s[end:], true)
	}
	return end
}

// ledRunBut returns the end of the upper-case run at j, or i where there is none.
func (p *scanner) ledRunBut(s string, i, j int, out class) int {
	if end := p.run(s, j, classUpper, out); end > j {
		return end
	}
	return i
}

// upperLower matches upper* lower+ at i and returns its end, or -1.
func (p *scanner) upperLower(s string, i int, out class) int {
	both := -1 // end of the last character of the upper run that lower has too
	j := i
	for j < len(s) {
		k, n := p.at(s, j)
		if k&classUpper == 0 || k&out != 0 {
			break
		}
		j += n
		if k&classLower != 0 {
			both = j
		}
	}
	if end := p.run(s, j, classLower, out); end > j {
		return end
	}
	return both
}

func (p *scanner) numberEnd(s string, i int, k class) int {
	if p.digits == 0 {
		if s[i] == ' ' {
			return p.ledRun(s, i, i+1, classN)
		}
		return p.run(s, i, classN, 0)
	}
	for count := 0; count < p.digits && i < len(s); count++ {
		k, n := p.at(s, i)
		if k&classN == 0 {
			break
		}
		i += n
	}
	return i
}

// punctEnd matches a run of what is neither space, letter nor number, led by
// one space, with the line breaks that follow it.
func (p *scanner) punctEnd(s string, i int, k class) int {
	j := i
	if s[i] == ' ' {
		j++
	} else if k&p.punct != 0 {
		return i
	}
	end := p.runNot(s, j, p.punct)
	if end == j {
		return i
	}
	if p.tail == tailNone {
		return end
	}
	for end < len(s) && (s[end] == '\r' || s[end] == '\n' || s[end] == '/' && p.tail == tailSlash) {
		end++
	}
	return end
}

// spaceEnd matches \s*[\r\n]+|\s+(?!\S)|\s+.
func (p *scanner) spaceEnd(s string, i int) int {
	j := i
	last := i  // where the run's last character begins
	lines := i // end of its last line break
	for j < len(s) {
		k, n := p.at(s, j)
		if k&classSpace == 0 {
			break
		}
		last = j
		j += n
		if k&classNL != 0 {
			lines = j
		}
	}
	switch {
	case lines > i && p.tail != tailNone:
		return lines
	case j == len(s) || last == i:
		return j
	default:
		return last
	}
}

// contractionLen returns the length of the contraction that s begins with, 0
// for none. Folded, s is also the long s, the only other letter that folds to
// one of theirs.
func contractionLen(s string, folded bool) int {
	if len(s) < 2 {
		return 0
	}
	a, b := s[1], byte(0)
	if len(s) > 2 {
		b = s[2]
	}
	if folded {
		if a == "ſ"[0] && b == "ſ"[1] {
			return 1 + len("ſ")
		}
		a, b = lower(a), lower(b)
	}
	switch {
	case a == 's', a == 't', a == 'm', a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	return 0
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// deepseekScanner is the third of DeepSeek's patterns. There are characters
// that it does not match.
type deepseekScanner struct{ *charTables }

// end returns the end of the match at i, or i where there is none.
func (p deepseekScanner) end(s string, i int) int {
	const letter, punct = classL | classM, classP | classS
	k, n := p.at(s, i)
	if s[i] < utf8.RuneSelf && k&punct != 0 {
		j := i + 1
		for j < len(s) && lower(s[j]) >= 'a' && lower(s[j]) <= 'z' {
			j++
		}
		if j > i+1 {
			return j
		}
	}
	if k&letter != 0 {
		return p.run(s, i, letter, 0)
	}
	if k&(classNL|punct) == 0 {
		if j := p.run(s, i+n, letter, 0); j > i+n {
			return j
		}
	}
	j := i
	if s[i] == ' ' {
		j++
	}
	if end := p.run(s, j, punct, 0); end > j {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n') {
			end++
		}
		return end
	}
	if k&classSpace == 0 {
		return i
	}
	space := scanner{charTables: p.charTables}
	return space.spaceEnd(s, i)
}

// runScanner matches runs of characters, of at most max each (0: no limit).
type runScanner struct {
	*charTables
	in  func(r rune, k class) bool
	max int
}

func (p runScanner) end(s string, i int) int {
	for count := 0; i < len(s) && (p.max == 0 || count < p.max); count++ {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !p.in(r, p.of(r)) {
			break
		}
		i += n
	}
	return i
}
