package token

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/internal/cases"
)

// readCase reads a file of the cases folder, unpacked.
func readCase(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(cases.Dir(t, "tokens"), name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readCaseJSON[T any](t testing.TB, name string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(readCase(t, name), &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

type namedText struct{ Name, Text string }

// TestCaseIDs encodes and decodes the corpus with each given tokenizer.
func TestCaseIDs(t *testing.T) {
	corpus := readCaseJSON[[]namedText](t, "corpus.json.gz")
	for _, name := range []string{"qwen3", "deepseek_v3", "gemma3"} {
		t.Run(name, func(t *testing.T) {
			tok, err := New(readCase(t, name+"-mini.tokenizer.json.gz"))
			if err != nil {
				t.Fatal(err)
			}
			type answer struct {
				Name string
				IDs  []int32
				Dec  string
			}
			want := readCaseJSON[[]answer](t, name+"-mini.ids.json.gz")
			if len(want) != len(corpus) {
				t.Fatalf("%d answers to %d texts", len(want), len(corpus))
			}
			badIDs, badDec := 0, 0
			for i, w := range want {
				if got := tok.Encode(corpus[i].Text); !slices.Equal(got, w.IDs) {
					badIDs++
					t.Errorf("Encode(%s) = %v, want %v", w.Name, clip(got), clip(w.IDs))
				}
				if got := tok.Decode(w.IDs); got != w.Dec {
					badDec++
					t.Errorf("Decode(ids of %s) = %.80q, want %.80q", w.Name, got, w.Dec)
				}
			}
			t.Logf("figure: %s ids %d run, 0 skipped, %d failed; decode %d run, 0 skipped, %d failed", name, len(want), badIDs, len(want), badDec)
		})
	}
}

func clip(ids []int32) []int32 { return ids[:min(len(ids), 24)] }
