package parse

import (
	"strings"
	"testing"
)

// TestSpansRebuildTheInput checks that text, thoughts, calls and residue lie
// side by side in the order in which the model wrote them, in every case and
// every cut of some.
func TestSpansRebuildTheInput(t *testing.T) {
	inputs := 0
	for _, name := range givenFormats() {
		p, err := New(name, "qwen3", Strict)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range readCases[toolCase](t, "cases/"+name+".jsonl.gz") {
			tools := chatTools(c.Tools)
			for _, text := range []string{c.Text, "plan</think>" + c.Text, c.Text[:len(c.Text)/2], c.Text + c.Text} {
				inputs++
				got := p.Parse(Input{Text: text, Tools: tools, PromptTail: "<think>\n"})
				checkSpans(t, text, got.Spans)
				checkContents(t, text, got)
				if !c.Malformed && text == "plan</think>"+c.Text && got.Residue != "" {
					t.Errorf("%s/%s: residue %q", name, c.ID, got.Residue)
				}
			}
		}
	}
	t.Logf("figure: %d inputs rebuilt from their spans", inputs)
}

// checkContents compares what a result says with what its spans hold.
func checkContents(t *testing.T, text string, got Result) {
	t.Helper()
	var residue, thoughts strings.Builder
	calls := map[string]int{}
	for _, c := range append(got.Calls, got.Withheld...) {
		calls[c.Raw]++
	}
	for _, sp := range got.Spans {
		piece := text[sp.Start:sp.End]
		switch sp.Kind {
		case SpanCall:
			if calls[piece]--; calls[piece] < 0 {
				t.Errorf("%q: no call is %q", text, piece)
			}
		case SpanReasoning:
			thoughts.WriteString(piece)
		case SpanResidue:
			residue.WriteString(piece)
		}
	}
	for raw, n := range calls {
		if n != 0 {
			t.Errorf("%q: %d calls %q have no span", text, n, raw)
		}
	}
	if !inOrder(got.Reasoning, thoughts.String()) {
		t.Errorf("%q: reasoning %q, its spans hold %q", text, got.Reasoning, thoughts.String())
	}
	if residue.String() != got.Residue {
		t.Errorf("%q: residue %q, its spans hold %q", text, got.Residue, residue.String())
	}
}

// inOrder reports whether what is said stands in a text that has markup too.
func inOrder(said, text string) bool {
	for i := range len(said) {
		at := strings.IndexByte(text, said[i])
		if at < 0 {
			return false
		}
		text = text[at+1:]
	}
	return true
}
