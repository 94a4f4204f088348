package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
	"github.com/agentrl-go/agentrl/examples/internal/grading"
	"github.com/agentrl-go/agentrl/sandbox"
)

// counted counts sandboxes and, for the flaky row, changes its image between
// them.
type counted struct {
	sandbox.Provider
	coin  string // a file of the flaky row's image
	boots atomic.Int64
}

func (p *counted) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	n := p.boots.Add(1)
	if err := os.WriteFile(p.coin, fmt.Appendf(nil, "%d\n", n%2), 0o644); err != nil {
		return nil, err
	}
	return p.Provider.Create(ctx, spec)
}

func gold(task demo.Task) string {
	return "diff --git a/token.sh b/token.sh\n--- a/token.sh\n+++ b/token.sh\n@@ -1,2 +1,2 @@\n # prints the access token\n-echo unknown\n+echo " + task.Nonce + "\n"
}

// fiveRows are a good row, and four that can't be trained on.
func fiveRows(t *testing.T, dir string) []agentrl.Sample {
	var rows []agentrl.Sample
	for i, name := range []string{"good", "gold-fails", "empty-passes", "flaky", "wrong-workdir"} {
		task, err := demo.NewTask(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		row := task.Sample(demo.Image, int64(i), 0)
		row.Metadata["patch"] = gold(task)
		switch name {
		case "gold-fails":
			row.Metadata["eval_cmd"] = "false"
		case "empty-passes":
			row.Metadata["eval_cmd"] = "true"
		case "flaky":
			row.Metadata["eval_cmd"] = "sh run_tests.sh && grep -q 0 " + filepath.Join(dir, "coin")
		case "wrong-workdir":
			row.Metadata["workdir"] = filepath.Join(dir, "nowhere")
		}
		rows = append(rows, row)
	}
	return rows
}

func TestPreflight(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	if os.Getuid() != 0 {
		t.Skip("sandboxes with users need root")
	}
	dir, err := demo.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g, err := grading.Open("scaleswe", "local", true)
	if err != nil {
		t.Fatal(err)
	}
	boxes := &counted{Provider: g.Sandboxes, coin: filepath.Join(dir, "coin")}
	g.Sandboxes = boxes
	o := options{rows: dir + "/rows.jsonl", cache: dir + "/cache.jsonl", good: dir + "/good.jsonl", quarantine: dir + "/bad.jsonl", protocol: "scaleswe", runs: 3, parallel: 1}
	var lines bytes.Buffer
	for _, row := range fiveRows(t, dir) {
		if err := json.NewEncoder(&lines).Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(o.rows, lines.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"good": "good", "gold-fails": "gold_fails", "empty-passes": "empty_passes", "flaky": "flaky", "wrong-workdir": "broken"}
	for _, source := range []string{"tried", "cached"} {
		before := boxes.boots.Load()
		var out strings.Builder
		if err := run(t.Context(), o, g, &out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			f := strings.Fields(line)
			if f[1] != want[f[0]] || f[2] != source {
				t.Errorf("%swant %s, %s", line, want[f[0]], source)
			}
			t.Logf("figure: %s", strings.Join(f, " "))
		}
		t.Logf("figure: %d sandboxes booted", boxes.boots.Load()-before)
	}
	quarantined, err := grading.ReadLines[agentrl.Sample](o.quarantine)
	if err != nil || len(quarantined) != 4 || quarantined[0].Metadata["preflight"] == nil {
		t.Errorf("quarantine: %d rows, %v", len(quarantined), err)
	}
	if kept, err := grading.ReadLines[agentrl.Sample](o.good); err != nil || len(kept) != 1 || grading.ID(kept[0]) != "good" {
		t.Errorf("good: %v, %v", kept, err)
	}
}

// TestRowsWithoutMetadata are quarantined like others, and end nothing.
func TestRowsWithoutMetadata(t *testing.T) {
	dir := t.TempDir()
	o := options{rows: dir + "/rows.jsonl", cache: dir + "/cache.jsonl", good: dir + "/good.jsonl", quarantine: dir + "/bad.jsonl", protocol: "scaleswe", runs: 1, parallel: 2}
	if err := os.WriteFile(o.rows, []byte(`{"prompt":"x"}`+"\n"+`{"prompt":"y","metadata":null}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g, err := grading.Open("scaleswe", "local", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), options{rows: o.rows}, g, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "-runs 0 -parallel 0") {
		t.Errorf("nothing to do: %v", err)
	}
	if err := run(t.Context(), o, g, &strings.Builder{}); err != nil {
		t.Fatal(err)
	}
	bad, err := grading.ReadLines[agentrl.Sample](o.quarantine)
	if err != nil || len(bad) != 2 || bad[1].Metadata["preflight"] == nil {
		t.Errorf("quarantine: %v, %v", bad, err)
	}
}
