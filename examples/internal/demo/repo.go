// Package demo is the small world that the examples play in: a git repository
// with a failing test, and a policy that can only fix it by reading the prompt
// that it is given.
package demo

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agentrl-go/agentrl"
)

// A Task is one repository whose test wants a token that nobody knows before
// the test was run.
type Task struct {
	Name  string
	Dir   string // of the repository on this machine
	Nonce string // what the test wants: drawn when the repository is made
}

// Image is the sandbox image of the demo: this machine itself, copy on write.
const Image = "host"

var files = map[string]string{
	"README.md":    "# tokens\n\n`token.sh` prints the access token. `sh run_tests.sh` checks it.\n",
	"token.sh":     "# prints the access token\necho unknown\n",
	"run_tests.sh": "got=$(sh token.sh)\nif [ \"$got\" != NONCE ]; then\n\techo \"FAIL token_test: want NONCE, got $got\"\n\texit 1\nfi\necho \"ok token_test\"\n",
}

// NewTask makes the repository in a new folder below parent.
func NewTask(parent, name string) (Task, error) {
	var secret [6]byte
	_, _ = rand.Read(secret[:]) // never fails: see its doc
	t := Task{Name: name, Dir: filepath.Join(parent, name), Nonce: hex.EncodeToString(secret[:])}
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return t, err
	}
	for file, text := range files {
		if file == "run_tests.sh" {
			text = strings.ReplaceAll(text, "NONCE", t.Nonce)
		}
		if err := os.WriteFile(filepath.Join(t.Dir, file), []byte(text), 0o644); err != nil {
			return t, err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"},
		{"-c", "user.name=demo", "-c", "user.email=demo@example.invalid", "commit", "-q", "-m", "Print the access token"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = t.Dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return t, fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	return t, nil
}

// Sample is the task as a dataset row, by the scaleswe protocol.
func (t Task) Sample(image string, index, group int64) agentrl.Sample {
	return agentrl.Sample{
		Index: &index, GroupIndex: &group,
		Prompt: agentrl.Prompt{Text: "token.sh prints the wrong access token: the test fails. Make the test pass."},
		Metadata: map[string]any{
			"instance_id": t.Name, "image": image, "workdir": t.Dir, "eval_cmd": "sh run_tests.sh",
		},
	}
}

// TempDir makes a folder for the demo that an agent, who is another user, can
// read; on the root file system where it may be written, since that is what a
// local sandbox is layered over.
func TempDir() (string, error) {
	parent := ""
	if os.Getuid() == 0 {
		parent = "/var/tmp"
	}
	dir, err := os.MkdirTemp(parent, "agentrl-demo-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}
