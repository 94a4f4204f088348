package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/examples/internal/grading"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// TestRegradeARun grades the patches of a run's records again.
func TestRegradeARun(t *testing.T) {
	dir := t.TempDir()
	text := "41"
	g := &agentrl.Generator{
		Config: agentrl.Config{RunDir: dir}, Protocol: &swetest.Protocol{}, Sandboxes: &sandboxtest.Fake{}, Adapter: &adaptertest.Fake{},
		Logger: slog.New(slog.DiscardHandler),
		Harness: &harnesstest.Fake{OnRun: func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
			err := sb.WriteFile(ctx, job.Workdir+"/"+swetest.AnswerFile, sandbox.AgentUser, strings.NewReader(text))
			return harness.Report{Outcome: harness.Finished}, err
		}},
	}
	row := agentrl.Sample{Metadata: map[string]any{"instance_id": "sum", "image": "any", "workdir": "/repo", "want": "42"}}
	for _, text = range []string{"41", "42"} {
		if _, err := g.Generate(t.Context(), row, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "half.json"), []byte(`{"version":1,`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	o := options{run: dir, out: filepath.Join(t.TempDir(), "out.jsonl"), parallel: 1}
	if err := run(t.Context(), o, g, &out); err != nil {
		t.Fatal(err)
	}
	results, err := grading.ReadLines[result](o.out)
	if err != nil || len(results) != 2 {
		t.Fatalf("results %+v, %v", results, err)
	}
	for i, want := range []swe.Outcome{swe.Failed, swe.Solved} {
		if r := results[i]; r.Before != want || r.After != want || r.Err != "" {
			t.Errorf("result %d = %+v, want %s before and after", i, r, want)
		}
	}
	if !strings.Contains(out.String(), "half.json: the record is cut short") || !strings.Contains(out.String(), "2 patches, 0 changed") {
		t.Errorf("said %s", out.String())
	}
}
