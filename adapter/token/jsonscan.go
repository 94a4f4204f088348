package token

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A jsonScanner reads the large parts of a tokenizer.json, vocabulary and
// merges, several times faster than encoding/json and without copying.
type jsonScanner struct {
	data []byte
	pos  int
	buf  []byte // of the last string that had escapes
}

func (j *jsonScanner) errorf(format string, args ...any) error {
	return fmt.Errorf("at byte %d: %s", j.pos, fmt.Sprintf(format, args...))
}

// peek returns the next byte that is not white space, 0 at the end.
func (j *jsonScanner) peek() byte {
	for j.pos < len(j.data) {
		switch c := j.data[j.pos]; c {
		case ' ', '\n', '\t', '\r':
			j.pos++
		default:
			return c
		}
	}
	return 0
}

func (j *jsonScanner) expect(c byte) error {
	if j.peek() != c {
		return j.errorf("want %q", c)
	}
	j.pos++
	return nil
}

// object calls member for each member of the object that comes next; member
// reads the value. key is valid until then.
func (j *jsonScanner) object(member func(key []byte) error) error {
	return j.list('{', '}', func() error {
		key, err := j.str()
		if err != nil {
			return err
		}
		if err := j.expect(':'); err != nil {
			return err
		}
		return member(key)
	})
}

// array calls element for each element of the array that comes next; element
// reads it.
func (j *jsonScanner) array(element func() error) error { return j.list('[', ']', element) }

func (j *jsonScanner) list(open, end byte, item func() error) error {
	if err := j.expect(open); err != nil {
		return err
	}
	if j.peek() == end {
		j.pos++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if j.peek() != ',' {
			return j.expect(end)
		}
		j.pos++
	}
}

// str reads a string. The result is valid until the next call.
func (j *jsonScanner) str() ([]byte, error) {
	if err := j.expect('"'); err != nil {
		return nil, err
	}
	for start := j.pos; j.pos < len(j.data); j.pos++ {
		switch c := j.data[j.pos]; {
		case c == '"':
			j.pos++
			return j.data[start : j.pos-1], nil
		case c == '\\':
			j.buf = append(j.buf[:0], j.data[start:j.pos]...)
			return j.escaped()
		case c < ' ':
			return nil, j.errorf("control character in a string")
		}
	}
	return nil, j.errorf("string without end")
}

// escaped reads the rest of a string, whose beginning is in buf.
func (j *jsonScanner) escaped() ([]byte, error) {
	for j.pos < len(j.data) {
		c := j.data[j.pos]
		j.pos++
		switch {
		case c == '"':
			return j.buf, nil
		case c < ' ':
			return nil, j.errorf("control character in a string")
		case c != '\\':
			j.buf = append(j.buf, c)
		default:
			if err := j.escape(); err != nil {
				return nil, err
			}
		}
	}
	return nil, j.errorf("string without end")
}

func (j *jsonScanner) escape() error {
	if j.pos >= len(j.data) {
		return j.errorf("string without end")
	}
	c := j.data[j.pos]
	j.pos++
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return j.unicodeEscape()
	default:
		return j.errorf("unknown escape \\%c", c)
	}
	j.buf = append(j.buf, c)
	return nil
}

func (j *jsonScanner) unicodeEscape() error {
	r, err := j.hex4()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		if j.pos+2 > len(j.data) || string(j.data[j.pos:j.pos+2]) != `\u` {
			return j.errorf("lone surrogate")
		}
		j.pos += 2
		low, err := j.hex4()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return j.errorf("lone surrogate")
		}
	}
	j.buf = utf8.AppendRune(j.buf, r)
	return nil
}

func (j *jsonScanner) hex4() (rune, error) {
	if j.pos+4 > len(j.data) {
		return 0, j.errorf("string without end")
	}
	v, err := strconv.ParseUint(string(j.data[j.pos:j.pos+4]), 16, 32)
	if err != nil {
		return 0, j.errorf("bad \\u escape")
	}
	j.pos += 4
	return rune(v), nil
}

// id reads a number that is a token's id.
func (j *jsonScanner) id() (int32, error) {
	j.peek()
	start, v := j.pos, 0
	for ; j.pos < len(j.data) && j.data[j.pos]-'0' < 10 && v < maxID; j.pos++ {
		v = v*10 + int(j.data[j.pos]-'0')
	}
	if j.pos == start || v >= maxID {
		return 0, j.errorf("want an id below %d", maxID)
	}
	return int32(v), nil
}

// skip passes over the value that comes next and returns it. It checks its
// nesting and its strings' ends, no more.
func (j *jsonScanner) skip() ([]byte, error) {
	first := j.peek()
	start, depth := j.pos, 0
	for j.pos < len(j.data) {
		c := j.data[j.pos]
		j.pos++
		switch c {
		case '"':
			j.skipString()
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth > 0 {
			continue
		}
		if depth < 0 {
			break
		}
		switch first {
		case '{', '[', '"':
			return j.data[start:j.pos], nil
		}
		if j.endOfScalar() {
			return j.data[start:j.pos], nil
		}
	}
	return nil, j.errorf("value without end")
}

func (j *jsonScanner) skipString() {
	for j.pos < len(j.data) {
		switch j.data[j.pos] {
		case '"':
			j.pos++
			return
		case '\\':
			j.pos++
		}
		j.pos++
	}
}

func (j *jsonScanner) endOfScalar() bool {
	if j.pos == len(j.data) {
		return true
	}
	switch j.data[j.pos] {
	case ',', ']', '}', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}
