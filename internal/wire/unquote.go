package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote returns the text of a JSON string; ok is false for any other value. It
// takes raw for what a JSON decoder has found valid, and costs a fraction of a
// second decoding: requests are long texts for the most part.
func Unquote(raw []byte) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	if !utf8.Valid(raw) {
		return text, json.Unmarshal(raw, &text) == nil
	}
	s := raw[1 : len(raw)-1]
	at := bytes.IndexByte(s, '\\')
	if at < 0 {
		return string(s), true
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; at >= 0; at = bytes.IndexByte(s, '\\') {
		b.Write(s[:at])
		r, n := escape(s[at:])
		if n == 0 {
			return "", false
		}
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
		} else {
			b.WriteRune(r)
		}
		s = s[at+n:]
	}
	b.Write(s)
	return b.String(), true
}

// escape reads the escape that s begins with and returns its length, 0 for none.
func escape(s []byte) (r rune, n int) {
	if len(s) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, s[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	if r, n = unit(s); n == 0 || !utf16.IsSurrogate(r) {
		return r, n
	}
	if low, _ := unit(s[n:]); utf16.DecodeRune(r, low) != utf8.RuneError {
		return utf16.DecodeRune(r, low), 2 * n
	}
	return utf8.RuneError, n // half a pair, as encoding/json reads it
}

// unit reads \uXXXX.
func unit(s []byte) (rune, int) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, 0
	}
	v, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(v), 6
}
