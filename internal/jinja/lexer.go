package jinja

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is a token's kind: one of the named ones below, or the operator itself.
type kind string

const (
	tData     kind = "data"
	tVarBegin kind = "{{"
	tVarEnd   kind = "end of print statement"
	tBlkBegin kind = "{%"
	tBlkEnd   kind = "end of statement block"
	tName     kind = "name"
	tString   kind = "string"
	tNumber   kind = "number"
	tInteger  kind = "integer"
	tEOF      kind = "end of template"
)

type token struct {
	kind kind
	text string // of names, strings and data: the value
	num  Value  // of integers and numbers
	line int
}

// lexer cuts a source into tokens, applying trim_blocks, lstrip_blocks and the
// - and + signs as it goes.
type lexer struct {
	src       string
	pos       int
	line      int
	lineStart bool // what was consumed last ends in a newline
	open      []byte
	tokens    []token
}

func lex(source string) []token {
	if !utf8.ValidString(source) {
		fail("the template is not valid UTF-8")
	}
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	lx := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for lx.pos < len(lx.src) {
		lx.root()
	}
	lx.emit(token{kind: tEOF})
	return lx.tokens
}

func (lx *lexer) emit(t token) {
	t.line = lx.line
	lx.tokens = append(lx.tokens, t)
}

// take consumes n bytes.
func (lx *lexer) take(n int) string {
	s := lx.src[lx.pos : lx.pos+n]
	lx.pos += n
	lx.line += strings.Count(s, "\n")
	if n > 0 {
		lx.lineStart = s[n-1] == '\n'
	}
	return s
}

func (lx *lexer) data(text string) {
	if text != "" {
		lx.emit(token{kind: tData, text: text})
	}
}

// root consumes data up to the next tag, and that tag.
func (lx *lexer) root() {
	rest := lx.src[lx.pos:]
	at := nextTag(rest)
	if at < 0 {
		lx.data(rest)
		lx.take(len(rest))
		return
	}
	begin := rest[at : at+2]
	sign := byte(0)
	if s := rest[at+2:]; s != "" && (s[0] == '-' || s[0] == '+') {
		sign = s[0]
	}
	lx.data(lx.strip(rest[:at], sign, begin == "{{"))
	lx.take(at + 2)
	if sign != 0 {
		lx.take(1)
	}
	switch begin {
	case "{#":
		lx.comment()
	case "{{":
		lx.emit(token{kind: tVarBegin})
		lx.tag(tVarEnd)
	default:
		if lx.raw() {
			return
		}
		lx.emit(token{kind: tBlkBegin})
		lx.tag(tBlkEnd)
	}
}

