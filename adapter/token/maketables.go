//go:build ignore

// This program makes unicode.bin from the character classes and the
// normalisation tables that were read out of the reference implementation:
//
//	go run maketables.go CLASSES.json.gz NFC.json.gz
//
// The classes file maps the name of a class to its ranges of code points. The
// normalisation file holds "dec" (full canonical decompositions), "ccc"
// (combining classes) and "nfcs" (code points that are not their own NFC form).
package main

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
	"unicode"
)

// The classes of a code point, one bit each, in the order of the constants in
// classes.go. Word is the \w of Rust's regex crate, which decides single_word;
// it is put together below.
var bits = []string{`\p{Lu}`, `\p{Ll}`, `\p{Lt}`, `\p{Lm}`, `\p{Lo}`, `\p{M}`, `\p{Nd}`, `\p{N}`, `\p{P}`, `\p{S}`, `\s`, `\p{Han}`}

const word = 1 << 12

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: go run maketables.go CLASSES.json.gz NFC.json.gz")
	}
	var classes map[string][][2]rune
	read(os.Args[1], &classes)
	var nfc struct {
		Dec, NFCs map[string][]rune
		CCC       map[string]byte
	}
	read(os.Args[2], &nfc)

	out := appendClasses(nil, classes)
	out = appendCCC(out, nfc.CCC)
	out = appendDecompositions(out, nfc.Dec, nfc.NFCs)
	if err := os.WriteFile("unicode.bin", out, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(out), "bytes")
}

func read(path string, v any) {
	f, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(v); err != nil {
		log.Fatal(err)
	}
}

// appendClasses writes the classes as runs: length, bits, ….
func appendClasses(out []byte, classes map[string][][2]rune) []byte {
	table := make([]uint16, unicode.MaxRune+1)
	for i, name := range bits {
		if classes[name] == nil {
			log.Fatalf("no class %s", name)
		}
		for _, r := range classes[name] {
			for c := r[0]; c <= r[1]; c++ {
				table[c] |= 1 << i
			}
		}
	}
	for c := range table {
		if isWord(rune(c), table[c]) {
			table[c] |= word
		}
	}
	var runs []byte
	count := 0
	for i := 0; i < len(table); count++ {
		j := i
		for j < len(table) && table[j] == table[i] {
			j++
		}
		runs = binary.AppendUvarint(runs, uint64(j-i))
		runs = binary.AppendUvarint(runs, uint64(table[i]))
		i = j
	}
	return append(binary.AppendUvarint(out, uint64(count)), runs...)
}

// isWord says whether c is Alphabetic, a mark, a decimal digit, a connector or
// a join control. Outside letters and marks, Alphabetic has only the letter
// numbers and the circled and squared letters, alike in Unicode 15 and 16.
func isWord(c rune, bits uint16) bool {
	const letterMarkDigit = 0x7f
	return bits&letterMarkDigit != 0 || unicode.In(c, unicode.Nl, unicode.Other_Alphabetic, unicode.Pc, unicode.Join_Control)
}

func appendCCC(out []byte, ccc map[string]byte) []byte {
	classes := byCodePoint(ccc)
	out = binary.AppendUvarint(out, uint64(len(classes)))
	for _, c := range slices.Sorted(maps.Keys(classes)) {
		out = binary.AppendUvarint(out, uint64(c))
		out = append(out, classes[c])
	}
	return out
}

// appendDecompositions writes code point, length<<1 | excluded, decomposition.
// Hangul syllables are computed, not tabled.
func appendDecompositions(out []byte, dec, excluded map[string][]rune) []byte {
	table, not := byCodePoint(dec), byCodePoint(excluded)
	maps.DeleteFunc(table, func(c rune, _ []rune) bool { return c >= 0xAC00 && c < 0xAC00+11172 })
	out = binary.AppendUvarint(out, uint64(len(table)))
	for _, c := range slices.Sorted(maps.Keys(table)) {
		head := uint64(len(table[c])) << 1
		if not[c] != nil {
			head |= 1
		}
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(c)), head)
		for _, d := range table[c] {
			out = binary.AppendUvarint(out, uint64(d))
		}
	}
	return out
}

func byCodePoint[V any](m map[string]V) map[rune]V {
	out := make(map[rune]V, len(m))
	for k, v := range m {
		c, err := strconv.Atoi(k)
		if err != nil {
			log.Fatal(err)
		}
		out[rune(c)] = v
	}
	return out
}
