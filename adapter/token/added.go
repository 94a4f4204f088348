package token

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// An AddedToken is a token that is found in text before anything else, with
// its flags as in tokenizer.json.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // not beside a word character
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // is found in normalized text
	Special    bool   `json:"special"`     // left out by decoders that skip special tokens
}

// A tokenSet finds added tokens in text: the leftmost, and of those that begin
// there the longest.
type tokenSet struct {
	tokens  []AddedToken
	nodes   []trieNode
	first   [256]bool
	only    byte // the one byte that they all begin with, if oneByte
	oneByte bool
	longest int
}

type trieNode struct {
	token int32 // index of the token that ends here, -1 for none
	edges []trieEdge
}

type trieEdge struct {
	b  byte
	to int32
}

// newTokenSet makes a set of tokens that are spelled in text as spell says. Of
// two with one spelling the first counts.
func newTokenSet(tokens []AddedToken, spell func(string) string) *tokenSet {
	s := &tokenSet{tokens: tokens, nodes: []trieNode{{token: -1}}}
	for i, t := range tokens {
		s.insert(spell(t.Content), int32(i))
	}
	starts := s.nodes[0].edges
	for _, e := range starts {
		s.first[e.b] = true
	}
	if len(starts) == 1 {
		s.only, s.oneByte = starts[0].b, true
	}
	return s
}

func (s *tokenSet) insert(text string, token int32) {
	if text == "" {
		return
	}
	s.longest = max(s.longest, len(text))
	at := int32(0)
	for i := range len(text) {
		to, ok := s.step(at, text[i])
		if !ok {
			to = int32(len(s.nodes))
			s.nodes = append(s.nodes, trieNode{token: -1})
			s.nodes[at].edges = append(s.nodes[at].edges, trieEdge{text[i], to})
		}
		at = to
	}
	if s.nodes[at].token < 0 {
		s.nodes[at].token = token
	}
}

func (s *tokenSet) step(at int32, b byte) (int32, bool) {
	for _, e := range s.nodes[at].edges {
		if e.b == b {
			return e.to, true
		}
	}
	return 0, false
}

func (s *tokenSet) empty() bool { return len(s.nodes) == 1 }

// A tokenMatch is an added token at text[start:end].
type tokenMatch struct {
	*AddedToken
	id         int32
	start, end int
}

// next returns the first token in text that begins at from or later.
func (s *tokenSet) next(text string, from int) (tokenMatch, bool) {
	for i := from; i < len(text); i++ {
		if s.oneByte {
			skip := strings.IndexByte(text[i:], s.only)
			if skip < 0 {
				break
			}
			i += skip
		} else if !s.first[text[i]] {
			continue
		}
		if token, end := s.longestAt(text, i); token >= 0 {
			t := &s.tokens[token]
			return tokenMatch{t, t.ID, i, end}, true
		}
	}
	return tokenMatch{}, false
}

func (s *tokenSet) longestAt(text string, i int) (token int32, end int) {
	token = -1
	at := int32(0)
	for ; i < len(text); i++ {
		to, ok := s.step(at, text[i])
		if !ok {
			break
		}
		at = to
		if t := s.nodes[at].token; t >= 0 {
			token, end = t, i+1
		}
	}
	return token, end
}

// widen returns what of text the match takes by its flags, not going back
// before done where it strips, and whether it counts at all.
func (m *tokenMatch) widen(chars *charTables, text string, done int) (start, stop int, ok bool) {
	start, stop = m.start, m.end
	if m.SingleWord && (wordBefore(chars, text[:start]) || wordAfter(chars, text[stop:])) {
		return 0, 0, false
	}
	if m.LStrip {
		start = max(len(strings.TrimRightFunc(text[:start], chars.isSpace)), done)
	}
	if m.RStrip {
		stop = len(text) - len(strings.TrimLeftFunc(text[stop:], chars.isSpace))
	}
	return start, stop, true
}

func (t *charTables) isSpace(r rune) bool { return t.of(r)&classSpace != 0 }

func wordBefore(chars *charTables, s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && chars.of(r)&classWord != 0
}

func wordAfter(chars *charTables, s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && chars.of(r)&classWord != 0
}

// Added returns the added tokens, by id. The caller owns the slice.
func (t *Tokenizer) Added() []AddedToken { return slices.Clone(t.added) }

// Specials returns those added tokens that are special, by id. The caller owns
// the slice.
func (t *Tokenizer) Specials() []AddedToken {
	return slices.DeleteFunc(t.Added(), func(a AddedToken) bool { return !a.Special })
}
