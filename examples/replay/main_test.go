package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/examples/internal/demo"
	"github.com/agentrl-go/agentrl/internal/cases"
)

// record runs the quickstart with a recorder and returns the recording and a
// checkpoint.
func record(t *testing.T, env ...string) (path, checkpoint string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "../quickstart", "-json")
	cmd.Env = append(append(os.Environ(), "AGENTRL_RECORD_DIR="+dir), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"status":"completed"`) {
		t.Fatalf("%v\n%s%s", err, out, said.String())
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("recordings %v, %v", paths, err)
	}
	checkpoint, err = demo.Checkpoint(filepath.Join(t.TempDir(), "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return paths[0], checkpoint
}

// replayed checks that a recording comes out the same, and with another
// reasoning parser differs where that shows first.
func replayed(t *testing.T, path, checkpoint string) {
	t.Helper()
	o := options{recording: path, checkpoint: checkpoint, tool: asRecorded, reasoning: asRecorded}
	var out strings.Builder
	if same, err := run(t.Context(), o, &out); err != nil || !same {
		t.Fatalf("the replay differs: %v\n%s", err, out.String())
	}
	t.Logf("figure: %s", strings.ReplaceAll(strings.TrimSpace(out.String()), "\n", "; "))
	out.Reset()
	o.reasoning = ""
	if same, err := run(t.Context(), o, &out); err != nil || same || !strings.Contains(out.String(), "in what turn 0 sampled") {
		t.Fatalf("without the reasoning parser: same %v, %v\n%s", same, err, out.String())
	}
	t.Logf("figure: without the reasoning parser %s", strings.Split(out.String(), "\n")[1])
}

func TestReplayOfMini(t *testing.T) {
	path, checkpoint := record(t)
	replayed(t, path, checkpoint)
}

// TestReplayOfClaudeCode is over a run of the real program, where
// testdata/fetch/harness.sh has brought it.
func TestReplayOfClaudeCode(t *testing.T) {
	if os.Getenv("AGENTRL_CLIS") == "" {
		t.Skip("AGENTRL_CLIS is not set: the real CLIs are not run")
	}
	program := cases.Cache(t, "harness/claude-2.1.332-linux-x64.tgz", "harness")
	path, checkpoint := record(t, "SWE_AGENT=claude_code", "SLIME_AGENT_CC_TARBALL="+program)
	replayed(t, path, checkpoint)
}

func TestReplayRefuses(t *testing.T) {
	if _, err := run(t.Context(), options{}, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "-recording FILE") {
		t.Errorf("no recording: %v", err)
	}
}
