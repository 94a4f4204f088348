package harness_test

import (
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/harness"
)

func TestArgs(t *testing.T) {
	for _, c := range []struct{ text, want, refused string }{
		{"", "", ""},
		{"  --a 1\n", "--a 1", ""},
		{"--a 1\n--b 2\r\n  --c", "--a 1 --b 2   --c", ""},
		{"--a \\\n --b", "--a \\\n --b", ""},
		{"--a '{\"x\": \"it'\\''s;\\n\"}' \"b | 'c\" d\\;e x#y", "--a '{\"x\": \"it'\\''s;\\n\"}' \"b | 'c\" d\\;e x#y", ""},
		{"--a 'two\nlines'", "--a 'two\nlines'", ""},
		{"--a \"say \\\"no\\\"\" $HOME $(date; date) `id`", "--a \"say \\\"no\\\"\" $HOME $(date; date) `id`", ""},
		{"--a it's", "", "a ' is not closed"},
		{"--a \"x", "", "a \" is not closed"},
		{"--a \\", "", "backslash at its end"},
		{"--a; rm -rf x", "", "\";\" at byte 3"},
		{"--a & --b", "", "\"&\""},
		{"--a # --b", "", "\"#\""},
		{"--a >log", "", "\">\""},
		{"--a (x)", "", "\"(\""},
		{"a\x00b", "", "NUL"},
	} {
		got, err := harness.Args("EXTRA", c.text)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) || !strings.HasPrefix(err.Error(), "EXTRA: ") {
				t.Errorf("Args(%q): %q, %v; want an error of EXTRA that says %q", c.text, got, err, c.refused)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("Args(%q) = %q, %v; want %q", c.text, got, err, c.want)
		}
	}
}

func TestEnvs(t *testing.T) {
	for _, object := range []string{`{"A": 1}`, `[]`, `{"A"`, `{"": "x"}`, `{"A=B": "x"}`, `{"A": "\u0000"}`, `{"\u0000": ""}`} {
		if got, err := harness.Envs("EXTRA", object); err == nil || !strings.HasPrefix(err.Error(), "EXTRA: ") {
			t.Errorf("Envs(%s) = %v, %v; want an error of EXTRA", object, got, err)
		}
	}
	if got, err := harness.Envs("EXTRA", `{"A": "b = 'c'\n", "D": ""}`); err != nil || got["A"] != "b = 'c'\n" || len(got) != 2 {
		t.Errorf("Envs: %v, %v", got, err)
	}
}
