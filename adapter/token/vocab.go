package token

import (
	"hash/maphash"
	"strings"
	"unicode/utf8"
)

// A vocab is the two-way map between ids and tokens. Tokens of byte-level
// models are kept as the bytes that they stand for; all of them lie in one
// block of memory.
type vocab struct {
	bytes  []byte
	spans  []span      // by id; zero length for an id that no token has
	hash   []vocabSlot // by open addressing
	seed   maphash.Seed
	levels bool // the model is byte-level
	count  int

	// respelled are the added tokens that are decoded as something else than
	// their content.
	respelled map[int32]span
}

// A vocabSlot is an id with some bits of its token's hash, which spare most
// looks at tokens that are not meant. The zero slot is empty.
type vocabSlot struct {
	tag uint32
	id1 int32 // id + 1
}

// A span is where a token lies in vocab.bytes. A verbatim token is spelled in
// characters that byte-level models have no byte for (or the model is not
// byte-level): its bytes are its spelling.
type span struct {
	at       uint32
	length   uint32
	verbatim bool
	used     bool
}

// newVocab makes room for n tokens.
func newVocab(n int, byteLevel bool) *vocab {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return &vocab{hash: make([]vocabSlot, size), seed: maphash.MakeSeed(), levels: byteLevel}
}

// add enters a token, spelled as in tokenizer.json. It reports false where the
// token or its id is there already.
func (v *vocab) add(token []byte, id int32) bool {
	var buf [64]byte
	raw, verbatim := v.raw(buf[:0], token)
	slot, ok := v.find(raw, verbatim)
	for int(id) >= len(v.spans) {
		v.spans = append(v.spans, span{})
	}
	if ok || v.spans[id].used {
		return false
	}
	v.spans[id] = span{uint32(len(v.bytes)), uint32(len(raw)), verbatim, true}
	v.bytes = append(v.bytes, raw...)
	*slot = vocabSlot{uint32(maphash.Bytes(v.seed, raw) >> 32), id + 1}
	v.count++
	return true
}

// id returns the id of a token that is spelled as in tokenizer.json.
func (v *vocab) id(token []byte) (int32, bool) {
	var buf [64]byte
	raw, verbatim := v.raw(buf[:0], token)
	return v.lookup(raw, verbatim)
}

// word returns the id of the token that stands for the bytes of s.
func (v *vocab) word(s string) (int32, bool) {
	return v.lookup([]byte(s), !v.levels)
}

func (v *vocab) lookup(raw []byte, verbatim bool) (int32, bool) {
	slot, ok := v.find(raw, verbatim)
	return slot.id1 - 1, ok
}

// find returns the slot that holds a token or that it would go into.
func (v *vocab) find(raw []byte, verbatim bool) (slot *vocabSlot, ok bool) {
	h := maphash.Bytes(v.seed, raw)
	tag, mask := uint32(h>>32), uint64(len(v.hash)-1)
	for i := h & mask; ; i = (i + 1) & mask {
		slot := &v.hash[i]
		if slot.id1 == 0 {
			return slot, false
		}
		if slot.tag != tag {
			continue
		}
		if s := v.spans[slot.id1-1]; s.verbatim == verbatim && string(v.bytes[s.at:s.at+s.length]) == string(raw) {
			return slot, true
		}
	}
}

// of returns the bytes that id is decoded as.
func (v *vocab) of(id int32) (raw []byte, verbatim, ok bool) {
	if id < 0 || int(id) >= len(v.spans) || !v.spans[id].used {
		return nil, false, false
	}
	s := v.spans[id]
	if len(v.respelled) > 0 {
		if r, ok := v.respelled[id]; ok {
			s = r
		}
	}
	return v.bytes[s.at : s.at+s.length], s.verbatim, true
}

// spelled returns id's token as tokenizer.json spells it.
func (v *vocab) spelled(id int32) (string, bool) {
	raw, verbatim, ok := v.of(id)
	if !ok || verbatim {
		return string(raw), ok
	}
	var b strings.Builder
	for _, c := range raw {
		b.WriteRune(byteAlphabet.chars[c])
	}
	return b.String(), true
}

// raw appends to dst the bytes that token stands for.
func (v *vocab) raw(dst, token []byte) (raw []byte, verbatim bool) {
	if v.levels {
		if raw, ok := appendLevelBytes(dst, token); ok {
			return raw, false
		}
	}
	return append(dst, token...), true
}

// appendLevelBytes appends the bytes that token's characters stand for in
// byte-level models. It reports false if one stands for none.
func appendLevelBytes(dst, token []byte) ([]byte, bool) {
	for i := 0; i < len(token); {
		if c := token[i]; c > ' ' && c < 0x7f {
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(token[i:])
		if int(r) >= len(byteAlphabet.bytes) || byteAlphabet.bytes[r] < 0 {
			return nil, false
		}
		dst = append(dst, byte(byteAlphabet.bytes[r]))
		i += n
	}
	return dst, true
}

// byteAlphabet is GPT-2's alphabet of printable characters, one for each byte:
// bytes that print stand for themselves, the others for U+0100 and on.
var byteAlphabet = func() (a struct {
	chars [256]rune
	bytes [256 + 68]int16 // -1: stands for no byte
}) {
	for r := range a.bytes {
		a.bytes[r] = -1
	}
	next := rune(256)
	for b := range a.chars {
		r := rune(b)
		if prints := b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad; !prints {
			r = next
			next++
		}
		a.chars[b], a.bytes[r] = r, int16(b)
	}
	return a
}()

// extend enters an added token that is not in the model's vocabulary: it has
// an id and a spelling, but no word becomes it. It reports false where the id
// is taken.
func (v *vocab) extend(token string, id int32) bool {
	for int(id) >= len(v.spans) {
		v.spans = append(v.spans, span{})
	}
	if v.spans[id].used {
		return false
	}
	v.spans[id] = v.store(token)
	v.count++
	return true
}

// respell makes id decode as token.
func (v *vocab) respell(id int32, token string) {
	if v.respelled == nil {
		v.respelled = make(map[int32]span)
	}
	v.respelled[id] = v.store(token)
}

func (v *vocab) store(token string) span {
	raw, verbatim := v.raw(nil, []byte(token))
	v.bytes = append(v.bytes, raw...)
	return span{uint32(len(v.bytes) - len(raw)), uint32(len(raw)), verbatim, true}
}
