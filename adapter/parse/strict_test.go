package parse

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// A difference is a case that is read otherwise than by SGLang, or than its
// verdict says, on purpose.
type differences struct {
	// Flags: strict mode flags a well-formed case, or not a malformed one.
	Flags map[string]string
	// Lossless: SGLang rewrites what the model wrote, or loses the call.
	Lossless map[string]string
}

func readDifferences(t testing.TB) differences {
	t.Helper()
	b, err := os.ReadFile("testdata/differences.json")
	if err != nil {
		t.Fatal(err)
	}
	var d differences
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// checkListed fails where a list and what was found are not the same.
func checkListed(t *testing.T, what string, list map[string]string, found map[string]string, prefix string) {
	t.Helper()
	for id, detail := range found {
		if list[id] == "" {
			t.Errorf("%s %s is not in the list of differences: %s", what, id, detail)
		}
	}
	for id := range list {
		if _, ok := found[id]; !ok && strings.HasPrefix(id, prefix) {
			t.Errorf("%s %s is in the list of differences but is none", what, id)
		}
	}
}

func TestStrictVerdicts(t *testing.T) {
	list := readDifferences(t)
	var malformed, flagged, well, same, lossless int
	for _, name := range givenFormats() {
		flags, calls := map[string]string{}, map[string]string{}
		for _, c := range readCases[toolCase](t, "cases/"+name+".jsonl.gz") {
			got, err := ReadTools(name, Strict, c.Text, chatTools(c.Tools), false)
			if err != nil {
				t.Fatal(err)
			}
			id := name + "/" + c.ID
			hard := slices.ContainsFunc(got.Flags, Flag.Hard)
			if hard != c.Malformed {
				flags[id] = c.Text
			}
			if c.Malformed {
				malformed++
				if hard {
					flagged++
				}
				continue
			}
			well++
			if got.Residue != "" {
				t.Errorf("%s %q: residue %q in a well-formed case", id, c.Text, got.Residue)
			}
			if !sameCalls(got.Calls, c) {
				calls[id] = c.Text
				lossless++
			} else {
				same++
			}
		}
		checkListed(t, "verdict", list.Flags, flags, name+"/")
		checkListed(t, "calls", list.Lossless, calls, name+"/")
	}
	t.Logf("figure: strict flags %d of %d malformed cases; %d of %d well-formed ones give SGLang's calls, %d where SGLang rewrites or loses what was written",
		flagged, malformed, same, well, lossless)
}

func sameCalls(got []Call, c toolCase) bool {
	return slices.EqualFunc(got, c.Calls, func(a Call, b struct{ Name, Arguments string }) bool {
		return a.Name == b.Name && sameJSON(string(a.Args), b.Arguments)
	})
}

func TestStrictNeverRunsACutCall(t *testing.T) {
	total := 0
	for _, name := range givenFormats() {
		for _, c := range readCases[toolCase](t, "cases/"+name+".jsonl.gz") {
			if c.Malformed || len(c.Text) > 250 {
				continue
			}
			tools := chatTools(c.Tools)
			whole, err := ReadTools(name, Strict, c.Text, tools, false)
			if err != nil {
				t.Fatal(err)
			}
			for cut := range len(c.Text) {
				got, err := ReadTools(name, Strict, c.Text[:cut], tools, true)
				if err != nil {
					t.Fatal(err)
				}
				total++
				checkSpans(t, c.Text[:cut], got.Spans)
				for i, call := range got.Calls {
					if i >= len(whole.Calls) || !slices.Equal(whole.Calls[i].Args, call.Args) || whole.Calls[i].Name != call.Name {
						t.Fatalf("%s %s cut at %d: call %s(%s) runs, the whole text has none such: %q", name, c.ID, cut, call.Name, call.Args, c.Text[:cut])
					}
				}
			}
		}
	}
	t.Logf("figure: %d cuts, no cut call runs", total)
}

func TestStrictArgsAreJSON(t *testing.T) {
	for _, name := range givenFormats() {
		for _, c := range readCases[toolCase](t, "cases/"+name+".jsonl.gz") {
			got, err := ReadTools(name, Strict, c.Text, chatTools(c.Tools), false)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range got.Calls {
				var args map[string]json.RawMessage
				if err := json.Unmarshal(call.Args, &args); err != nil {
					t.Errorf("%s %s: arguments %s: %v", name, c.ID, call.Args, err)
				}
				if !strings.Contains(c.Text, call.Raw) || call.Raw == "" {
					t.Errorf("%s %s: raw %q is not in the text", name, c.ID, call.Raw)
				}
			}
		}
	}
}
