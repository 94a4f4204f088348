package token

import (
	"fmt"
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

func newTokenSet() *tokenSet { return &tokenSet{nodes: []trieNode{{token: -1}}} }

// insert enters a token that is spelled in text as spelling. It reports false
// where that is empty or in the set.
func (s *tokenSet) insert(spelling string, token AddedToken) bool {
	at := int32(0)
	for i := range len(spelling) {
		to, ok := s.step(at, spelling[i])
		if !ok {
			to = int32(len(s.nodes))
			s.nodes = append(s.nodes, trieNode{token: -1})
			s.nodes[at].edges = append(s.nodes[at].edges, trieEdge{spelling[i], to})
		}
		at = to
	}
	if at == 0 || s.nodes[at].token >= 0 {
		return false
	}
	s.nodes[at].token = int32(len(s.tokens))
	s.tokens = append(s.tokens, token)
	s.longest = max(s.longest, len(spelling))
	s.first[spelling[0]] = true
	s.only, s.oneByte = spelling[0], len(s.nodes[0].edges) == 1
	return true
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
	start, end int
}

// next returns the first token in text that begins at from or later.
func (s *tokenSet) next(text string, from int) (tokenMatch, bool) {
	for i := from; i < len(text) && !s.empty(); i++ {
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
			return tokenMatch{&s.tokens[token], i, end}, true
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

// addTokens enters the added tokens. The reference gives each the id that its
// content has in the vocabulary, else the next free one, whatever the file
// says; a file that says otherwise is refused.
func (t *Tokenizer) addTokens(tokens []AddedToken) error {
	next := int32(t.vocab.count)
	seen := make(map[string]bool, len(tokens))
	for _, a := range tokens {
		if a.Content == "" || seen[a.Content] {
			return fmt.Errorf("%q: empty or there twice", a.Content)
		}
		seen[a.Content] = true
		id, known := t.vocab.id([]byte(a.Content))
		if !known {
			id = next
			next++
		}
		if a.ID != id {
			return fmt.Errorf("%q: id %d in the file, but the reference would give it %d: order the added tokens by id, without gaps", a.Content, a.ID, id)
		}
		if !known && !t.vocab.extend(a.Content, id) {
			return fmt.Errorf("%q: its id %d is a token of the vocabulary, which has gaps", a.Content, id)
		}
		t.added = append(t.added, a)
	}
	slices.SortFunc(t.added, func(a, b AddedToken) int { return int(a.ID) - int(b.ID) })
	t.addedIDs = make(map[string]int32, len(t.added))
	for _, a := range t.added {
		t.addedIDs[a.Content] = a.ID
	}
	return t.findAdded()
}

// findAdded makes the sets that find the added tokens. A normalized one is
// found, and decoded, as its content is normalized.
func (t *Tokenizer) findAdded() error {
	t.verbatim, t.normalized = newTokenSet(), newTokenSet()
	for _, a := range t.added {
		set, text := t.verbatim, a.Content
		if a.Normalized {
			set, text = t.normalized, t.normalize(text)
			if text != a.Content {
				t.vocab.respell(a.ID, text)
			}
		}
		if !set.insert(text, a) {
			return fmt.Errorf("%q: normalized it is empty or the same as another", a.Content)
		}
	}
	return nil
}

// Added returns the added tokens, by id. The caller owns the slice.
func (t *Tokenizer) Added() []AddedToken { return slices.Clone(t.added) }

// Specials returns those added tokens that are special, by id. The caller owns
// the slice.
func (t *Tokenizer) Specials() []AddedToken {
	return slices.DeleteFunc(t.Added(), func(a AddedToken) bool { return !a.Special })
}
