package template

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// own compiles a template of testdata, with the given replacements in its source.
func own(t testing.TB, name string, edits ...string) *Template {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for i := 0; i+1 < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("%s has no %q to replace", name, edits[i])
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	eos := map[string]string{"mistral": "</s>", "harmony": "<|return|>", "glm": "<|endoftext|>"}[name]
	if eos == "" {
		eos = "<|im_end|>"
	}
	set := Settings{Tokens: map[string]string{"bos_token": "<s>", "eos_token": eos}}
	if name == "harmony" {
		set.Stops = []string{"<|call|>"}
	}
	tmpl, err := New(text, set)
	if err != nil {
		t.Fatalf("New(%s): %v", name, err)
	}
	return tmpl
}

// TestVerdicts judges templates in the manner of each family.
func TestVerdicts(t *testing.T) {
	const yes, rewritten, no, refuse = "exact, prefix-stable", "exact, though", "canonical:", "refused"
	for _, c := range []struct {
		name     string
		cases    [4]string // beginnings: tool result, several, user, user after tools
		thinking Thinking
		names    bool
		ids      bool
		close    string
		think    string
		policy   Policy
	}{
		{"chatml", [4]string{yes, yes, rewritten, rewritten}, ThinkingStripped, false, false, "<|im_end|>", "\n</think>\n\n<|im_end|>", Exact},
		{"coder", [4]string{yes, yes, yes, yes}, ThinkingNone, false, false, "<|im_end|>", "", Exact},
		{"glm", [4]string{yes, yes, rewritten, rewritten}, ThinkingStripped, false, false, "", "</think>", Exact},
		{"kimi", [4]string{yes, yes, yes, yes}, ThinkingNone, true, true, "<|im_end|>", "", Exact},
		{"mistral", [4]string{yes, yes, no, no}, ThinkingNone, false, true, "</s>", "", Mixed},
		{"harmony", [4]string{yes, yes, rewritten, yes}, ThinkingStripped, true, false, "<|end|>", "<|end|><|start|>assistant<|channel|>final<|message|><|end|>", Exact},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := own(t, c.name).Conform(Options{})
			for i, got := range v.cases() {
				if !strings.HasPrefix(got.String(), c.cases[i]) {
					t.Errorf("case %d: got %q, want %q", i, got, c.cases[i])
				}
			}
			if v.Thinking != c.thinking || v.Names != c.names || v.IDs != c.ids || v.Policy != c.policy {
				t.Errorf("got thinking %q, names %v, ids %v, policy %q", v.Thinking, v.Names, v.IDs, v.Policy)
			}
			if v.Close != c.close || v.CloseThinking != c.think {
				t.Errorf("closes with %q and %q, want %q and %q", v.Close, v.CloseThinking, c.close, c.think)
			}
			if t.Failed() {
				t.Logf("\n%s", v)
			}
		})
	}
}
