package sglangtest

// A prefixCache knows which prefixes of token ids were computed, page by page,
// as a radix cache does. It keeps a hash for each page's prefix and never
// evicts.
type prefixCache struct {
	page  int
	known map[uint64]struct{}
}

func (c *prefixCache) init(page int) {
	c.page, c.known = page, map[uint64]struct{}{}
}

// match returns how many leading tokens of ids are known.
func (c *prefixCache) match(ids []int32) int {
	hash, n := uint64(seed), 0
	for i, id := range ids {
		hash = mix(hash, id)
		if (i+1)%c.page != 0 {
			continue
		}
		if _, ok := c.known[hash]; !ok {
			break
		}
		n = i + 1
	}
	return n
}

// add makes the prompt with its output known.
func (c *prefixCache) add(prompt, output []int32) {
	hash, n := uint64(seed), 0
	for _, part := range [2][]int32{prompt, output} {
		for _, id := range part {
			hash = mix(hash, id)
			if n++; n%c.page == 0 {
				c.known[hash] = struct{}{}
			}
		}
	}
}

const seed = 14695981039346656037

// mix adds an id to the hash of those before it.
func mix(hash uint64, id int32) uint64 {
	hash ^= uint64(uint32(id)) + 0x9e3779b97f4a7c15
	hash *= 1099511628211
	return hash ^ hash>>29
}
