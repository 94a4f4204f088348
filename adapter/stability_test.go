//go:build linux

package adapter_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
)

// long makes a session of that many turns of plain work.
func long(dir string, turns int) []string {
	var texts []string
	for i := range turns - 1 {
		text := think(fmt.Sprintf("Step %d.", i), "On it.\n")
		switch i % 5 {
		case 0:
			text += call("Read", `{"file_path": "`+dir+`/calc.py"}`)
		case 1:
			text += call("Bash", fmt.Sprintf(`{"command": "echo %d >> log.txt; cat log.txt | tail -3", "description": "write"}`, i))
		case 2:
			text += call("Write", fmt.Sprintf(`{"file_path": "%s/f%d.txt", "content": "line\nline %d\n"}`, dir, i, i))
		case 3:
			text += call("Bash", `{"command": "false", "description": "fail"}`) + "\n" + call("Read", `{"file_path": "`+dir+`/PROBLEM_STATEMENT.md"}`)
		case 4:
			text += call("Bash", `{"command": "seq 1 20000", "description": "long output"}`)
		}
		texts = append(texts, text)
	}
	return append(texts, "Finished.")
}

// TestStabilityTable runs the sessions of which each request is compared with
// what was sent and sampled before it: prompt by prompt, id by id.
func TestStabilityTable(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	for _, row := range []struct {
		name   string
		codex  bool
		script func(dir string) []string
		set    []string
	}{
		{"Claude Code, 40 turns", false, func(dir string) []string { return long(dir, 40) }, nil},
		{"Claude Code, label claude-sonnet-4-5, 20 turns", false, func(dir string) []string { return long(dir, 20) }, []string{"ANTHROPIC_MODEL=claude-sonnet-4-5"}},
		{"Claude Code, background tasks, 10 turns", false, func(dir string) []string { return long(dir, 10) }, []string{"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=0"}},
		{"Claude Code, no thinking, 10 turns", false, func(dir string) []string { return long(dir, 10) }, []string{"MAX_THINKING_TOKENS=0"}},
		{"Claude Code, corner cases", false, rewritten, nil},
		{"Codex, corner cases", true, codexCorners, nil},
		{"Codex, own small configuration", true, codexCorners, []string{"[skills]\ninclude_instructions = false"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c *cliRig
			c = newCLIRig(t, func(prompt string) string { return script(c.dir, row.script(c.dir)...)(prompt) })
			cmd, path := launch(c.claude), newest(t)
			if row.codex {
				cmd, path = c.codex, codexPath(t)
			}
			code, out := c.play(t, cmd, path, row.set...)
			rec := c.checkRun(t, code, out, 1)
			t.Logf("figure: %s: %d/%d stable, rewrites %v", row.name, rec.Turns-roots(c.engine.Log()), rec.Turns-1, rec.Rewrites)
		})
	}
}

// TestSoakSilence has an engine that says nothing for more than 400 s of real
// time under every client. It runs where AGENTRL_SOAK is set.
func TestSoakSilence(t *testing.T) {
	if os.Getenv("AGENTRL_SOAK") == "" {
		t.Skip("AGENTRL_SOAK is not set: seven minutes of silence")
	}
	const silence = 420 * time.Second
	var wg sync.WaitGroup
	for _, client := range append([]string{"codex-0.171.0", "pi"}, "claude-"+claudes[0], "claude-"+claudes[1]) {
		path := cli(t, client)
		c := newCLIRig(t, func(string) string { return "Done." }, func(s *cliSetup) { s.engine.PerToken = silence / 3 })
		ses := c.open("s", adapter.SessionOptions{})
		ctx, cancel := context.WithTimeout(context.Background(), silence+patience)
		defer cancel()
		cmd := c.claude(ctx, path, ses.Token, task)
		switch {
		case strings.HasPrefix(client, "codex"):
			cmd = c.codex(ctx, path, ses.Token, task)
		case client == "pi":
			cmd = c.pi(ctx, filepath.Join(path, "node_modules/@earendil-works/pi-coding-agent/dist/cli.js"), ses.Token, task)
		}
		wg.Go(func() {
			code, out := run(t, cmd)
			n := len(c.engine.Log())
			if code != 0 || n != 1 {
				t.Errorf("%s: exit %d after %d generations, want 0 after 1; output:\n%s", client, code, n, lastBytes(out, 1500))
			}
			t.Logf("figure: %s: exit %d, %d generation of %v", client, code, n, silence)
		})
	}
	wg.Wait()
}
