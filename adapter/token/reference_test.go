package token

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/agentrl-go/agentrl/internal/cases"
)

// A question is put to the reference implementation; testdata/reference
// says which there are.
type question struct {
	Op   string  `json:"op"`
	Text string  `json:"text"`
	File string  `json:"file,omitempty"`
	IDs  []int32 `json:"ids,omitempty"`
	Runs int     `json:"runs,omitempty"`
}

type answer struct {
	IDs     []int32
	Text    string
	Seconds float64
	Error   string
}

// askReference puts questions about a tokenizer.json to the reference, calling
// each with every answer as it comes. Without the reference the test is skipped.
func askReference(t testing.TB, tokenizerJSON string, questions []question, each func(i int, a answer)) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	cases.Cache(t, "reference/node_modules/tokenizers", "reference")
	cmd := exec.Command("node", filepath.Join(cases.Root(), "testdata", "reference", "reference.js"), tokenizerJSON)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(in)
		enc := json.NewEncoder(w)
		var err error
		for i := 0; i < len(questions) && err == nil; i++ {
			err = enc.Encode(questions[i])
		}
		w.Flush()
		in.Close()
		sent <- err
	}()
	dec := json.NewDecoder(bufio.NewReaderSize(out, 1<<20))
	for i := range questions {
		var a answer
		if err := dec.Decode(&a); err != nil {
			t.Fatalf("reference: answer %d: %v", i, err)
		}
		if a.Error != "" {
			t.Fatalf("reference: answer %d: %s", i, a.Error)
		}
		each(i, a)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("reference: %v", err)
	}
}

// randomText makes texts of what tokenizers find hard.
func randomText(r *rand.Rand, tokens []AddedToken) string {
	parts := []string{" ", "  ", "   ", "\n", "\r\n", "\t", "\u3000", "\u00a0", "'s", "'LL", "'\u017f", "'", "a", "Ab", "HTTPServer", "x1", "12345", "\u0661\u0662", "\u00b2", "\u2167", "e\u0301", "\u0323\u0307", "\u1100\u1161", "\u4e2d\u6587", "\u3042", "\u30fc", "\u2e80", "\U0001F600", "\u200d", "!", "...", "/", "//\n", "_", "\u00ab", "\u02b0", "\u01c5", "\x00", "\x7f", "\u0085", "\u2028", "\ufffd", "\u24b6", "\u203f", "\u2581", "<", "<|im"}
	var b strings.Builder
	for range 1 + r.IntN(14) {
		switch r.IntN(6) {
		case 0:
			if len(tokens) > 0 {
				b.WriteString(tokens[r.IntN(len(tokens))].Content)
			}
		case 1:
			c := rune(r.IntN(0x3000))
			if r.IntN(4) == 0 {
				c = rune(r.IntN(unicode.MaxRune))
			}
			b.WriteString(string(c)) // a surrogate becomes U+FFFD
		default:
			b.WriteString(parts[r.IntN(len(parts))])
		}
	}
	return b.String()
}

// compareRandom compares the ids and the text of n random texts with the
// reference's.
func compareRandom(t *testing.T, name, path string, tok *Tokenizer, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	var questions []question
	for range n {
		text := randomText(r, tok.added)
		questions = append(questions, question{Op: "encode", Text: text}, question{Op: "decode", IDs: tok.Encode(text), Text: text})
	}
	bad := 0
	failf := func(format string, args ...any) {
		if bad++; bad <= 5 {
			t.Errorf(format, args...)
		}
	}
	askReference(t, path, questions, func(i int, a answer) {
		text := questions[i].Text
		if got := tok.Encode(text); i%2 == 0 && !slices.Equal(got, a.IDs) {
			failf("%s: Encode(%+q) = %v, want %v", name, text, got, a.IDs)
		}
		if got := tok.Decode(questions[i].IDs); i%2 == 1 && got != a.Text {
			failf("%s: Decode(ids of %+q) = %+q, want %+q", name, text, got, a.Text)
		}
	})
	t.Logf("figure: %s random texts, ids and decode, %d run, 0 skipped, %d failed", name, len(questions), bad)
}

func TestReferenceFlags(t *testing.T) {
	tokens := []AddedToken{
		{Content: "<|im_start|>", Special: true}, {Content: "<|im_end|>", Special: true, RStrip: true},
		{Content: "<think>", LStrip: true}, {Content: "</think>", LStrip: true, RStrip: true},
		{Content: "it", SingleWord: true}, {Content: "user", SingleWord: true, LStrip: true},
		{Content: "e\u0301", Normalized: true}, {Content: "name", Normalized: true, SingleWord: true},
		{Content: "A", Normalized: true, RStrip: true, LStrip: true}, {Content: "<|", Normalized: true},
		{Content: "<tool_call>", RStrip: true}, {Content: "\n</tool_call>"}, {Content: "x", SingleWord: true, RStrip: true},
	}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, flaggedJSON(t, tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	compareRandom(t, "flagged", path, newFlagged(t, tokens), 6000)
}

func TestReferenceFullSize(t *testing.T) {
	for _, name := range fullSize {
		compareRandom(t, name, cachedJSON(t, name), loadFull(t, name), 2000)
	}
}
