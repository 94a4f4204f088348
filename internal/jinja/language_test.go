package jinja

import (
	"bytes"
	"encoding/json"
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
	`{{ none[1:] }}`:                           "not subscriptable", // Jinja2 folds the constant, and raises only for variables
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

// TestLanguage compares every construct with Jinja2, where python3 has it.
func TestLanguage(t *testing.T) {
	templates := languageTemplates(t)
	want := reference(t, languageVars, templates)
	vars, err := ParseJSON([]byte(languageVars))
	if err != nil {
		t.Fatal(err)
	}
	var count tally
	for i, source := range templates {
		tmpl, err := Compile(source)
		text := ""
		if err == nil {
			text, err = tmpl.Render(vars)
		}
		if reason := refused[source]; reason != "" {
			count.run++
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: got %q, %v, want an error with %q", source, text, err, reason)
			}
			continue
		}
		count.check(t, source, text, err, want[i].Out, want[i].Err)
	}
	count.report(t, "language.txt", len(templates))
}

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
