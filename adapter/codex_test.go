//go:build linux

package adapter_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

func codexPath(t *testing.T) string { return cli(t, "codex-0.171.0") }

// codexCorners holds what Codex could change of a turn before it sends it back.
func codexCorners(dir string) []string {
	exec := func(args string) string { return call("exec_command", args) }
	return []string{
		think("\nthink\n", "\n\nHello  \n"+exec(`{"cmd": "ls -la"}`)),
		think("a", exec(`{ "workdir" : "/tmp",   "cmd":"pwd" }`)+"\n"+exec(`{"cmd":"echo 2"}`)+"\n"+call("view_image", `{"path": "nope.png"}`)),
		"bad " + "<tool_call>\n{\"name\": \"exec_command\", \"arguments\": {\"cmd\": \"echo trunc\n</tool_call>",
		call("no_such_tool", `{"a": 1}`) + "\n" + exec(`{"cmd": "false"}`),
		"one\n" + exec(`{"cmd": "echo x"}`) + "\nafter",
		exec(`{"cmd": "sleep 1; echo slow", "yield_time_ms": 250}`),
		exec(`{"cmd": "yes | head -c 200000"}`),
		exec(`{"cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: calc.py\n@@\n def add(a, b):\n-    return a - b\n+    return a + b\n*** End Patch\nEOF\n", "workdir": "` + dir + `"}`),
		call("update_plan", `{"plan": [{"step": "a", "status": "completed"}]}`),
		exec(`{"cmd": "echo 9007199254740993", "max_output_tokens": 1000.0}`),
		think("done", "All done.\n"),
	}
}

func TestCodexContinuesTheVeryIDs(t *testing.T) {
	path := codexPath(t)
	var c *cliRig
	c = newCLIRig(t, func(prompt string) string { return script(c.dir, codexCorners(c.dir)...)(prompt) })
	code, out := c.play(t, c.codex, path)
	rec := c.checkRun(t, code, out, 1)
	if want := len(codexCorners("")); rec.Turns != want {
		t.Errorf("%d turns, want %d; output:\n%s", rec.Turns, want, lastBytes(out, 3000))
	}
	if fixed, _ := os.ReadFile(filepath.Join(c.dir, "calc.py")); !strings.Contains(string(fixed), "a + b") {
		t.Errorf("calc.py is %q; output:\n%s", fixed, lastBytes(out, 3000))
	}
	t.Logf("figure: %d turns, %d/%d continue the very ids, rewrites %v", rec.Turns, rec.Turns-roots(c.engine.Log()), rec.Turns-1, rec.Rewrites)
}

func TestCodexRunsNoMalformedCall(t *testing.T) {
	path := codexPath(t)
	var c *cliRig
	c = newCLIRig(t, func(prompt string) string { return script(c.dir, malformed(c.dir, "exec_command", "cmd")...)(prompt) })
	code, out := c.play(t, c.codex, path)
	rec := c.checkRun(t, code, out, 1)
	if ran := executed(t, c.dir); len(ran) > 0 || rec.Turns != 26 {
		t.Errorf("%d turns, want 26; executed: %v; output:\n%s", rec.Turns, ran, lastBytes(out, 3000))
	}
	t.Logf("figure: %d turns with 20 malformed and 5 cut calls, none executed", rec.Turns)
}

// TestCodexOutlivesAMisusedCustomTool calls a tool of free text with what is none,
// beside a call that is well: Codex fails on such a call if it reaches that tool,
// and loses what the others came to.
func TestCodexOutlivesAMisusedCustomTool(t *testing.T) {
	path := codexPath(t)
	for _, args := range []string{`{"patch": "*** Begin Patch"}`, `{"input": 5}`, `{}`} {
		c := newCLIRig(t, func(prompt string) string {
			return script("", call("apply_patch", args)+"\n"+call("exec_command", `{"cmd": "echo stay; echo ing"}`), "Done.")(prompt)
		})
		code, out := c.play(t, func(ctx context.Context, path, token, prompt string, lines ...string) *exec.Cmd {
			cmd := c.codex(ctx, path, token, prompt, lines...)
			cmd.Args = append(cmd.Args, "-m", "gpt-5.5") // of those that are given apply_patch
			return cmd
		}, path)
		c.checkRun(t, code, out, 1)
		log := c.engine.Log()
		prompt := lastBytes(c.tok.Decode(log[len(log)-1].Prompt), 1000)
		if bad, good := strings.Index(prompt, "unsupported call"), strings.Index(prompt, "stay\ning"); bad < 0 || good < bad {
			t.Errorf("%s: the model is told %q; output:\n%s", args, prompt, lastBytes(out, 1500))
		}
	}
}

