package token

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

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

// pieceLengths is a last step of a pre-tokenizer that keeps what it is given.
type pieceLengths []int

func (p *pieceLengths) split(_ *encoding, _ int, s string) { *p = append(*p, len(s)) }

// TestCasePieces cuts the corpus and the random texts by each given pattern.
func TestCasePieces(t *testing.T) {
	texts := readCaseJSON[[]namedText](t, "corpus.json.gz")
	texts = append(texts, readCaseJSON[[]namedText](t, "fuzz.json.gz")...)
	patterns := readCaseJSON[map[string]*component](t, "patterns.json")
	if len(patterns) != 8 {
		t.Errorf("%d patterns, want 8", len(patterns))
	}
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		t.Run(name, func(t *testing.T) {
			steps, _, err := patterns[name].splitters(unicodeTables())
			if err != nil {
				t.Fatal(err)
			}
			want := readCaseJSON[[][]int](t, "pre_"+name+".json.gz")
			if len(want) != len(texts) {
				t.Fatalf("%d answers to %d texts", len(want), len(texts))
			}
			bad := 0
			for i, text := range texts {
				got := &pieceLengths{}
				e := &encoding{Tokenizer: &Tokenizer{steps: append(slices.Clone(steps), got)}}
				if text.Text != "" {
					e.piece(0, text.Text)
				}
				if !slices.Equal(*got, want[i]) {
					bad++
					t.Errorf("pieces of %s: %v, want %v", text.Name, *got, want[i])
				}
			}
			t.Logf("figure: %s pieces %d run, 0 skipped, %d failed", name, len(want), bad)
		})
	}
}

func TestCaseNFC(t *testing.T) {
	pairs := readCaseJSON[[][2]string](t, "nfc_cases.json.gz")
	nfc, bad := &unicodeTables().nfc, 0
	for _, p := range pairs {
		if got := nfc.normalize(p[0]); got != p[1] {
			bad++
			t.Errorf("normalize(%+q) = %+q, want %+q", p[0], got, p[1])
		}
	}
	if len(pairs) != 3000 {
		t.Errorf("%d cases, want 3000", len(pairs))
	}
	t.Logf("figure: NFC %d run, 0 skipped, %d failed", len(pairs), bad)
}

// TestCaseClasses compares the embedded classes with those of the cases.
func TestCaseClasses(t *testing.T) {
	given := readCaseJSON[map[string][][2]rune](t, "classes.json.gz")
	tables, bad, run := unicodeTables(), 0, 0
	for name, in := range map[string]func(class) bool{
		`\p{Lu}`: func(k class) bool { return k&classLu != 0 }, `\p{Ll}`: func(k class) bool { return k&classLl != 0 },
		`\p{Lt}`: func(k class) bool { return k&classLt != 0 }, `\p{Lm}`: func(k class) bool { return k&classLm != 0 },
		`\p{Lo}`: func(k class) bool { return k&classLo != 0 }, `\p{L}`: func(k class) bool { return k&classL != 0 },
		`\p{M}`: func(k class) bool { return k&classM != 0 }, `\p{N}`: func(k class) bool { return k&classN != 0 },
		`\p{Nd}`: func(k class) bool { return k&classNd != 0 }, `\p{P}`: func(k class) bool { return k&classP != 0 },
		`\p{S}`: func(k class) bool { return k&classS != 0 }, `\s`: func(k class) bool { return k&classSpace != 0 },
		`\p{Han}`:           func(k class) bool { return k&classHan != 0 },
		`[^\s\p{L}\p{N}]`:   func(k class) bool { return k&(classSpace|classL|classN) == 0 },
		`[^\r\n\p{L}\p{N}]`: func(k class) bool { return k&(classNL|classL|classN) == 0 },
		`[\p{L}\p{M}]`:      func(k class) bool { return k&(classL|classM) != 0 },
	} {
		ranges := given[name]
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if r >= 0xD800 && r < 0xE000 {
				continue // no characters
			}
			for len(ranges) > 0 && r > ranges[0][1] {
				ranges = ranges[1:]
			}
			run++
			if want := len(ranges) > 0 && r >= ranges[0][0]; in(tables.of(r)) != want {
				bad++
				t.Errorf("%U in %s: %t, want %t", r, name, !want, want)
			}
		}
	}
	t.Logf("figure: classes %d run, 0 skipped, %d failed", run, bad)
}
