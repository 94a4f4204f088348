package jinja

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// languageVars are the variables of testdata/language.txt.
const languageVars = `{"x": {"n": 3, "a": null, "_private": 1}, "d": {"a": {"b": 1}}, "lst": [1, "a", null],
	"objs": [{"n": 1}, {"n": 2}, {}], "it": {"items": [1], "keys": 2}, "nested": [[1, 2], [3, [4]]],
	"bigint": 9223372036854775808, "bigfloat": 1e3, "negzero": -0.0, "nums": [1.0, 1e3, 1E-7, -0, 9223372036854775809, 0.1, 1e400],
	"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}`

// refused are the templates of testdata/language.txt that Jinja2 renders and
// this package refuses on purpose, each with a part of the reason.
var refused = map[string]string{
	`{{ cycler(1, 2) is defined }}`:            "the global cycler is not supported",
	`{{ self is defined }}`:                    "the global self is not supported",
	`{{ (-8) ** 0.5 }}`:                        "complex numbers",
	`{{ '٣'|int }}`:                            "beyond ASCII",
	`{{ none[1:] }}`:                           "not subscriptable", // Jinja2 folds some constants, and raises only for variables
	`{{ 'abc'['a':] }}`:                        "slice indices",
	`{{ 'a'|urlize }}`:                         "the filter urlize is not supported",
	`{{ 'é'.casefold() }}`:                     "casefold",
	`{{ 'a'.encode() is defined }}`:            "the method encode",
	`{{ "\N{BULLET}" }}`:                       "is not supported in a string",
	`{{ [1][0,] is defined }}`:                 "several parts",
	`{% autoescape true %}{% endautoescape %}`: "autoescape",
	`{% block b %}{% endblock %}`:              "block",
}

func languageTemplates(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/language.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, line := range strings.Split(string(data), "\n") {
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		list = append(list, line, strings.ReplaceAll(line, `\n`, "\n"))
	}
	return list
}

// TestLanguage renders every construct and compares with what Jinja2 made of it.
func TestLanguage(t *testing.T) {
	templates := languageTemplates(t)
	if *update {
		data, err := json.MarshalIndent(reference(t, languageVars, templates), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(languageGold, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var want []rendering
	readJSON(t, languageGold, &want)
	if len(want) != len(templates) {
		t.Fatalf("%s holds %d renderings of %d: run with -update where python3 has jinja2", languageGold, len(want), len(templates))
	}
	vars, err := ParseJSON([]byte(languageVars))
	if err != nil {
		t.Fatal(err)
	}
	var count tally
	refusals := map[string]bool{}
	for i, source := range templates {
		tmpl, err := Compile(source)
		text := ""
		if err == nil {
			text, err = tmpl.Render(vars)
		}
		reason := refused[source]
		if reason == "" {
			count.check(t, source, text, err, want[i].Out, want[i].Err)
			continue
		}
		count.run++
		refusals[source] = true
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %q, %v, want an error with %q", source, text, err, reason)
		}
	}
	if len(refusals) < len(refused) {
		t.Errorf("%d refusals were tried, %d are listed", len(refusals), len(refused))
	}
	count.report(t, "language.txt", len(templates))
}

// TestLanguageReference compares the golden file with the Jinja2 that is installed.
func TestLanguageReference(t *testing.T) {
	templates := languageTemplates(t)
	got := reference(t, languageVars, templates)
	var want []rendering
	readJSON(t, languageGold, &want)
	for i, source := range templates {
		same := got[i].Out != nil && want[i].Out != nil && (*got[i].Out == *want[i].Out || address.MatchString(*want[i].Out))
		if !same && (got[i].Err == nil || want[i].Err == nil) {
			t.Errorf("%s: Jinja2 makes something else of it than the golden file has", source)
		}
	}
}

const languageGold = "testdata/language.json"

var update = flag.Bool("update", false, "rewrite testdata/language.json with Jinja2")

type rendering struct{ Out, Err *string }

// reference renders templates with Jinja2.
func reference(t testing.TB, vars string, templates []string) []rendering {
	t.Helper()
	if err := exec.Command("python3", "-c", "import jinja2").Run(); err != nil {
		t.Skip("python3 with jinja2 is not installed: nothing to compare with")
	}
	job, err := json.Marshal(map[string]any{"vars": json.RawMessage(vars), "templates": templates})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "testdata/reference.py")
	cmd.Stdin = bytes.NewReader(job)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("reference.py: %v", err)
	}
	var list []rendering
	if err := json.Unmarshal(out, &list); err != nil || len(list) != len(templates) {
		t.Fatalf("reference.py: %d renderings of %d, %v", len(list), len(templates), err)
	}
	return list
}
