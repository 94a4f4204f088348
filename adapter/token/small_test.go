package token

import (
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
		if back := tok.Decode(got); back != text && tok.normalizers[0].normalize(text) != back {
			t.Errorf("Decode(Encode(%s)) differs", path)
		}
		bytes, ids = bytes+len(text), ids+len(got)
	}
	t.Logf("figure: %d tokens, %.1f bytes a token on this package", tok.VocabSize(), float64(bytes)/float64(ids))
}
