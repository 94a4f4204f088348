package parse

import (
	"slices"
	"testing"
)

func TestStrictFlagsMalformed(t *testing.T) {
	for _, name := range givenFormats() {
		t.Run(name, func(t *testing.T) {
			for _, c := range readCases[toolCase](t, "cases/"+name+".jsonl.gz") {
				got, err := ReadTools(name, Strict, c.Text, chatTools(c.Tools), false)
				if err != nil {
					t.Fatal(err)
				}
				hard := slices.ContainsFunc(got.Flags, Flag.Hard)
				if hard != c.Malformed {
					t.Errorf("ReadTools(%s, %q) flags %q, malformed %v (%s)", c.ID, c.Text, got.Flags, c.Malformed, c.Why)
				}
				if !c.Malformed && got.Residue != "" {
					t.Errorf("ReadTools(%s, %q) residue %q", c.ID, c.Text, got.Residue)
				}
				if d := compatDiff(c, ToolResult{Text: c.NormalText, Calls: got.Calls}); !c.Malformed && d != "" {
					t.Logf("%s %q: %s", c.ID, c.Text, d)
				}
			}
		})
	}
}
