package token

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A decoder joins tokens, spelled as in tokenizer.json, to text. nil puts a
// space between them.
type decoder []decodeStep

// A decodeStep changes a list of tokens into another.
type decodeStep func(tokens []string) []string

// Decode returns the text of ids, special tokens included
// (skip_special_tokens=false). An id that no token has is left out. What is
// not UTF-8 becomes U+FFFD: with a ByteLevel decoder one for each maximal part
// of a character, with ByteFallback one for each byte. No spaces are cleaned
// up, whatever clean_up_tokenization_spaces says: that would change code.
func (t *Tokenizer) Decode(ids []int32) string {
	if t.decoder == nil {
		return t.decodeBytes(ids)
	}
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if token, ok := t.vocab.spelled(id); ok {
			tokens = append(tokens, token)
		}
	}
	for _, step := range t.decoder {
		tokens = step(tokens)
	}
	return strings.Join(tokens, "")
}

// decodeBytes is Decode for byte-level vocabularies with a ByteLevel decoder.
func (t *Tokenizer) decodeBytes(ids []int32) string {
	out := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		raw, _, _ := t.vocab.of(id)
		out = append(out, raw...)
	}
	return lossy(out)
}

// lossy makes text of bytes, as Rust's from_utf8_lossy does: U+FFFD for each
// maximal part of a character that does not become one.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = partLen(b)
			out.WriteRune(utf8.RuneError)
		} else {
			out.Write(b[:n])
		}
		b = b[n:]
	}
	return out.String()
}

// partLen returns the length of the longest beginning of b that some character
// begins with, at least 1. b does not begin with a character.
func partLen(b []byte) int {
	n := 1
	for n < len(b) && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}

// decoder returns what a decoder does, step by step; nil for ByteLevel alone
// over a byte-level vocabulary.
func (c *component) decoder(v *vocab) (decoder, error) {
	if c == nil {
		return decoder{func(tokens []string) []string { return []string{strings.Join(tokens, " ")} }}, nil
	}
	parts := []component{*c}
	if c.Type == "Sequence" {
		parts = c.Decoders
	}
	if len(parts) == 1 && parts[0].Type == "ByteLevel" && v.levels {
		return nil, nil
	}
	steps := decoder{}
	for i := range parts {
		step, err := parts[i].decodeStep()
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func (c *component) decodeStep() (decodeStep, error) {
	switch c.Type {
	case "ByteLevel":
		return decodeLevels, nil
	case "ByteFallback":
		return decodeFallback, nil
	case "Fuse":
		return func(tokens []string) []string { return []string{strings.Join(tokens, "")} }, nil
	case "Replace":
		from, to, err := c.replacement()
		return each(replace{from, to}.normalize), err
	case "Strip":
		if c.Content == nil || utf8.RuneCountInString(*c.Content) != 1 {
			return nil, fmt.Errorf("%s without a character", c.Type)
		}
		return each(stripper(*c.Content, c.Start, c.Stop)), nil
	}
	return nil, fmt.Errorf("type %q is not known", c.Type)
}

func each(f func(string) string) decodeStep {
	return func(tokens []string) []string {
		for i := range tokens {
			tokens[i] = f(tokens[i])
		}
		return tokens
	}
}

// stripper takes up to start characters c off the beginning and stop off the end.
func stripper(c string, start, stop int) func(string) string {
	return func(s string) string {
		for n := 0; n < start && strings.HasPrefix(s, c); n++ {
			s = s[len(c):]
		}
		for n := 0; n < stop && strings.HasSuffix(s, c); n++ {
			s = s[:len(s)-len(c)]
		}
		return s
	}
}

func decodeLevels(tokens []string) []string {
	var out []byte
	for _, token := range tokens {
		raw, ok := appendLevelBytes(nil, []byte(token))
		if !ok {
			raw = []byte(token)
		}
		out = append(out, raw...)
	}
	return []string{lossy(out)}
}

// decodeFallback joins runs of byte tokens, <0x00> to <0xFF>.
func decodeFallback(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		if utf8.Valid(run) {
			out = append(out, string(run))
		} else {
			out = append(out, strings.Repeat("\uFFFD", len(run)))
		}
		run = run[:0]
	}
	for _, token := range tokens {
		if b, ok := fallbackByte(token); ok {
			run = append(run, b)
			continue
		}
		if len(run) > 0 {
			flush()
		}
		out = append(out, token)
	}
	if len(run) > 0 {
		flush()
	}
	return out
}

func fallbackByte(token string) (byte, bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}
