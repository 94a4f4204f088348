package token

import "math"

// A pairTable holds the merges: pairs of ids with the rank of their merge and
// the id that it makes, by open addressing.
type pairTable struct {
	slots []merge
	shift uint
}

type merge struct {
	pair uint64 // left id + 1 in the upper half, right id in the lower; 0 for an empty slot
	rank uint32
	id   int32
}

// noRank is the rank of a pair that does not merge.
const noRank = math.MaxUint32

func newPairTable(n int) *pairTable {
	bits := uint(4)
	for 1<<bits < n*3/2 {
		bits++
	}
	return &pairTable{slots: make([]merge, 1<<bits), shift: 64 - bits}
}

// put enters a merge; of two merges of one pair the later counts.
func (t *pairTable) put(a, b int32, rank uint32, id int32) {
	*t.slot(a, b) = merge{pairKey(a, b), rank, id}
}

// get returns the rank of the merge of a and b, noRank for none, and its id.
func (t *pairTable) get(a, b int32) (rank uint32, id int32) {
	if m := t.slot(a, b); m.pair != 0 {
		return m.rank, m.id
	}
	return noRank, 0
}

func (t *pairTable) slot(a, b int32) *merge {
	key := pairKey(a, b)
	mask := uint64(len(t.slots) - 1)
	for i := (key * 0x9E3779B97F4A7C15) >> t.shift; ; i = (i + 1) & mask {
		if m := &t.slots[i]; m.pair == key || m.pair == 0 {
			return m
		}
	}
}

func pairKey(a, b int32) uint64 { return uint64(a+1)<<32 | uint64(uint32(b)) }

// shortWord is the number of symbols up to which a word is merged in an array
// that is searched anew for each merge. Longer ones need a heap.
const shortWord = 48

// A merger merges the symbols of words. It belongs to one encoding at a time.
type merger struct {
	pairs   *pairTable
	symbols []symbol
	heap    mergeHeap
}

// A symbol is part of a word that is being merged. Symbols that were merged
// into the one before have no id.
type symbol struct {
	id         int32
	prev, next int32
}

// merge merges ids, the lowest rank first and of equal ones the leftmost, and
// returns what is left. It works in place.
func (m *merger) merge(ids []int32) []int32 {
	if len(ids) < 2 {
		return ids
	}
	if len(ids) <= shortWord {
		return m.mergeShort(ids)
	}
	return m.mergeLong(ids)
}

func (m *merger) mergeShort(ids []int32) []int32 {
	var ranks [shortWord]uint32 // of the pair that begins at a symbol
	var merged [shortWord]int32
	n := len(ids)
	for i := 0; i+1 < n; i++ {
		ranks[i], merged[i] = m.pairs.get(ids[i], ids[i+1])
	}
	for n > 1 {
		best := 0
		for i := 1; i < n-1; i++ {
			if ranks[i] < ranks[best] {
				best = i
			}
		}
		if ranks[best] == noRank {
			break
		}
		ids[best] = merged[best]
		n--
		for i := best + 1; i < n; i++ {
			ids[i], ranks[i], merged[i] = ids[i+1], ranks[i+1], merged[i+1]
		}
		if best > 0 {
			ranks[best-1], merged[best-1] = m.pairs.get(ids[best-1], ids[best])
		}
		if best < n-1 {
			ranks[best], merged[best] = m.pairs.get(ids[best], ids[best+1])
		}
	}
	return ids[:n]
}

func (m *merger) mergeLong(ids []int32) []int32 {
	m.symbols, m.heap = m.symbols[:0], m.heap[:0]
	for i, id := range ids {
		m.symbols = append(m.symbols, symbol{id, int32(i) - 1, int32(i) + 1})
	}
	m.symbols[len(ids)-1].next = -1
	for i := 0; i+1 < len(ids); i++ {
		if rank, id := m.pairs.get(ids[i], ids[i+1]); rank != noRank {
			m.heap = append(m.heap, candidate{rank, int32(i), ids[i], ids[i+1], id})
		}
	}
	m.heap.init()
	for len(m.heap) > 0 {
		m.apply(m.heap.pop())
	}
	out := ids[:0]
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		out = append(out, m.symbols[i].id)
	}
	return out
}

// apply does the merge that c proposes, unless one of its symbols was merged
// in the meantime, and proposes those that it makes possible.
func (m *merger) apply(c candidate) {
	left := &m.symbols[c.at]
	if left.id != c.left || left.next < 0 || m.symbols[left.next].id != c.right {
		return
	}
	right := &m.symbols[left.next]
	left.id, left.next, right.id = c.id, right.next, -1
	if left.next >= 0 {
		m.symbols[left.next].prev = c.at
		m.propose(c.at, left.next)
	}
	if left.prev >= 0 {
		m.propose(left.prev, c.at)
	}
}

func (m *merger) propose(i, j int32) {
	a, b := m.symbols[i].id, m.symbols[j].id
	if rank, id := m.pairs.get(a, b); rank != noRank {
		m.heap.push(candidate{rank, i, a, b, id})
	}
}

// A candidate is a merge that was possible when it was proposed.
type candidate struct {
	rank            uint32
	at              int32
	left, right, id int32
}

// A mergeHeap is a binary heap of candidates, lowest rank first, then leftmost.
type mergeHeap []candidate

func (h mergeHeap) less(i, j int) bool {
	return h[i].rank < h[j].rank || h[i].rank == h[j].rank && h[i].at < h[j].at
}

func (h mergeHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *mergeHeap) push(c candidate) {
	*h = append(*h, c)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.less(i, up) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *mergeHeap) pop() candidate {
	s := *h
	top, end := s[0], len(s)-1
	s[0] = s[end]
	*h = s[:end]
	h.down(0)
	return top
}

func (h mergeHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
