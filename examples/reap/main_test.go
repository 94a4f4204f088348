package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

// TestReapCommand reaps what a ledger names whose process is gone.
func TestReapCommand(t *testing.T) {
	tmp := t.TempDir()
	binary := filepath.Join(tmp, "reap")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	dir := filepath.Join(tmp, "ledger")
	l, err := sandbox.OpenLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := l.Wrap("local", &local.Provider{Want: local.Plain}).Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	out, err := exec.Command(binary, "-ledger", dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "0 killed, 1 live") {
		t.Errorf("reap while the process lives: %v: %s", err, out)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command(binary, "-ledger", dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "killed "+sb.ID()) {
		t.Errorf("reap when it is dead: %v: %s", err, out)
	}
	out, err = exec.Command(binary, "-ledger", dir, "-backend", "local").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "names the run, or an age") {
		t.Errorf("reap by no label: %v: %s", err, out)
	}
}
