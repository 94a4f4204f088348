package token

import (
	_ "embed"
	"encoding/binary"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A class is a set of character classes as the reference's regex engine has
// them (Unicode 16); Go's own tables are of another version of Unicode.
type class uint16

const (
	classLu class = 1 << iota
	classLl
	classLt
	classLm
	classLo
	classM
	classNd
	classN
	classP
	classS
	classSpace
	classHan
	classWord // \w of Rust's regex crate, which single_word is decided by
	classNL   // \r and \n

	classL = classLu | classLl | classLt | classLm | classLo
)

//go:generate go run maketables.go CLASSES.json.gz NFC.json.gz

//go:embed unicode.bin
var unicodeBin string

// unicodeTables are the tables of unicode.bin, unpacked at their first use.
var unicodeTables = sync.OnceValue(func() *charTables {
	r := tableReader(unicodeBin)
	t := &charTables{ascii: [utf8.RuneSelf]class{}}
	t.readClasses(&r)
	t.nfc.read(&r)
	return t
})

// charTables map code points to classes, in two stages: blocks of 256 code
// points, equal ones stored once.
type charTables struct {
	ascii  [utf8.RuneSelf]class
	index  [(unicode.MaxRune + 1) >> 8]uint16
	blocks [][256]class
	nfc    nfcTables
}

// of returns r's classes.
func (t *charTables) of(r rune) class {
	return t.blocks[t.index[r>>8]][r&0xff]
}

// at returns the classes and the length of the character at s[i:], which must
// not be empty.
func (t *charTables) at(s string, i int) (class, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return t.ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return t.of(r), n
}

// run returns the end of the characters of s from i on that are in one of the
// classes of in and in none of those of out.
func (t *charTables) run(s string, i int, in, out class) int {
	for i < len(s) {
		k, n := t.at(s, i)
		if k&in == 0 || k&out != 0 {
			return i
		}
		i += n
	}
	return i
}

// runNot returns the end of the characters of s from i on that are in none of
// the classes of out.
func (t *charTables) runNot(s string, i int, out class) int {
	for i < len(s) {
		k, n := t.at(s, i)
		if k&out != 0 {
			return i
		}
		i += n
	}
	return i
}

func (t *charTables) readClasses(r *tableReader) {
	var flat [unicode.MaxRune + 1]class
	c := 0
	for range r.uint() {
		n, k := r.uint(), class(r.uint())
		for range n {
			flat[c] = k
			c++
		}
	}
	flat['\r'] |= classNL
	flat['\n'] |= classNL
	copy(t.ascii[:], flat[:])
	seen := make(map[[256]class]uint16)
	for b := range t.index {
		block := [256]class(flat[b<<8:])
		i, ok := seen[block]
		if !ok {
			i = uint16(len(t.blocks))
			seen[block] = i
			t.blocks = append(t.blocks, block)
		}
		t.index[b] = i
	}
}

// A tableReader reads unicode.bin, which maketables.go writes.
type tableReader string

func (r *tableReader) uint() int {
	v, n := binary.Uvarint([]byte((*r)[:min(len(*r), binary.MaxVarintLen64)]))
	*r = (*r)[n:]
	return int(v)
}

func (r *tableReader) byte() byte {
	b := (*r)[0]
	*r = (*r)[1:]
	return b
}
