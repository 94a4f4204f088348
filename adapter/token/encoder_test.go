package token

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// history is 2 kB of what changes at awkward places: added tokens, marks that
// join with letters, line breaks of both kinds, runs of spaces.
func history() string {
	turn := "<|im_start|>user\r\ncafe\u0301 nai\u0308ve \u1100\u1161\u11a8 it's   \n\n\t x=123456\r\n<|im_end|>\n" +
		"<|im_start|>assistant\n<think>\nhm\u0323\u0307 </think>\n\n<tool_call>\n{\"name\": \"f<|im\"}\n</tool_call><|im_end|>\n" +
		"<|im_start|>user\n<tool_response>\n  \u4e2d\u6587 \U0001F600\u200d\n</tool_response><|im_end|>\n"
	return strings.Repeat(turn, 2048/len(turn)+1)[:2048]
}

// flagged is the small tokenizer's pipeline with added tokens that have every
// flag, in id order.
func flagged(t testing.TB) *Tokenizer {
	t.Helper()
	return newFlagged(t, []AddedToken{
		{Content: "<|im_start|>", Special: true}, {Content: "<|im_end|>", Special: true, RStrip: true},
		{Content: "<think>", LStrip: true}, {Content: "</think>", LStrip: true, RStrip: true},
		{Content: "it", SingleWord: true}, {Content: "user", SingleWord: true, LStrip: true},
		{Content: "e\u0301", Normalized: true}, {Content: "name", Normalized: true, SingleWord: true},
		{Content: "<tool_call>", RStrip: true}, {Content: "\n</tool_call>"}, {Content: "\n\n\t "},
	})
}

func TestEncoderEqualsFullEncoding(t *testing.T) {
	steps, stride := 0, 1
	if testing.Short() {
		stride = 23
	}
	for name, tok := range map[string]*Tokenizer{"small": loadSmall(t), "flagged": flagged(t)} {
		e := tok.NewEncoder()
		check := func(text string) {
			t.Helper()
			steps++
			got, err := e.Encode(text)
			switch {
			case !utf8.ValidString(text):
				if err == nil {
					t.Fatalf("%s: Encode(%q): no error", name, text)
				}
			case err != nil:
				t.Fatal(err)
			case !slices.Equal(got, tok.Encode(text)):
				t.Fatalf("%s: Encode(%q) = %v, want %v", name, text, got, tok.Encode(text))
			}
		}
		base := history()
		for p := 0; p <= len(base); p += stride {
			check(base[:p])
			check(base)
			for _, s := range []string{"x", " ", "\n", "\u0301", "<|im_end|>", "<", "\r\n", "\xff"} {
				check(base[:p] + s)
				check(base[:p] + s + base[p:])
				check(base[:p] + s + base[min(p+1, len(base)):])
			}
		}
	}
	t.Logf("figure: incremental encoding, %d steps, 0 differ", steps)
}

func TestEncoderRandomSteps(t *testing.T) {
	parts := []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|im", "_end|>", " ", "  ", "\n", "\r\n", "e", "\u0301", "it", "user", "name", "a1", "\u4e2d", "\u0323", "</tool_call>", "<tool_call>", "\t", "'s"}
	r := rand.New(rand.NewPCG(1, 2))
	for name, tok := range map[string]*Tokenizer{"small": loadSmall(t), "flagged": flagged(t)} {
		e, text := tok.NewEncoder(), ""
		e.Verify = true
		for range 20000 {
			if cut := r.IntN(8); cut < 3 && text != "" {
				at := r.IntN(len(text))
				for !utf8.RuneStart(text[at]) {
					at--
				}
				text = text[:at]
			}
			for range r.IntN(5) {
				text += parts[r.IntN(len(parts))]
			}
			if _, err := e.Encode(text); err != nil {
				t.Fatalf("%s: Encode(%q): %v", name, text, err)
			}
		}
	}
}

func TestEncoderVerifies(t *testing.T) {
	e := loadSmall(t).NewEncoder()
	e.Verify = true
	text := strings.Repeat("<|im_start|>user\n", 9)
	if _, err := e.Encode(text); err != nil {
		t.Fatal(err)
	}
	e.ids[0]++
	if _, err := e.Encode(text + "more"); !errors.Is(err, ErrVerify) {
		t.Errorf("Encode after damage: %v, want %v", err, ErrVerify)
	}
	if _, err := e.Encode(text + "more"); err != nil {
		t.Errorf("Encode after ErrVerify: %v", err)
	}
}

// TestEncoderGivesAwayItsIDs checks that a result is not changed by later calls.
func TestEncoderGivesAwayItsIDs(t *testing.T) {
	e := loadSmall(t).NewEncoder()
	text := strings.Repeat("<|im_start|>user\nhello<|im_end|>\n", 9)
	first, _ := e.Encode(text + "one")
	kept := slices.Clone(first)
	if _, err := e.Encode(text + "two three"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first, kept) {
		t.Error("a later call changed ids that were given away")
	}
}
