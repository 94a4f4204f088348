package token

import (
	"slices"
	"sync"
	"testing"
)

// TestConcurrentUse encodes and decodes in eight goroutines over one shared
// tokenizer, whose word cache is cold; run it with -race.
func TestConcurrentUse(t *testing.T) {
	tok := loadSmall(t)
	texts := []string{history(), sourceText(t, 20_000), "", "\n\n", "<|im_start|>", "e\u0301<think>\u4e2d"}
	alone := loadSmall(t)
	var want [][]int32
	for _, text := range texts {
		want = append(want, alone.Encode(text))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			e := tok.NewEncoder()
			for round := range 30 {
				i := (g + round) % len(texts)
				if got := tok.Encode(texts[i]); !slices.Equal(got, want[i]) {
					t.Errorf("Encode of text %d differs in goroutine %d", i, g)
				}
				if got, err := e.Encode(texts[i]); err != nil || !slices.Equal(got, want[i]) {
					t.Errorf("Encoder.Encode of text %d differs in goroutine %d: %v", i, g, err)
				}
				if got := tok.Decode(want[i]); got != alone.Decode(want[i]) {
					t.Errorf("Decode of text %d differs in goroutine %d", i, g)
				}
			}
		})
	}
	wg.Wait()
}
