package trajectory

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// pythonEqual reports whether two messages are equal as the seeds' system
// compares them: dictionaries, with the arguments of calls as values.
func pythonEqual(a, b *chat.Message) bool {
	return a.Role == b.Role && a.Content == b.Content && a.Reasoning == b.Reasoning &&
		equalCalls(a.ToolCalls, b.ToolCalls, python)
}

// jsonEqual is pythonEqual with JSON's own types: true is not 1.
func jsonEqual(a, b *chat.Message) bool {
	return a.Role == b.Role && a.Content == b.Content && a.Reasoning == b.Reasoning &&
		equalCalls(a.ToolCalls, b.ToolCalls, strict)
}

func equalCalls(a, b []chat.ToolCall, lang language) bool {
	return slices.EqualFunc(a, b, func(a, b chat.ToolCall) bool {
		return a.Name == b.Name && equalValues(a.Arguments, b.Arguments, lang)
	})
}

// equalValues compares two JSON texts as values; what is not JSON equals only itself.
func equalValues(a, b json.RawMessage, lang language) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if !json.Valid(a) || !json.Valid(b) {
		return false
	}
	return bytes.Equal(normalForm(a, lang), normalForm(b, lang))
}

// A language says when two numbers or truth values are the same.
type language int

const (
	strict     language = iota // numbers by exact value
	python                     // and true is 1, false is 0
	javascript                 // numbers as float64
)

// normalForm returns bytes that two valid JSON texts share exactly when they
// are equal in lang: keys sorted, the last of equal keys wins, strings without
// escapes (lone surrogates kept apart), numbers by value.
func normalForm(raw json.RawMessage, lang language) []byte {
	r := valueReader{in: raw, lang: lang}
	return r.value(nil)
}

// A valueReader reads one JSON text that is known to be valid.
type valueReader struct {
	in   []byte
	at   int
	lang language
}

func (r *valueReader) space() {
	for r.at < len(r.in) && (r.in[r.at] == ' ' || r.in[r.at] == '\t' || r.in[r.at] == '\n' || r.in[r.at] == '\r') {
		r.at++
	}
}

// peek returns the next byte that is not white space.
func (r *valueReader) peek() byte {
	r.space()
	return r.in[r.at]
}

// value appends the normal form of the next value to dst.
func (r *valueReader) value(dst []byte) []byte {
	switch c := r.peek(); c {
	case '{':
		return r.object(dst)
	case '[':
		return r.array(dst)
	case '"':
		return appendText(dst, r.text())
	case 't', 'f', 'n':
		return r.word(dst, c)
	default:
		return r.number(dst)
	}
}

func (r *valueReader) word(dst []byte, c byte) []byte {
	if c == 'f' {
		r.at += len("false")
	} else {
		r.at += len("true") // and null
	}
	if r.lang == python && c == 't' {
		return append(dst, "#1;"...)
	}
	if r.lang == python && c == 'f' {
		return append(dst, "#0;"...)
	}
	return append(dst, c)
}

func (r *valueReader) object(dst []byte) []byte {
	r.at++
	members := map[string][]byte{}
	for r.peek() != '}' {
		if r.in[r.at] == ',' {
			r.at++
			r.space()
		}
		key := string(r.text())
		r.peek()
		r.at++ // the colon
		members[key] = r.value(nil)
	}
	r.at++
	keys := make([]string, 0, len(members))
	for k := range members {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for _, k := range keys {
		dst = append(appendText(dst, []byte(k)), members[k]...)
	}
	return append(dst, '}')
}

func (r *valueReader) array(dst []byte) []byte {
	r.at++
	dst = append(dst, '[')
	for r.peek() != ']' {
		if r.in[r.at] == ',' {
			r.at++
		}
		dst = r.value(dst)
	}
	r.at++
	return append(dst, ']')
}

// text reads a string without its escapes. A lone surrogate stays one, in
// three bytes that no UTF-8 text holds.
func (r *valueReader) text() []byte {
	r.at++
	var s []byte
	for r.in[r.at] != '"' {
		if r.in[r.at] != '\\' {
			s = append(s, r.in[r.at])
			r.at++
			continue
		}
		s = r.escape(s)
	}
	r.at++
	return s
}

func (r *valueReader) escape(s []byte) []byte {
	c := r.in[r.at+1]
	r.at += 2
	switch c {
	case 'b':
		return append(s, '\b')
	case 'f':
		return append(s, '\f')
	case 'n':
		return append(s, '\n')
	case 'r':
		return append(s, '\r')
	case 't':
		return append(s, '\t')
	case 'u':
		return r.codePoint(s)
	default:
		return append(s, c)
	}
}

func (r *valueReader) codePoint(s []byte) []byte {
	unit := r.hex(r.at)
	r.at += 4
	if utf16.IsSurrogate(unit) && r.at+6 <= len(r.in) && r.in[r.at] == '\\' && r.in[r.at+1] == 'u' {
		if pair := utf16.DecodeRune(unit, r.hex(r.at+2)); pair != utf8.RuneError {
			r.at += 6
			return utf8.AppendRune(s, pair)
		}
	}
	if utf16.IsSurrogate(unit) {
		return append(s, 0xE0|byte(unit>>12), 0x80|byte(unit>>6&0x3F), 0x80|byte(unit&0x3F))
	}
	return utf8.AppendRune(s, unit)
}

func (r *valueReader) hex(at int) rune {
	n, _ := strconv.ParseUint(string(r.in[at:at+4]), 16, 32) // valid JSON: four hex digits
	return rune(n)
}

func (r *valueReader) number(dst []byte) []byte {
	from := r.at
	for r.at < len(r.in) && bytes.IndexByte([]byte("+-0123456789.eE"), r.in[r.at]) >= 0 {
		r.at++
	}
	return append(append(append(dst, '#'), numberForm(string(r.in[from:r.at]), r.lang)...), ';')
}

// numberForm spells a number by its value: integers of any size exactly,
// others as the nearest float64, and a float64 that is whole as that integer.
func numberForm(lit string, lang language) string {
	if whole, ok := new(big.Int).SetString(lit, 10); ok && lang != javascript {
		return whole.String()
	}
	f, _ := strconv.ParseFloat(lit, 64) // out of range is an infinity, as in Python and JavaScript
	if math.IsInf(f, 0) || f != math.Trunc(f) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	whole, _ := big.NewFloat(f).Int(nil)
	return whole.String()
}

// appendText writes s with its length, so that no text can look like two.
func appendText(dst, s []byte) []byte {
	dst = append(strconv.AppendInt(append(dst, '"'), int64(len(s)), 10), ':')
	return append(dst, s...)
}
