package parse

import "testing"

func TestPythonicProse(t *testing.T) {
	for _, c := range []struct {
		text            string
		calls, withheld int
	}{
		{"Use `[max(1, 2), abs(-3)]` here.", 0, 0},
		{"see [f(x)] and a[g()]", 0, 0},
		{"[1](Bash(x)) [Bash] [Bash (", 0, 0},
		{"[Bash(command=", 0, 1},
		{"[Bash(command='ls')]", 1, 0},
		{"[Bash(command='ls'), max(1)]", 1, 1},
		{"[Nope(a=1)]", 1, 0},
		{"I run <|python_start|>[Bash(command='ls')]<|python_end|> now.", 1, 0},
	} {
		got, err := ReadTools("pythonic", Strict, c.text, remoteTools(), false)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Calls) != c.calls || len(got.Withheld) != c.withheld {
			t.Errorf("ReadTools(%q): calls %v withheld %v, want %d and %d", c.text, got.Calls, got.Withheld, c.calls, c.withheld)
		}
	}
}
