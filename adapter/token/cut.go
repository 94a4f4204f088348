package token

import "unicode/utf8"

// A cutter is the last step for models that are not byte-level, to which a
// whole segment is one word. It cuts between two characters that stand side by
// side in no token that a merge makes: no merge can join them, and so the ids
// stay the same, while words become short enough to be cached.
type cutter struct {
	bits [cutterBits / 64]uint64 // by the hash of two characters; what is set by chance only costs a cut
}

const cutterBits = 1 << 20

func newCutter() *cutter { return new(cutter) }

// add notes the characters of a token.
func (c *cutter) add(token []byte) {
	if c == nil {
		return
	}
	last := rune(-1)
	for len(token) > 0 {
		r, n := utf8.DecodeRune(token)
		if last >= 0 {
			h := cutterHash(last, r)
			c.bits[h>>6] |= 1 << (h & 63)
		}
		last, token = r, token[n:]
	}
}

func cutterHash(a, b rune) uint64 {
	return (uint64(a)<<21 | uint64(b)) * 0x9E3779B97F4A7C15 >> 44
}

func (c *cutter) split(e *encoding, step int, s string) {
	begin, last := 0, rune(-1)
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		if h := cutterHash(last, r); last >= 0 && c.bits[h>>6]>>(h&63)&1 == 0 {
			e.piece(step+1, s[begin:i])
			begin = i
		}
		last, i = r, i+n
	}
	e.piece(step+1, s[begin:])
}