func TestCodexSubagentAndCompaction(t *testing.T) {
	path := codexPath(t)
	var c *cliRig
	c = newCLIRig(t, func(prompt string) string {
		switch {
		case strings.Contains(lastBytes(prompt, 3000), "You are performing a CONTEXT CHECKPOINT COMPACTION"):
			return "SUMMARY: we print numbers."
		case strings.Contains(prompt, "SUMMARY: we print numbers."):
			return script(c.dir, call("exec_command", `{"cmd": "echo after"}`), "Finished.")(prompt[strings.LastIndex(prompt, "SUMMARY: we"):] + "<|im_start|>assistant\n")
		case strings.Contains(prompt, "SUBTASK") && !strings.Contains(prompt, task):
			return script(c.dir, call("exec_command", `{"cmd": "cat calc.py"}`), "REPORT: line 2")(prompt)
		}
		switch n := turnsSaid(prompt); n {
		case 0:
			return call("spawn_agent", `{"message": "SUBTASK: find the bug"}`)
		case 1:
			_, after, _ := cutLast(prompt, `agent_id\":\"`)
			if after == "" {
				_, after, _ = cutLast(prompt, `agent_id":"`)
			}
			id, _, _ := strings.Cut(after, `"`)
			return call("wait_agent", `{"targets": ["`+strings.TrimSuffix(id, `\`)+`"], "timeout_ms": 20000}`)
		default:
			return call("exec_command", fmt.Sprintf(`{"cmd": "seq %d000 %d900"}`, n, n))
		}
	})
	code, out := c.play(t, c.codex, path, "model_context_window = 40000")
	rec := c.checkRun(t, code, out, 4)
	kinds, labels := map[chat.Kind]int{}, map[chat.Kind]int{}
	for _, seg := range rec.Segments {
		labels[seg.Label]++
		for _, turn := range seg.Turns {
			if turn.Owned {
				kinds[turn.Kind]++
			}
		}
	}
	if kinds[chat.Compaction] != 1 || kinds[chat.Subagent] != 2 || labels[chat.Subagent] != 1 {
		t.Errorf("turns by kind %v, segments by label %v; output:\n%s", kinds, labels, lastBytes(out, 3000))
		c.explain(t, rec)
	}
	t.Logf("figure: %d turns by kind %v, segments by label %v", rec.Turns, kinds, labels)
}

// TestCodexAfterABrokenStream breaks Codex's first stream off within, after and
// between its items: it asks again with what it has, runs no call twice and ends
// well.
func TestCodexAfterABrokenStream(t *testing.T) {
	path := codexPath(t)
	for _, row := range []struct {
		name  string
		after int // events: two that begin, six of each text, four of the call
		ran   int // times that the call was executed
	}{
		{"before the first item", 2, 0},
		{"within the reasoning", 5, 0},
		{"after the reasoning", 8, 0},
		{"within the text", 11, 0},
		{"after the text", 14, 0},
		{"within the call", 16, 0},
		{"after the call, before the end", 18, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c *cliRig
			c = newCLIRig(t, func(prompt string) string {
				if !strings.Contains(prompt, "R-why") {
					return think("R-why", "M-text.\n"+call("exec_command", `{"cmd": "echo ran >> `+c.dir+`/RAN"}`))
				}
				return "All done."
			})
			b := &breaker{after: row.after}
			b.next = c.server
			front := httptest.NewServer(b)
			defer front.Close()
			c.url = front.URL
			code, out := c.play(t, c.codex, path)
			ran, _ := os.ReadFile(filepath.Join(c.dir, "RAN"))
			rec := c.finish("s")
			want := row.ran
			if row.after < 8 { // nothing came: the same is said again, and heard
				want = 1
			}
			if n := strings.Count(string(ran), "ran"); code != 0 || n != want {
				t.Errorf("exit %d, the call ran %d times, want 0, %d; output:\n%s", code, n, want, lastBytes(out, 2000))
			}
			for i, seg := range rec.Segments {
				if seg.Untrained != "" {
					t.Errorf("segment %d is not trainable: %s", i, seg.Untrained)
				}
			}
			t.Logf("figure: %s: exit %d, the call ran %d times, %d generations, %d turns, %d abandoned", row.name, code, want, len(c.engine.Log()), rec.Turns, rec.Abandoned)
		})
	}
}
