package token

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// pipelines are pre-tokenizers that differ from those of the full-size
// tokenizers, by name.
func pipelines() map[string][]object {
	split := func(kind, pattern, behavior string, invert bool) object {
		return object{"type": "Split", "pattern": object{kind: pattern}, "behavior": behavior, "invert": invert}
	}
	level := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	gpt2 := object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}
	digits := func(individual bool) object { return object{"type": "Digits", "individual_digits": individual} }
	all := map[string][]object{
		"qwen35":           {split("Regex", patternQwen35, "Isolated", false), level},
		"tekken":           {split("Regex", patternTekken, "Isolated", false), level},
		"kimi":             {split("Regex", patternKimi, "Isolated", false), level},
		"o200k removed":    {split("Regex", patternO200K, "Removed", true), level},
		"gpt2 with prefix": {gpt2},
		"digits, gpt2":     {digits(true), gpt2},
		"runs of digits":   {digits(false), level},
		"cl100k": {split("Regex", `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
			"Isolated", false), level},
		"engine": {split("Regex", `(?:ab|a)?c|[A-Z&&[^B-D]]{2,}|[^\P{L}a-f]+(?:x|yz)?|\d{2,4}|.(?!\p{P})`, "Isolated", false), level},
	}
	for _, behavior := range []string{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"} {
		for _, invert := range []bool{false, true} {
			name := fmt.Sprintf("%s %t", behavior, invert)
			all["space "+name] = []object{split("String", " ", behavior, invert), level}
			all["digits "+name] = []object{split("Regex", `\p{N}{1,3}`, behavior, invert), level}
		}
	}
	return all
}

// TestReferencePipelines compares ids under other pre-tokenizers with the
// reference's.
func TestReferencePipelines(t *testing.T) {
	run := 0
	for name, steps := range pipelines() {
		data := smallJSON(t, func(file object) {
			file["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": steps}
		})
		path := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tok, err := New(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		compareRandom(t, name, path, tok, 500)
		run++
	}
	t.Logf("figure: %d pre-tokenizers", run)
}

// TestReferenceWordClass compares with the reference which characters are part
// of a word, for all of Unicode: a token that is single_word is not found
// beside one.
func TestReferenceWordClass(t *testing.T) {
	tokens := []AddedToken{{Content: "<w>", SingleWord: true}}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, flaggedJSON(t, tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	tok := newFlagged(t, tokens)
	var questions []question
	for block := rune(0); block <= utf8.MaxRune; block += 64 {
		var b strings.Builder
		for r := block; r < block+64; r++ {
			if utf8.ValidRune(r) {
				b.WriteString(string(r) + "<w>\n")
			}
		}
		questions = append(questions, question{Op: "encode", Text: b.String()})
	}
	bad := 0
	askReference(t, path, questions, func(i int, a answer) {
		if !slices.Equal(tok.Encode(questions[i].Text), a.IDs) {
			bad++
			t.Errorf("words in block %U differ", i*64)
		}
	})
	t.Logf("figure: word characters, %d blocks run, 0 skipped, %d failed", len(questions), bad)
}
