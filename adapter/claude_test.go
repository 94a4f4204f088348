package adapter_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/internal/cases"
)

// claudes are the versions that testdata/fetch/clis.sh brings.
var claudes = []string{"2.1.197", "2.1.332"}

// eachClaude runs a test with every version of Claude Code.
func eachClaude(t *testing.T, f func(t *testing.T, path string)) {
	for _, version := range claudes {
		t.Run(version, func(t *testing.T) { f(t, cases.Cache(t, "clis/claude-"+version, "clis")) })
	}
}

// script is what the model says, one text a turn; DIR stands for the
// repository.
func script(dir string, texts ...string) func(prompt string) string {
	return func(prompt string) string {
		return strings.ReplaceAll(texts[min(turnsSaid(prompt), len(texts)-1)], "DIR", dir)
	}
}

func TestClaudeCodeFixesABug(t *testing.T) {
	eachClaude(t, func(t *testing.T, path string) {
		var c *cliRig
		c = newCLIRig(t, func(prompt string) string {
			return script(c.dir,
				think("I should look first.", "I'll read it.\n"+call("Read", `{"file_path": "DIR/calc.py"}`)),
				call("Edit", `{"file_path": "DIR/calc.py", "old_string": "return a - b", "new_string": "return a + b"}`),
				call("Bash", `{"command": "python3 -c 'import calc; print(calc.add(1,2))'", "description": "check"}`),
				think("Done.", "Fixed add()."),
			)(prompt)
		})
		ses := c.open("s", optionsFor(t))
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		code, out := run(t, c.claude(ctx, path, ses.Token, task))
		rec := c.checkRun(t, code, out, 1)
		if fixed, _ := os.ReadFile(filepath.Join(c.dir, "calc.py")); !strings.Contains(string(fixed), "a + b") {
			t.Errorf("calc.py is %q; output:\n%s", fixed, lastBytes(out, 3000))
		}
		t.Logf("figure: %d turns in %d segments, rewrites %v", rec.Turns, len(rec.Segments), rec.Rewrites)
	})
}
