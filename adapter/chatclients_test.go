//go:build linux

package adapter_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPiContinuesTheVeryIDs(t *testing.T) {
	path := filepath.Join(cli(t, "pi"), "node_modules/@earendil-works/pi-coding-agent/dist/cli.js")
	var c *cliRig
	c = newCLIRig(t, func(prompt string) string {
		return script(c.dir,
			think("I should read.\n", "\nReading the file. \n"+call("read", `{"path": "DIR/calc.py"}`)),
			call("edit", `{"path": "DIR/calc.py", "edits": [{"oldText": "return a - b", "newText": "return a + b"}]}`),
			think("two calls", call("bash", `{"command": "git diff --stat"}`)+"\n"+call("bash", `{ "command": "echo trunc`)+"\n"),
			"Trying.\n"+call("bash", `{"command": "sleep 1; echo 1"}`)+"\n"+call("bash", `{"command": "echo 2", "timeout": 5.0}`),
			call("no_such_tool", `{"a": 9007199254740993}`),
			think("done", "Fixed."),
		)(prompt)
	})
	code, out := c.play(t, c.pi, path)
	rec := c.checkRun(t, code, out, 1)
	if len(rec.Segments) != 1 {
		t.Errorf("%d segments, want 1", len(rec.Segments))
		c.explain(t, rec)
	}
	if rec.Turns != 6 {
		t.Errorf("%d turns, want 6; output:\n%s", rec.Turns, lastBytes(out, 3000))
	}
	t.Logf("figure: %d turns, rewrites %v", rec.Turns, rec.Rewrites)
}

// TestChatClientsRunNoMalformedCall: pi would make {} of what is no JSON, and run
// a tool that is content with that; opencode keeps another call than it was sent.
func TestChatClientsRunNoMalformedCall(t *testing.T) {
	for name, path := range map[string]string{"pi": filepath.Join(cli(t, "pi"), "node_modules/@earendil-works/pi-coding-agent/dist/cli.js"), "opencode": cli(t, "opencode-1.18.33")} {
		t.Run(name, func(t *testing.T) {
			var c *cliRig
			c = newCLIRig(t, func(prompt string) string {
				if strings.Contains(strings.ToLower(prompt[:min(len(prompt), 400)]), "title generator") {
					return "A title"
				}
				texts := malformed(c.dir, "bash", "command")
				extra := call("bash", `{"command": "touch DIR/EXECUTED99", "no_such_parameter": "x"}`)
				return script(c.dir, append([]string{extra}, texts...)...)(prompt)
			})
			launcher := c.pi
			if name == "opencode" {
				launcher = c.opencode
			}
			code, out := c.play(t, launcher, path)
			rec := c.checkRun(t, code, out, 1+c.titles())
			if ran := executed(t, c.dir); len(ran) > 0 || rec.Turns != 27 {
				t.Errorf("%d turns, want 27; executed: %v; output:\n%s", rec.Turns, ran, lastBytes(out, 3000))
			}
			t.Logf("figure: %s: %d turns with 21 malformed and 5 cut calls, none executed, rewrites %v", name, rec.Turns, rec.Rewrites)
		})
	}
}

// TestOpencodeContinuesTheVeryIDs: opencode asks for a title beside its task,
// which is served and not trained.
func TestOpencodeContinuesTheVeryIDs(t *testing.T) {
	path := cli(t, "opencode-1.18.33")
	var c *cliRig
	c = newCLIRig(t, func(prompt string) string {
		if strings.Contains(strings.ToLower(prompt[:min(len(prompt), 400)]), "title generator") {
			return "A title"
		}
		return script(c.dir,
			think("I should read.\n", "\nReading the file. \n"+call("read", `{"filePath": "DIR/calc.py"}`)),
			call("edit", `{"filePath": "DIR/calc.py", "oldString": "return a - b", "newString": "return a + b"}`),
			think("two calls", call("bash", `{"command": "git diff --stat", "description": "d"}`)+"\n"+call("bash", `{ "command": "echo trunc`)+"\n"),
			"Trying.\n"+call("bash", `{"command": "sleep 1; echo 1", "description": "d"}`)+"\n"+call("bash", `{"command": "echo 2", "timeout": 5000.0, "description": "d"}`),
			call("no_such_tool", `{"a": 9007199254740993}`),
			think("done", "Fixed."),
		)(prompt)
	})
	code, out := c.play(t, c.opencode, path)
	rec := c.checkRun(t, code, out, 1+c.titles())
	if len(rec.Segments) != 1+c.titles() {
		t.Errorf("%d segments, want one and the titles", len(rec.Segments))
		c.explain(t, rec)
	}
	if rec.Turns != 6 {
		t.Errorf("%d turns, want 6; output:\n%s", rec.Turns, lastBytes(out, 3000))
	}
	if fixed, _ := os.ReadFile(filepath.Join(c.dir, "calc.py")); !strings.Contains(string(fixed), "a + b") {
		t.Errorf("calc.py is %q; output:\n%s", fixed, lastBytes(out, 3000))
	}
	t.Logf("figure: %d turns, %d side calls, rewrites %v", rec.Turns, rec.SideCalls, rec.Rewrites)
}

// titles counts the requests for a title, each of which begins anew.
func (c *cliRig) titles() (n int) {
	for _, g := range c.engine.Log() {
		if c.tok.Decode(g.Output) == "A title<|im_end|>" {
			n++
		}
	}
	return n
}
