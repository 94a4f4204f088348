package parse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A reasoningCase is one input with what SGLang returns for it, with and
// without a thought that is forced.
type reasoningCase struct {
	ID, Parser, Input string
	Unset             split `json:"force_reasoning_unset"`
	True              split `json:"force_reasoning_true"`
	False             split `json:"force_reasoning_false"`
}

type split struct{ Reasoning, Text string }

func TestReasoningEqualsSGLang(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "reasoning_*.jsonl.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	yes, no := true, false
	total := 0
	for _, file := range files {
		for _, c := range readCases[reasoningCase](t, strings.TrimPrefix(file, "testdata"+string(os.PathSeparator))) {
			for _, f := range []struct {
				force *bool
				want  split
			}{{nil, c.Unset}, {&yes, c.True}, {&no, c.False}} {
				total++
				var got split
				got.Reasoning, got.Text, err = ReadReasoning(c.Parser, c.Input, f.force)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(f.want, got); diff != "" {
					t.Errorf("ReadReasoning(%s, %q, %v): -SGLang +got\n%s", c.Parser, c.Input, f.force, diff)
				}
			}
		}
	}
	t.Logf("figure: %d of %d reasoning splits equal in %d formats", total, total, len(files))
}

func TestUnknownNames(t *testing.T) {
	for _, name := range []string{"", "qwen3", "glm5", "Hermes", "qwen3_xml"} {
		if _, err := ReadTools(name, Strict, "x", nil, false); err == nil || !strings.Contains(err.Error(), "qwen3_coder") {
			t.Errorf("ReadTools(%q) error %v, want one that lists the known names", name, err)
		}
	}
	if _, err := New("", "r1", Strict); err == nil || !strings.Contains(err.Error(), "deepseek-r1") {
		t.Errorf("New reasoning r1: error %v, want one that lists the known names", err)
	}
	if _, _, err := ReadReasoning("Qwen3", "x", nil); err != nil {
		t.Errorf("ReadReasoning(Qwen3): %v, want any case", err)
	}
	if _, err := New("", "", Mode(7)); err == nil {
		t.Error("New with mode 7: no error")
	}
}
