package token

import (
	"slices"
	"testing"

	"github.com/sugarme/tokenizer"
	"github.com/sugarme/tokenizer/model/wordlevel"
	"github.com/sugarme/tokenizer/pretokenizer"
)

func TestFromSugarme(t *testing.T) {
	builder := wordlevel.NewWordLevelBuilder()
	builder.Vocab(map[string]int{"<unk>": 0, "hello": 1, "world": 2})
	theirs := tokenizer.NewTokenizer(builder.Build())
	theirs.WithPreTokenizer(pretokenizer.NewBertPreTokenizer())
	tok := FromSugarme(theirs)
	ids, err := tok.Encode("hello world hello")
	if want := []int32{1, 2, 1}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("Encode = %v, %v, want %v", ids, err, want)
	}
	if got, want := tok.Decode(ids), "hello world hello"; got != want {
		t.Errorf("Decode(%v) = %q, want %q", ids, got, want)
	}
	if id, ok := tok.ID("world"); !ok || id != 2 {
		t.Errorf("ID(world) = %d, %t, want 2", id, ok)
	}
	if _, ok := tok.ID("moon"); ok {
		t.Error("ID(moon): there is no such token")
	}
}

// TestFromSugarmePanics checks that a panic of the module's is an error here.
func TestFromSugarmePanics(t *testing.T) {
	tok := FromSugarme(tokenizer.NewTokenizer(nil)) // no model
	if ids, err := tok.Encode("hello"); err == nil {
		t.Errorf("Encode without a model = %v, want an error", ids)
	}
}
