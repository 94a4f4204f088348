//go:build linux

package adapter_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// claudes are the versions that testdata/fetch/clis.sh brings.
var claudes = []string{"2.1.197", "2.1.332"}

// eachClaude runs a test with every version of Claude Code.
func eachClaude(t *testing.T, f func(t *testing.T, path string)) {
	for _, version := range claudes {
		t.Run(version, func(t *testing.T) { f(t, cli(t, "claude-"+version)) })
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
		code, out := c.play(t, c.claude, path)
		rec := c.checkRun(t, code, out, 1)
		if fixed, _ := os.ReadFile(filepath.Join(c.dir, "calc.py")); !strings.Contains(string(fixed), "a + b") {
			t.Errorf("calc.py is %q; output:\n%s", fixed, lastBytes(out, 3000))
		}
		t.Logf("figure: %d turns in %d segments, rewrites %v", rec.Turns, len(rec.Segments), rec.Rewrites)
	})
}

// rewritten holds every input that Claude Code changes before it keeps it, and
// whatever else comes back otherwise than it was said.
func rewritten(dir string) []string {
	return []string{
		think("\nLet me look.\n", "\n\nLooking.  \n\n"+call("Bash", `{"command": "ls -la", "description": "List"}`)),
		"Parallel.\n" + call("Read", `{"file_path": "`+dir+`/calc.py"}`) + "\n" + call("Bash", `{"command": "sleep 1; git status", "description": "st"}`) +
			"\n" + call("Read", `{"file_path": "`+dir+`/PROBLEM_STATEMENT.md", "limit": 10, "offset": 1}`),
		think("order", call("Bash", `{ "description": "odd order",  "timeout": 5000, "command": "echo \u00e9 \"q\" | cat" }`)),
		call("Read", `{"file_path": "`+dir+`/calc.py", "offset": "1", "limit": "5"}`),
		call("Edit", `{"file_path": "`+dir+`/calc.py", "old_string": "return a - b", "new_string": "return a + b   "}`),
		call("Write", `{"file_path": "`+dir+`/new.py", "content": "x = 1   \n\n\n"}`),
		call("Read", `{"file_path": "calc.py"}`) + "\n" + call("Read", `{"file_path": "`+dir+`/nope.py"}`),
		"x\n" + call("NoSuchTool", `{"a": 1}`),
		call("Bash", `{"command": "echo trunc`) + "\n",
		call("Bash", `{"command": "cd `+dir+` && false", "description": "fail"}`),
		think("", call("Bash", `{"command": "echo b"}`)),
		"\n\n" + call("Bash", `{"command": "echo c", "timeout": 1e3}`),
		"\u4f60\u597d \u2028 tab\there\n" + call("Bash", `{"command": "printf 'a\\tb'", "timeout": 12345678901234567890, "run_in_background": false}`),
		call("Bash", `{"command": "find . -name calc.py -exec ls {} \\;", "description": "find"}`),
		call("Bash", `{"command": "echo early"}`) + "\nText after the call.",
		think("done", "All done.  \n"),
	}
}

func TestClaudeCodeRewritesAreNoForks(t *testing.T) {
	eachClaude(t, func(t *testing.T, path string) {
		var c *cliRig
		c = newCLIRig(t, func(prompt string) string { return script(c.dir, rewritten(c.dir)...)(prompt) })
		code, out := c.play(t, c.claude, path)
		rec := c.checkRun(t, code, out, 1)
		if want := len(rewritten("")); rec.Turns != want {
			t.Errorf("%d turns, want %d; output:\n%s", rec.Turns, want, lastBytes(out, 3000))
		}
		t.Logf("figure: %d turns, %d/%d continue the very ids, rewrites %v", rec.Turns, rec.Turns-roots(c.engine.Log()), rec.Turns-1, rec.Rewrites)
	})
}

// malformed makes texts of which the first 20 hold a malformed call and the next
// 5 are cut within one. Any of them that were executed would leave a file.
func malformed(dir string, tool, key string) []string {
	marker := func(i int) string { return fmt.Sprintf("touch %s/EXECUTED%d", dir, i) }
	shapes := []func(cmd string) string{
		func(cmd string) string {
			return "<tool_call>\n{\"name\": \"" + tool + "\", \"arguments\": {\"" + key + "\": \"" + cmd + "\n</tool_call>"
		},
		func(cmd string) string {
			return "<tool_call>\n{\"name\": \"" + tool + "\", \"arguments\": \"" + cmd + "\"}\n</tool_call>"
		},
		func(cmd string) string {
			return "<tool_call>\n{\"name\": \"" + tool + "\", \"arguments\": {\"" + key + "\": \"" + cmd + "\"}"
		},
		func(cmd string) string { return call(tool, `{"`+key+`": "`+cmd+`", "`+key+`": "`+cmd+`"}`) },
		func(cmd string) string { return call(tool, `{"`+key+`": ["`+cmd+`"]}`) },
	}
	var texts []string
	for i := range 20 {
		texts = append(texts, fmt.Sprintf("Try %d.\n", i)+shapes[i%len(shapes)](marker(i)))
	}
	for i := range 5 {
		texts = append(texts, fmt.Sprintf("Cut %d.\n", i)+"<tool_call>\n{\"name\": \""+tool+"\", \"arguments\": {\""+key+"\": \""+marker(20+i)+"⏎CUT")
	}
	return append(texts, "Gave up.")
}

