package token

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Encoder encodes a text that grows or changes a little from call to call,
// as the rendered history of a session does. Its ids are always those of
// Tokenizer.Encode; its cost is that of what changed, from the last added token
// before the change on. It holds the last text and its ids, 4 bytes an id.
//
// An Encoder is for one history; histories in turn cost a full encoding each.
// It is not safe for concurrent use.
type Encoder struct {
	// Verify compares each result with that of a full encoding, at its cost,
	// and makes a difference an error. It is meant for finding faults of this
	// package.
	Verify bool

	tokenizer *Tokenizer
	text      string
	ids       []int32
	marks     []mark
}

// A mark is a place behind an added token, from which encoding can start anew.
type mark struct{ text, ids int }

// ErrVerify is returned by Encoders that verify, when a result is wrong.
var ErrVerify = errors.New("token: incremental ids differ from those of a full encoding")

// NewEncoder returns an Encoder that has seen no text yet.
func (t *Tokenizer) NewEncoder() *Encoder { return &Encoder{tokenizer: t} }

// Encode returns the ids of text; the caller owns them. It refuses text that
// is not UTF-8, see Check.
func (e *Encoder) Encode(text string) ([]int32, error) { return e.AppendEncode(nil, text) }

// AppendEncode appends the ids of text to dst and returns it; see Encode.
func (e *Encoder) AppendEncode(dst []int32, text string) ([]int32, error) {
	from := e.rewind(text)
	if err := checkFrom(text, from.text); err != nil {
		return dst, err
	}
	enc := e.tokenizer.encodings.Get().(*encoding)
	defer e.tokenizer.encodings.Put(enc)
	enc.ids = e.ids[:from.ids]
	enc.encode(text, from.text, func(end int) {
		e.marks = append(e.marks, mark{end, len(enc.ids)})
	})
	e.text, e.ids, enc.ids = text, enc.ids, nil
	if e.Verify && !slices.Equal(e.ids, e.tokenizer.Encode(text)) {
		*e = Encoder{Verify: true, tokenizer: e.tokenizer}
		return dst, ErrVerify
	}
	return append(dst, e.ids...), nil
}

// rewind forgets what cannot be kept for text and returns where to go on. It
// leaves the encoder in the state of having seen the text up to there.
func (e *Encoder) rewind(text string) mark {
	// Up to a mark, everything was decided by characters that lie before it or
	// that a longer added token, or the character after one, could reach.
	reach := e.tokenizer.verbatim.longest + utf8.UTFMax
	last := commonPrefix(e.text, text) - reach
	keep, _ := slices.BinarySearchFunc(e.marks, last+1, func(m mark, at int) int { return m.text - at })
	e.marks = e.marks[:keep]
	var m mark
	if keep > 0 {
		m = e.marks[keep-1]
	}
	e.text, e.ids = e.text[:m.text], e.ids[:m.ids]
	return m
}

// commonPrefix returns the length of the longest common prefix of a and b.
func commonPrefix(a, b string) int {
	if strings.HasPrefix(b, a) {
		return len(a)
	}
	n := min(len(a), len(b))
	const block = 1 << 10
	i := 0
	for i+block <= n && a[i:i+block] == b[i:i+block] {
		i += block
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
