package token

import (
	"runtime"
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