// executed lists the files that malformed calls would have left.
func executed(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "EXECUTED*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestClaudeCodeRunsNoMalformedCall(t *testing.T) {
	eachClaude(t, func(t *testing.T, path string) {
		var c *cliRig
		c = newCLIRig(t, func(prompt string) string { return script(c.dir, malformed(c.dir, "Bash", "command")...)(prompt) })
		code, out := c.play(t, c.claude, path)
		rec := c.checkRun(t, code, out, 1)
		if ran := executed(t, c.dir); len(ran) > 0 {
			t.Errorf("executed: %v", ran)
		}
		if rec.Turns != 26 {
			t.Errorf("%d turns, want 26; output:\n%s", rec.Turns, lastBytes(out, 3000))
		}
		t.Logf("figure: %d turns with 20 malformed and 5 cut calls, none executed, rewrites %v", rec.Turns, rec.Rewrites)
	})
}

func TestClaudeCodeSubagents(t *testing.T) {
	eachClaude(t, func(t *testing.T, path string) {
		var c *cliRig
		c = newCLIRig(t, func(prompt string) string {
			if strings.Contains(prompt, "SUBTASK") && !strings.Contains(prompt, task) {
				return script(c.dir, think("sub", "Working.\n"+call("Bash", `{"command": "cat calc.py", "description": "x"}`)), "REPORT: line 2")(prompt)
			}
			return script(c.dir,
				"Dispatch.\n"+call("Agent", `{"description": "Find bug", "prompt": "SUBTASK: find the bug", "subagent_type": "general-purpose"}`)+"\n"+
					call("Agent", `{"description": "Find tests", "prompt": "SUBTASK: find tests", "subagent_type": "Explore"}`),
				call("Edit", `{"file_path": "DIR/calc.py", "old_string": "return a - b", "new_string": "return a + b"}`),
				"All done.",
			)(prompt)
		})
		code, out := c.play(t, c.claude, path)
		rec := c.checkRun(t, code, out, 3)
		labels := map[chat.Kind]int{}
		for _, seg := range rec.Segments {
			labels[seg.Label]++
		}
		if labels[chat.Main] != 1 || labels[chat.Subagent] != 2 {
			t.Errorf("segments by label: %v, want one main and two of sub-agents; output:\n%s", labels, lastBytes(out, 2000))
			c.explain(t, rec)
		}
		t.Logf("figure: %d turns, segments by label %v", rec.Turns, labels)
	})
}

func TestClaudeCodeCompacts(t *testing.T) {
	eachClaude(t, func(t *testing.T, path string) {
		var c *cliRig
		c = newCLIRig(t, func(prompt string) string {
			switch {
			case strings.Contains(lastBytes(prompt, 9000), "CRITICAL: Respond with TEXT ONLY"):
				return "<analysis>a</analysis>\n<summary>SUMMARY: we print numbers.</summary>"
			case strings.Contains(prompt, "SUMMARY: we print numbers."):
				return script(c.dir, call("Bash", `{"command": "echo after", "description": "e"}`), "Finished.")(prompt[strings.LastIndex(prompt, "SUMMARY: we"):] + "<|im_start|>assistant\n")
			}
			return call("Bash", fmt.Sprintf(`{"command": "seq %d000 %d900", "description": "e"}`, turnsSaid(prompt)+1, turnsSaid(prompt)+1))
		}, func(s *cliSetup) { s.maxContext = 60000 })
		code, out := c.play(t, c.claude, path)
		rec := c.checkRun(t, code, out, 2)
		labels := map[chat.Kind]int{}
		for _, turn := range rec.Segments {
			for _, st := range turn.Turns {
				labels[st.Kind]++
			}
		}
		if labels[chat.Compaction] == 0 {
			t.Errorf("no compaction among the turns: %v; output:\n%s", labels, lastBytes(out, 2000))
		}
		c.explain(t, rec)
		t.Logf("figure: %d turns, by kind %v, in %d segments", rec.Turns, labels, len(rec.Segments))
	})
}
