package token

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// Bounds of a wordCache: number of words, and length of a word in bytes.
const (
	cacheSlots   = 1 << 16
	cacheLongest = 48
)

// A wordCache remembers the ids of words. A word has one slot, which another
// word may take at any time; readers and writers need no lock.
type wordCache struct {
	slots [cacheSlots]atomic.Pointer[cachedWord]
}

type cachedWord struct {
	word string
	ids  []int32
}

// get returns the ids of a word, nil if it is not there, and the word's slot.
func (c *wordCache) get(seed maphash.Seed, word string) ([]int32, *atomic.Pointer[cachedWord]) {
	slot := &c.slots[maphash.String(seed, word)%cacheSlots]
	if w := slot.Load(); w != nil && w.word == word {
		return w.ids, slot
	}
	return nil, slot
}

// keep puts a copy of a word and its ids into its slot.
func keep(slot *atomic.Pointer[cachedWord], word string, ids []int32) {
	slot.Store(&cachedWord{strings.Clone(word), append([]int32(nil), ids...)})
}
