package token

import (
	"maps"
	"slices"
	"testing"
)

// TestCaseRegexes runs the given patterns by the engine for unknown ones: it
// must cut as the scanners do.
func TestCaseRegexes(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	texts := readCaseJSON[[]namedText](t, "corpus.json.gz")
	texts = append(texts, readCaseJSON[[]namedText](t, "fuzz.json.gz")...)
	patterns := readCaseJSON[map[string]*component](t, "patterns.json")
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		parts := patterns[name].PreTokenizers
		if patterns[name].Type == "Split" {
			parts = []component{*patterns[name]}
		}
		var steps []splitter
		for _, part := range parts {
			re, err := compileRegex(unicodeTables(), *part.Pattern.Regex)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			steps = append(steps, isolate{re})
		}
		want := readCaseJSON[[][]int](t, "pre_"+name+".json.gz")
		bad := 0
		for i, text := range texts {
			got := &pieceLengths{}
			e := &encoding{Tokenizer: &Tokenizer{steps: append(slices.Clone(steps), got)}}
			if text.Text != "" {
				e.piece(0, text.Text)
			}
			if !slices.Equal(*got, want[i]) {
				bad++
				t.Errorf("%s: pieces of %s: %v, want %v", name, text.Name, *got, want[i])
			}
		}
		t.Logf("figure: %s pieces by the general engine %d run, 0 skipped, %d failed", name, len(want), bad)
	}
}
