package adapter

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// checkText refuses a JSON body that holds text no tokenizer takes: bytes that
// are not UTF-8, and halves of surrogate pairs. encoding/json would put U+FFFD
// in their place, and the policy would be given what the client never sent.
func checkText(body []byte) error {
	if !utf8.Valid(body) {
		at := 0
		for at < len(body) {
			r, size := utf8.DecodeRune(body[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return fmt.Errorf("the body is not UTF-8 at byte %d: send text alone", at)
	}
	for at := 0; ; {
		next := bytes.IndexByte(body[at:], '\\')
		if next < 0 {
			return nil
		}
		at += next
		high, ok := escaped(body[at:])
		if !ok || !utf16.IsSurrogate(high) {
			at = min(at+2, len(body))
			continue
		}
		low, ok := escaped(body[min(at+6, len(body)):])
		if !ok || utf16.DecodeRune(high, low) == utf8.RuneError {
			return fmt.Errorf("the body has half a surrogate pair, %s, at byte %d: a text was cut within a character", body[at:at+6], at)
		}
		at += 12
	}
}

// escaped reads the \uXXXX that s begins with.
func escaped(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n), err == nil
}