func nextTag(s string) int {
	for i := 0; i+1 < len(s); i++ {
		j := strings.IndexByte(s[i:], '{')
		if j < 0 {
			return -1
		}
		i += j
		if i+1 < len(s) && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

// strip removes from the data before a tag what its sign, or lstrip_blocks, takes.
func (lx *lexer) strip(text string, sign byte, variable bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || variable {
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || lx.lineStart) && strings.TrimLeftFunc(text[line:], isSpace) == "" {
		return text[:line]
	}
	return text
}

// end consumes a tag's end if one stands here: "%}" with its signs, and the
// whitespace that they take.
func (lx *lexer) end(mark string, plus, trim bool) bool {
	rest := lx.src[lx.pos:]
	switch {
	case strings.HasPrefix(rest, "-"+mark):
		after := strings.TrimLeftFunc(rest[1+len(mark):], isSpace)
		lx.take(len(rest) - len(after))
	case plus && strings.HasPrefix(rest, "+"+mark):
		lx.take(1 + len(mark))
	case strings.HasPrefix(rest, mark):
		n := len(mark)
		if trim && strings.HasPrefix(rest[n:], "\n") {
			n++
		}
		lx.take(n)
	default:
		return false
	}
	return true
}

func (lx *lexer) comment() {
	line := lx.line
	for lx.pos < len(lx.src) {
		if lx.end("#}", true, true) {
			return
		}
		lx.take(1)
	}
	failAt(line, "missing end of comment tag")
}

// raw consumes a raw block if one begins here, after "{%" and its sign.
func (lx *lexer) raw() bool {
	rest := strings.TrimLeftFunc(lx.src[lx.pos:], isSpace)
	if !strings.HasPrefix(rest, "raw") {
		return false
	}
	rest = strings.TrimLeftFunc(rest[3:], isSpace)
	if !strings.HasPrefix(rest, "%}") && !strings.HasPrefix(rest, "-%}") {
		return false
	}
	line := lx.line
	lx.take(len(lx.src) - lx.pos - len(rest))
	lx.end("%}", false, false)
	for start := lx.pos; start < len(lx.src); start++ {
		i := strings.Index(lx.src[start:], "{%")
		if i < 0 {
			break
		}
		start += i
		if lx.endRaw(start) {
			return true
		}
	}
	failAt(line, "missing end of raw directive")
	return false
}

// endRaw ends the raw block if "{%" at is its endraw.
func (lx *lexer) endRaw(at int) bool {
	rest, sign := lx.src[at+2:], byte(0)
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		sign, rest = rest[0], rest[1:]
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	if !strings.HasPrefix(rest, "endraw") {
		return false
	}
	rest = strings.TrimLeftFunc(rest[len("endraw"):], isSpace)
	if !strings.HasPrefix(rest, "%}") && !strings.HasPrefix(rest, "-%}") && !strings.HasPrefix(rest, "+%}") {
		return false
	}
	lx.data(lx.strip(lx.src[lx.pos:at], sign, false))
	lx.take(len(lx.src) - len(rest) - lx.pos)
	return lx.end("%}", true, true)
}

// tag consumes a tag's tokens and its end.
func (lx *lexer) tag(end kind) {
	lx.open = lx.open[:0]
	for lx.pos < len(lx.src) {
		if len(lx.open) == 0 {
			if end == tVarEnd && lx.end("}}", false, false) || end == tBlkEnd && lx.end("%}", true, true) {
				lx.emit(token{kind: end})
				return
			}
		}
		lx.one()
	}
}

// operators, longest first.
const operators = "// ** == != >= <= + - / * % ~ [ ] ( ) { } > < = . : | , ;"

// one consumes one token, or whitespace.
func (lx *lexer) one() {
	rest := lx.src[lx.pos:]
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case isSpace(r):
		lx.take(size)
	case r >= '0' && r <= '9':
		lx.number(rest)
	case r == '_' || unicode.IsLetter(r):
		lx.name(rest)
	case r == '\'' || r == '"':
		lx.str(rest)
	default:
		lx.operator(rest)
	}
}

func (lx *lexer) name(rest string) {
	n := strings.IndexFunc(rest, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	if n < 0 {
		n = len(rest)
	}
	lx.emit(token{kind: tName, text: rest[:n]})
	lx.take(n)
}

func (lx *lexer) operator(rest string) {
	for _, op := range strings.Fields(operators) {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		lx.balance(op[0])
		lx.emit(token{kind: kind(op)})
		lx.take(len(op))
		return
	}
	r, _ := utf8.DecodeRuneInString(rest)
	failAt(lx.line, "unexpected char %q", r)
}

func (lx *lexer) balance(op byte) {
	switch op {
	case '{':
		lx.open = append(lx.open, '}')
	case '(':
		lx.open = append(lx.open, ')')
	case '[':
		lx.open = append(lx.open, ']')
	case '}', ')', ']':
		if len(lx.open) == 0 || lx.open[len(lx.open)-1] != op {
			failAt(lx.line, "unexpected %q", op)
		}
		lx.open = lx.open[:len(lx.open)-1]
	}
}

// number consumes an integer or a float literal.
func (lx *lexer) number(rest string) {
	afterDot := lx.pos > 0 && lx.src[lx.pos-1] == '.'
	if n := floatLen(rest); n > 0 && !afterDot {
		f, err := strconv.ParseFloat(strings.ReplaceAll(rest[:n], "_", ""), 64)
		if err != nil && f == 0 {
			failAt(lx.line, "bad number %s", rest[:n])
		}
		lx.emit(token{kind: tNumber, num: Float(f)})
		lx.take(n)
		return
	}
	n := intLen(rest)
	i, ok := new(big.Int).SetString(strings.ReplaceAll(rest[:n], "_", ""), 0)
	if !ok {
		failAt(lx.line, "bad number %s", rest[:n])
	}
	lx.emit(token{kind: tInteger, num: normInt(i)})
	lx.take(n)
}

// digitsLen is the length of digits with single underscores between them.
func digitsLen(s string, digit func(byte) bool) int {
	n := 0
	for n < len(s) && (digit(s[n]) || s[n] == '_' && n > 0 && s[n-1] != '_' && n+1 < len(s) && digit(s[n+1])) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// floatLen is the length of the float literal that s begins with, or 0.
func floatLen(s string) int {
	n := digitsLen(s, isDigit)
	float := false
	if n < len(s) && s[n] == '.' {
		if m := digitsLen(s[n+1:], isDigit); m > 0 {
			n, float = n+1+m, true
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		at := n + 1
		if at < len(s) && (s[at] == '+' || s[at] == '-') {
			at++
		}
		if m := digitsLen(s[at:], isDigit); m > 0 {
			n, float = at+m, true
		}
	}
	if !float {
		return 0
	}
	return n
}

// intLen is the length of the integer literal that s begins with.
func intLen(s string) int {
	if s[0] != '0' {
		return digitsLen(s, isDigit)
	}
	if len(s) > 1 {
		var digit func(byte) bool
		switch s[1] | 0x20 {
		case 'b':
			digit = func(c byte) bool { return c == '0' || c == '1' }
		case 'o':
			digit = func(c byte) bool { return c >= '0' && c <= '7' }
		case 'x':
			digit = func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
		}
		if digit != nil {
			at := 2
			if at < len(s) && s[at] == '_' {
				at++
			}
			if m := digitsLen(s[at:], digit); m > 0 {
				return at + m
			}
		}
	}
	return digitsLen(s, func(c byte) bool { return c == '0' })
}
