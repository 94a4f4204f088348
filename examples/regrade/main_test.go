package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentrl-go/agentrl/examples/internal/demo"
	"github.com/agentrl-go/agentrl/examples/internal/grading"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

type counted struct {
	sandbox.Provider
	boots atomic.Int64
}

func (p *counted) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	p.boots.Add(1)
	return p.Provider.Create(ctx, spec)
}

// TestRegrade grades five stored patches, among them an empty one and one that
// does not apply, in as many sandboxes as there is something to grade.
func TestRegrade(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("sandboxes with users need root")
	}
	dir, err := demo.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	task, err := demo.NewTask(dir, "task")
	if err != nil {
		t.Fatal(err)
	}
	edit := func(to string) string {
		return "diff --git a/token.sh b/token.sh\n--- a/token.sh\n+++ b/token.sh\n@@ -1,2 +1,2 @@\n # prints the access token\n-echo unknown\n+echo " + to + "\n"
	}
	list := []map[string]any{
		{"instance_id": "task", "patch": edit(task.Nonce), "outcome": "failed"},
		{"instance_id": "task", "patch": edit("wrong"), "outcome": "failed"},
		{"instance_id": "task", "patch": swe.Patch{Bytes: []byte(edit(task.Nonce))}, "outcome": "solved"},
		{"instance_id": "task", "patch": "", "outcome": "empty_patch"},
		{"instance_id": "task", "patch": strings.ReplaceAll(edit("x"), "unknown", "other"), "outcome": "patch_rejected"},
	}
	write := func(path string, values ...any) {
		var b bytes.Buffer
		for _, v := range values {
			if err := json.NewEncoder(&b).Encode(v); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := options{rows: dir + "/rows.jsonl", patches: dir + "/patches.jsonl", out: dir + "/out.jsonl", parallel: 2}
	write(o.rows, task.Sample(demo.Image, 0, 0))
	write(o.patches, list[0], list[1], list[2], list[3], list[4])
	g, err := grading.Open("scaleswe", "local", false)
	if err != nil {
		t.Fatal(err)
	}
	boxes := &counted{Provider: g.Sandboxes}
	g.Sandboxes = boxes
	var out strings.Builder
	if err := run(t.Context(), o, g, &out); err != nil {
		t.Fatal(err)
	}
	results, err := grading.ReadLines[result](o.out)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []swe.Outcome{swe.Solved, swe.Failed, swe.Solved, swe.EmptyPatch, swe.PatchRejected} {
		if results[i].After != want {
			t.Errorf("patch %d: %s (%s%s), want %s", i, results[i].After, results[i].Eval.Reason, results[i].Err, want)
		}
	}
	if !strings.HasSuffix(out.String(), "5 patches, 1 changed, 0 could not be graded\n") {
		t.Error(out.String())
	}
	t.Logf("figure: %d stored patches graded in %d sandboxes, no agent: there is no harness", len(results), boxes.boots.Load())
}

// TestWhatCouldNotBeGraded is no change, and is counted apart.
func TestWhatCouldNotBeGraded(t *testing.T) {
	var out strings.Builder
	results := []result{{ID: "a", Before: swe.Solved, Err: "sandbox is gone"}, {ID: "b", Before: swe.Failed, After: swe.Solved}, {ID: "c", After: swe.Failed}}
	if err := write(t.TempDir()+"/out.jsonl", results, &out); err != nil {
		t.Fatal(err)
	}
	if want := "3 patches, 1 changed, 1 could not be graded\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("it says %s, want %s", out.String(), want)
	}
	if err := run(t.Context(), options{}, nil, &out); err == nil || !strings.Contains(err.Error(), "-parallel 0") {
		t.Errorf("-parallel 0: %v", err)
	}
}
