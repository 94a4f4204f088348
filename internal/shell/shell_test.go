package shell

import (
	"os/exec"
	"testing"
)

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a", "it's", "''", "$HOME `x` \\ \"", "two\nlines", "-n", "\xff\xfe", "*?[a]", "日本"} {
		out, err := exec.Command("sh", "-c", "printf %s "+Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("sh reads Quote(%q) as %q, %v", s, out, err)
		}
	}
}
