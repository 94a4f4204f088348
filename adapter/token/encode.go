package token

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Encode returns the ids of text, without the special tokens that a
// post-processor would add (add_special_tokens=false), as chat templates need
// it. Added tokens that are spelled in text become their ids, whoever wrote
// them. text must be UTF-8, see Check; a run of bytes that are not becomes U+FFFD.
func (t *Tokenizer) Encode(text string) []int32 {
	return t.AppendEncode(make([]int32, 0, len(text)/3+4), text)
}

// AppendEncode appends the ids of text to dst and returns it; see Encode.
func (t *Tokenizer) AppendEncode(dst []int32, text string) []int32 {
	e := t.encodings.Get().(*encoding)
	defer t.encodings.Put(e)
	e.ids = dst
	e.encode(valid(text), 0, nil)
	dst, e.ids = e.ids, nil
	return dst
}

// Check returns an error that names the first byte of text that is not UTF-8.
// Python refuses such text; callers should, too.
func Check(text string) error { return checkFrom(text, 0) }

// checkFrom is Check for a text that is known to be UTF-8 up to from.
func checkFrom(text string, from int) error {
	if utf8.ValidString(text[from:]) {
		return nil
	}
	for i := from; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Errorf("token: text is not UTF-8: byte %#02x at offset %d", text[i], i)
		}
		i += n
	}
	return nil
}

func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// An encoding is the state of one call of AppendEncode.
type encoding struct {
	*Tokenizer
	ids    []int32
	merger merger
	word   []int32
}

// encode appends the ids of text[at:]; at is 0 or the end of an added token.
// For each added token, mark (if not nil) is called with its end in text.
func (e *encoding) encode(text string, at int, mark func(end int)) {
	e.around(e.verbatim, text, at, (*encoding).segment, mark)
}

// segment encodes text that has no added tokens but normalized ones.
func (e *encoding) segment(text string) {
	e.around(e.normalized, e.normalize(text), 0, (*encoding).untokened, nil)
}

// untokened encodes text that has no added tokens.
func (e *encoding) untokened(text string) { e.piece(0, text) }

// around appends the ids of the tokens of set in text[at:] and hands what lies
// between them to between.
func (e *encoding) around(set *tokenSet, text string, at int, between func(*encoding, string), mark func(end int)) {
	done := at // text[:done] is encoded
	for pos := at; ; {
		m, ok := set.next(text, pos)
		if !ok {
			break
		}
		pos = m.end
		start, stop, ok := m.widen(e.chars, text, done)
		if !ok {
			continue
		}
		if done < start {
			between(e, text[done:start])
		}
		e.ids = append(e.ids, m.ID)
		done = stop
		if mark != nil && stop == m.end {
			mark(stop)
		}
	}
	if done < len(text) {
		between(e, text[done:])
	}
}

// piece hands a piece of text to a step of the pre-tokenizer, or to the model
// when there is none left.
func (e *encoding) piece(step int, s string) {
	if step < len(e.steps) {
		e.steps[step].split(e, step, s)
		return
	}
	e.encodeWord(s)
}

// encodeWord appends the ids of a word.
func (e *encoding) encodeWord(s string) {
	if len(s) > cacheLongest {
		e.ids = append(e.ids, e.merge(s)...)
		return
	}
	ids, slot := e.cache.get(e.vocab.seed, s)
	if ids == nil {
		ids = e.merge(s)
		keep(slot, s, ids)
	}
	e.ids = append(e.ids, ids...)
}

// merge returns the ids of a word; they are valid until its next call.
func (e *encoding) merge(s string) []int32 {
	if e.ignoreMerges {
		if id, ok := e.vocab.word(s); ok {
			e.word = append(e.word[:0], id)
			return e.word
		}
	}
	e.word = e.symbols(e.word[:0], s)
	return e.merger.merge(e.word)
}

// symbols appends what s is merged from: its bytes in byte-level models, else
// its characters, those that the model lacks as bytes.
func (e *encoding) symbols(ids []int32, s string) []int32 {
	if e.vocab.levels {
		for i := range len(s) {
			ids = append(ids, e.byteIDs[s[i]])
		}
		return ids
	}
	for i := 0; i < len(s); {
		n := 1
		if s[i] >= utf8.RuneSelf {
			_, n = utf8.DecodeRuneInString(s[i:])
		}
		if id, ok := e.vocab.word(s[i : i+n]); ok {
			ids = append(ids, id)
		} else {
			for _, b := range []byte(s[i : i+n]) {
				ids = append(ids, e.byteIDs[b])
			}
		}
		i += n
	}
	return ids
}
