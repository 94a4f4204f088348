package token

import (
	"fmt"
	"math"

	"github.com/sugarme/tokenizer"
)

// An Inexact encodes and decodes by a tokenizer of the module
// github.com/sugarme/tokenizer, for callers who own one of a kind that is not
// known here (WordPiece, Unigram). Its ids are not those of the reference: the
// module drops added tokens that do not lie in the order of their ids, merges
// equal ranks in any order and cannot load the patterns of byte-level models.
// It is not safe to train on ids that an Inexact made of text.
type Inexact struct{ tokenizer *tokenizer.Tokenizer }

// FromSugarme wraps t, which must not be changed afterwards.
func FromSugarme(t *tokenizer.Tokenizer) *Inexact { return &Inexact{t} }

// Encode returns the ids of text without special tokens around it. The module
// panics on some texts; that becomes an error.
func (t *Inexact) Encode(text string) (ids []int32, err error) {
	defer func() {
		if r := recover(); r != nil {
			ids, err = nil, fmt.Errorf("token: sugarme/tokenizer: %v", r)
		}
	}()
	encoding, err := t.tokenizer.EncodeSingle(text, false)
	if err != nil {
		return nil, fmt.Errorf("token: sugarme/tokenizer: %w", err)
	}
	ids = make([]int32, 0, len(encoding.Ids))
	for _, id := range encoding.Ids {
		if id < 0 || id > math.MaxInt32 {
			return nil, fmt.Errorf("token: sugarme/tokenizer: id %d", id)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// Decode returns the text of ids, special tokens included.
func (t *Inexact) Decode(ids []int32) string {
	wide := make([]int, len(ids))
	for i, id := range ids {
		wide[i] = int(id)
	}
	return t.tokenizer.Decode(wide, false)
}

// ID returns the id of a token.
func (t *Inexact) ID(token string) (id int32, ok bool) {
	wide, ok := t.tokenizer.TokenToId(token)
	return int32(wide), ok
}
