package token

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentrl-go/agentrl/internal/cases"
)

// loadSmall loads the repository's own small tokenizer.
func loadSmall(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load(filepath.Join(cases.Root(), "testdata", "tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestSmallMarkersAreSingleIDs(t *testing.T) {
	tok := loadSmall(t)
	for _, marker := range []string{
		"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>",
		"<tool_response>", "</tool_response>", "<think>", "</think>",
	} {
		want, ok := tok.ID(marker)
		if !ok {
			t.Errorf("ID(%q): no such token", marker)
			continue
		}
		got := tok.Encode("user" + marker + "\n")
		if len(got) != 3 || got[1] != want {
			t.Errorf("Encode(user%s\\n) = %v, want %d between two ids", marker, got, want)
		}
		if text := tok.Decode(got); text != "user"+marker+"\n" {
			t.Errorf("Decode(%v) = %q", got, text)
		}
	}
	eos, ok := tok.EOS()
	if name, _ := tok.Token(eos); !ok || name != "<|im_end|>" {
		t.Errorf("EOS() = %d (%q), %t, want <|im_end|>", eos, name, ok)
	}
}

func TestSmallRoundTrip(t *testing.T) {
	tok := loadSmall(t)
	paths, err := filepath.Glob(filepath.Join(cases.Root(), "adapter", "token", "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files: %v", err)
	}
	bytes, ids := 0, 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // a folder
		}
		text := valid(string(data))
		got := tok.Encode(text)
		if back := tok.Decode(got); back != text && tok.normalize(text) != back {
			t.Errorf("Decode(Encode(%s)) differs", path)
		}
		bytes, ids = bytes+len(text), ids+len(got)
	}
	t.Logf("figure: %d tokens, %.1f bytes a token on this package", tok.VocabSize(), float64(bytes)/float64(ids))
}

// smallJSON returns the small tokenizer's tokenizer.json, changed by change.
func smallJSON(t testing.TB, change func(file map[string]any)) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cases.Root(), "testdata", "tokenizer", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	change(file)
	data, err = json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// flaggedJSON is the small tokenizer with other added tokens, which get the ids
// that the reference gives them.
func flaggedJSON(t testing.TB, tokens []AddedToken) []byte {
	t.Helper()
	return smallJSON(t, func(file map[string]any) {
		vocab := file["model"].(map[string]any)["vocab"].(map[string]any)
		next := len(vocab)
		for i := range tokens {
			if id, ok := vocab[tokens[i].Content]; ok {
				tokens[i].ID = int32(id.(float64))
				continue
			}
			tokens[i].ID = int32(next)
			next++
		}
		file["added_tokens"] = tokens
	})
}

func newFlagged(t testing.TB, tokens []AddedToken) *Tokenizer {
	t.Helper()
	tok, err := New(flaggedJSON(t, tokens))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

type object = map[string]any
