package token

import (
	"slices"
	"unicode/utf8"
)

// nfcTables are the normalisation tables of the reference. They are older than
// those of its regex engine, and so NFC here is neither Go's nor Unicode 16's.
type nfcTables struct {
	ccc      map[rune]byte
	dec      map[rune][]rune
	compose  map[[2]rune]rune
	unstable [(utf8.MaxRune + 1) / 64]uint64 // bitmap: code points that NFC may change, move or join to the one before
}

// Hangul syllables are composed by arithmetic (the Unicode Standard, 3.12).
const (
	hangulL, hangulV, hangulT, hangulS = 0x1100, 0x1161, 0x11A7, 0xAC00
	hangulLs, hangulVs, hangulTs       = 19, 21, 28
	hangulSs                           = hangulLs * hangulVs * hangulTs
)

func (t *nfcTables) read(r *tableReader) {
	t.ccc, t.dec, t.compose = make(map[rune]byte), make(map[rune][]rune), make(map[[2]rune]rune)
	for range r.uint() {
		c := rune(r.uint())
		t.ccc[c] = r.byte()
		t.mark(c)
	}
	whole := make(map[string]rune) // decomposition → the character that composes back to it
	for range r.uint() {
		c, head := rune(r.uint()), r.uint()
		dec := make([]rune, head>>1)
		for i := range dec {
			dec[i] = rune(r.uint())
		}
		t.dec[c] = dec
		if head&1 != 0 {
			t.mark(c)
		} else {
			whole[string(dec)] = c
		}
	}
	for s, c := range whole {
		dec := []rune(s)
		first, last := dec[0], dec[len(dec)-1]
		if len(dec) > 2 {
			first = whole[string(dec[:len(dec)-1])]
		}
		t.compose[[2]rune{first, last}] = c
		t.mark(last)
	}
	for c := rune(hangulV); c < hangulV+hangulVs; c++ {
		t.mark(c)
	}
	for c := rune(hangulT + 1); c < hangulT+hangulTs; c++ {
		t.mark(c)
	}
}

func (t *nfcTables) mark(c rune)          { t.unstable[c>>6] |= 1 << (c & 63) }
func (t *nfcTables) isStable(c rune) bool { return t.unstable[c>>6]>>(c&63)&1 == 0 }

// normalize returns s in NFC. It copies s only where s changes.
func (t *nfcTables) normalize(s string) string {
	var out []byte
	done := 0    // s[:done] is in out
	starter := 0 // where the last stable character began
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			starter = i
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if t.isStable(r) {
			starter = i
			i += n
			continue
		}
		end := i + n
		for end < len(s) {
			r, n := utf8.DecodeRuneInString(s[end:])
			if t.isStable(r) {
				break
			}
			end += n
		}
		out = append(out, s[done:starter]...)
		out = t.appendSpan(out, s[starter:end])
		done, starter, i = end, end, end
	}
	if done == 0 {
		return s
	}
	return string(append(out, s[done:]...))
}

// appendSpan appends the NFC form of a span that nothing around it can change.
func (t *nfcTables) appendSpan(out []byte, span string) []byte {
	rs := t.decompose(make([]rune, 0, 32), span)
	t.order(rs)
	for _, r := range t.recompose(rs) {
		out = utf8.AppendRune(out, r)
	}
	return out
}

func (t *nfcTables) decompose(rs []rune, span string) []rune {
	for _, r := range span {
		if s := r - hangulS; s >= 0 && s < hangulSs {
			rs = append(rs, hangulL+s/(hangulVs*hangulTs), hangulV+s%(hangulVs*hangulTs)/hangulTs)
			if s%hangulTs != 0 {
				rs = append(rs, hangulT+s%hangulTs)
			}
			continue
		}
		if dec, ok := t.dec[r]; ok {
			rs = append(rs, dec...)
			continue
		}
		rs = append(rs, r)
	}
	return rs
}

// order sorts each run of combining marks by class, equal ones as they came.
func (t *nfcTables) order(rs []rune) {
	for i := 0; i < len(rs); i++ {
		if t.ccc[rs[i]] == 0 {
			continue
		}
		j := i
		for j < len(rs) && t.ccc[rs[j]] != 0 {
			j++
		}
		slices.SortStableFunc(rs[i:j], func(a, b rune) int { return int(t.ccc[a]) - int(t.ccc[b]) })
		i = j
	}
}

// recompose joins each starter with the marks after it that are not blocked.
// It works in place.
func (t *nfcTables) recompose(rs []rune) []rune {
	out := rs[:0]
	starter, last := -1, -1 // index of the starter in out; class of what came after it, -1 for nothing
	for _, r := range rs {
		class := int(t.ccc[r])
		if starter >= 0 && last < class {
			if c, ok := t.pair(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		if class == 0 {
			starter, last = len(out), -1
		} else {
			last = class
		}
		out = append(out, r)
	}
	return out
}

// pair returns the character that a and b compose to.
func (t *nfcTables) pair(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < hangulLs && v >= 0 && v < hangulVs {
		return hangulS + (l*hangulVs+v)*hangulTs, true
	}
	if s, tail := a-hangulS, b-hangulT; s >= 0 && s < hangulSs && s%hangulTs == 0 && tail > 0 && tail < hangulTs {
		return a + tail, true
	}
	c, ok := t.compose[[2]rune{a, b}]
	return c, ok
}
