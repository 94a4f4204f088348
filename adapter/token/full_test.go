package token

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/internal/cases"
)

// fullSize names the tokenizers that testdata/fetch/tokenizers.sh brings.
var fullSize = []string{"qwen3", "llama3_1", "gptoss", "deepseek_v3", "gemma3", "gpt4o", "llama2"}

func loadFull(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := Load(cases.Cache(t, "tokenizers/"+name, "tokenizers"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestFullSizeLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	for _, name := range fullSize {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		tok := loadFull(t, name)
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		t.Logf("figure: %s %d tokens, loaded in %.2f s, %.1f MB", name, tok.VocabSize(), took.Seconds(), float64(after.HeapAlloc-before.HeapAlloc)/1e6)
		runtime.KeepAlive(tok)
	}
}

// TestFullSizeCorpus compares ids and decoded text with the reference's on the
// hard corpus.
func TestFullSizeCorpus(t *testing.T) {
	corpus := readCaseJSON[[]namedText](t, "corpus.json.gz")
	for _, name := range fullSize {
		tok := loadFull(t, name)
		questions := make([]question, 0, 2*len(corpus))
		for _, c := range corpus {
			questions = append(questions, question{Op: "encode", Text: c.Text})
			questions = append(questions, question{Op: "decode", IDs: tok.Encode(c.Text)})
		}
		bad := 0
		askReference(t, cachedJSON(t, name), questions, func(i int, a answer) {
			c := corpus[i/2]
			if got := tok.Encode(c.Text); i%2 == 0 && !slices.Equal(got, a.IDs) {
				bad++
				t.Errorf("%s: Encode(%s) = %v, want %v", name, c.Name, clip(got), clip(a.IDs))
			}
			if got := tok.Decode(tok.Encode(c.Text)); i%2 == 1 && got != a.Text {
				bad++
				t.Errorf("%s: Decode(ids of %s) = %.80q, want %.80q", name, c.Name, got, a.Text)
			}
		})
		t.Logf("figure: %s ids and decode %d run, 0 skipped, %d failed", name, len(questions), bad)
	}
}

func cachedJSON(t testing.TB, name string) string {
	return filepath.Join(cases.Cache(t, "tokenizers/"+name, "tokenizers"), "tokenizer.json")
}
