package trajectory

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"slices"
)

// A tape is a sequence of token ids that only grows: the first keep ids of
// base, then own. A turn that continues another one's very ids grows the same
// tape; a turn that departs from it starts a tape on top of it.
type tape struct {
	base  *tape
	keep  int
	own   []int32
	state hash.Hash // SHA-256 over the whole tape, ids as little-endian 32 bits
}

// A mark is the first n ids of a tape. The zero mark is the empty sequence.
type mark struct {
	tape *tape
	n    int
}

func (tp *tape) len() int { return tp.keep + len(tp.own) }

// append grows the tape.
func (tp *tape) append(ids []int32) {
	tp.own = append(tp.own, ids...)
	writeIDs(tp.state, ids)
}

// sum returns the hash of all ids so far.
func (tp *tape) sum() (sum [sha256.Size]byte) {
	tp.state.Sum(sum[:0])
	return sum
}

// grow returns the tape that holds the first keep ids of m and then rest: m's
// own where m ends at its end, else a new one.
func (m mark) grow(keep int, rest []int32) *tape {
	if m.tape != nil && keep == m.tape.len() {
		m.tape.append(rest)
		return m.tape
	}
	base := m.tape
	for base != nil && keep <= base.keep {
		base = base.base
	}
	next := &tape{base: base, keep: keep, state: sha256.New()}
	if base != nil {
		mark{base, keep}.each(func(ids []int32) bool { writeIDs(next.state, ids); return true })
	}
	next.append(rest)
	return next
}

// each calls yield with the pieces of m in order until it returns false.
func (m mark) each(yield func([]int32) bool) {
	var pieces [][]int32
	for tp, n := m.tape, m.n; tp != nil && n > 0; tp = tp.base {
		if n > tp.keep {
			pieces = append(pieces, tp.own[:n-tp.keep])
			n = tp.keep
		}
	}
	for _, p := range slices.Backward(pieces) {
		if !yield(p) {
			return
		}
	}
}

// ids returns m as one slice that can't be appended to in place. It is the
// tape's own memory where m is in one piece.
func (m mark) ids() []int32 {
	if m.tape == nil {
		return []int32{}
	}
	if m.tape.keep == 0 {
		return m.tape.own[:m.n:m.n]
	}
	all := make([]int32, 0, m.n)
	m.each(func(ids []int32) bool { all = append(all, ids...); return true })
	return all
}

// commonPrefix returns how many leading ids m and other share.
func (m mark) commonPrefix(other []int32) int {
	n := 0
	m.each(func(ids []int32) bool {
		k := commonPrefix(ids, other[n:])
		n += k
		return k == len(ids)
	})
	return n
}

// commonPrefix compares in blocks first: most prompts share all but their end.
func commonPrefix(a, b []int32) int {
	const block = 256
	limit := min(len(a), len(b))
	n := 0
	for n+block <= limit && slices.Equal(a[n:n+block], b[n:n+block]) {
		n += block
	}
	for n < limit && a[n] == b[n] {
		n++
	}
	return n
}

// writeIDs writes ids to h as little-endian 32 bits.
func writeIDs(h hash.Hash, ids []int32) {
	var buf [512]byte
	for chunk := range slices.Chunk(ids, len(buf)/4) {
		for i, id := range chunk {
			binary.LittleEndian.PutUint32(buf[4*i:], uint32(id))
		}
		h.Write(buf[:4*len(chunk)])
	}
}

// writeFloats writes the bits of v to h as little-endian 32 bits.
func writeFloats(h hash.Hash, v []float32) {
	var buf [512]byte
	for chunk := range slices.Chunk(v, len(buf)/4) {
		for i, f := range chunk {
			binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(f))
		}
		h.Write(buf[:4*len(chunk)])
	}
}

// outputSum hashes what a turn sampled: the ids, the bits of their logprobs
// and the spans of weight versions, counted from the output's begin.
func outputSum(ids []int32, logProbs []float32, versions []Span) (sum [sha256.Size]byte) {
	h := sha256.New()
	writeIDs(h, ids)
	writeFloats(h, logProbs)
	for _, s := range versions {
		writeIDs(h, []int32{int32(s.From), int32(s.To)})
		h.Write(append([]byte(s.Version), 0))
	}
	h.Sum(sum[:0])
	return sum
}

// PromptHash is the hash by which a proof names the ids of a prompt: the
// SHA-256 of the ids as little-endian 32-bit integers, in lower-case hex.
func PromptHash(ids []int32) string {
	h := sha256.New()
	writeIDs(h, ids)
	return hex.EncodeToString(h.Sum(nil))
}
