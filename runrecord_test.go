package agentrl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// records reads a run directory in which every file is a record.
func records(t *testing.T, dir string) []*agentrl.RunRecord {
	t.Helper()
	var all []*agentrl.RunRecord
	for rec, err := range agentrl.ReadRunDir(dir) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

func TestRunRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	b := newBench(agentrl.Config{RunDir: dir, RunID: "run-7"})
	b.agent.OnRun = func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
		info := adapter.TurnInfo{ID: "turn", Prompt: 3, Output: 2, Finish: chat.FinishStop, Start: time.Now(), Duration: time.Second}
		if opened := b.adapter.Opened(); b.adapter.Turn(opened[len(opened)-1], info) != nil {
			t.Error("the session takes no turn")
		}
		return answer("42")(ctx, sb, job)
	}
	samples := b.generate(t)
	all := records(t, dir)
	if len(all) != 1 {
		t.Fatalf("%d records, want 1", len(all))
	}
	rec := all[0]
	if rec.RunID != "run-7" || rec.Mode != "generate" || rec.InstanceID != "sum" || rec.Session != "cagent-sum-0-0" || rec.Attempt != 1 ||
		rec.Reward != 1 || rec.Outcome != "solved" || rec.Samples != 1 || rec.Failure != nil || rec.Start.IsZero() || rec.Seconds <= 0 {
		t.Errorf("record %+v", rec)
	}
	var stages []string
	for _, s := range rec.Stages {
		stages = append(stages, string(s.Stage))
	}
	if diff := cmp.Diff(strings.Fields("parse open queue create install prepare run seal diff close queue create evaluate close finish drop"), stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if len(rec.Turns) != 1 || rec.Turns[0].ID != "turn" || rec.Turns[0].Kind != "main" || rec.Turns[0].Seconds != 1 {
		t.Errorf("turns %+v", rec.Turns)
	}
	if diff := cmp.Diff(samples[0].Tokens, rec.Segments[0].Tokens); diff != "" {
		t.Errorf("tokens (-sample +record):\n%s", diff)
	}
	if rec.Patch == nil || rec.Eval == nil || rec.Report == nil || rec.Report.Version != "1.0" {
		t.Errorf("patch %v, evaluation %v, report %v", rec.Patch, rec.Eval, rec.Report)
	}
	if again, err := b.Generate(t.Context(), rec.Row, nil); err != nil || *again[0].Reward != 1 {
		t.Errorf("the record's row is no row: %v, %v", again, err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("half-written files are left: %v", left)
	}
}

func TestRunRecordOfAFailure(t *testing.T) {
	dir := t.TempDir()
	b := newBench(agentrl.Config{RunDir: dir, RunSample: 1e-9})
	b.generate(t)
	b.agent.OnRun = func(context.Context, sandbox.Sandbox, harness.Job) (harness.Report, error) {
		return harness.Report{}, fmt.Errorf("exec: %w", sandbox.ErrGone)
	}
	aborted(t, b.generate(t), "exception:sandbox_gone")
	b.clean(t)
	all := records(t, dir)
	if len(all) != 1 {
		t.Fatalf("%d records, want that of the failure alone", len(all))
	}
	want := &agentrl.FailureRecord{Reason: "exception:sandbox_gone", Stage: agentrl.StageRun, Class: agentrl.ClassSandbox, Code: agentrl.CodeSandboxGone, Retryable: true}
	got := *all[0].Failure
	got.Message = ""
	if diff := cmp.Diff(want, &got); diff != "" || !strings.Contains(all[0].Failure.Message, "sandbox is gone") {
		t.Errorf("failure %+v\n%s", all[0].Failure, diff)
	}
	if len(all[0].Segments) != 1 {
		t.Errorf("the session's turns are not in the record of the failure: %d segments", len(all[0].Segments))
	}
	var run agentrl.StageRecord
	for _, s := range all[0].Stages {
		if s.Stage == agentrl.StageRun {
			run = s
		}
	}
	if !strings.Contains(run.Err, "sandbox is gone") {
		t.Errorf("stage run: %+v", run)
	}
}

// TestRunRecordOfAConversation is over the real adapter.
func TestRunRecordOfAConversation(t *testing.T) {
	f := newFleet(t, 3)
	f.Config.RunDir = t.TempDir()
	f.run(t, 1)
	rec := records(t, f.Config.RunDir)[0]
	talk := rec.Conversation(0)
	if len(rec.Segments) != 1 || len(talk) != 6 || talk[0].Role != chat.User || talk[5].Turn == "" || len(rec.Turns) != 3 {
		t.Fatalf("%d segments, %d turns, conversation %+v", len(rec.Segments), len(rec.Turns), talk)
	}
	text := ""
	seg := rec.Segments[0]
	for _, id := range seg.Tokens[seg.PromptLen:] {
		text += rec.Pieces[id]
	}
	if text != seg.Text || text == "" {
		t.Errorf("the pieces say %q, the segment %q", text, seg.Text)
	}
}

func TestRunDirThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b := newBench(agentrl.Config{RunDir: filepath.Join(file, "runs")})
		for range 5 {
			if s := b.generate(t)[0]; s.Status != agentrl.Completed {
				t.Errorf("status %s", s.Status)
			}
		}
		if n := strings.Count(b.log.String(), "run record was not written"); n != 1 {
			t.Errorf("%d warnings for 5 records within a minute, want 1", n)
		}
		time.Sleep(time.Minute)
		b.generate(t)
		if log := b.log.String(); !strings.Contains(log, "records=5") {
			t.Errorf("the second warning does not count the records:\n%s", log)
		}
	})
}

func TestRunRetention(t *testing.T) {
	dir := t.TempDir()
	b := newBench(agentrl.Config{RunDir: dir, RunKeep: 10})
	stale := filepath.Join(dir, ".20200101T000000.000Z-x-a1-00000000.json.tmp")
	for _, path := range []string{stale, filepath.Join(dir, "notes.txt")} {
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	for range 25 {
		b.generate(t)
		if n := len(records(t, dir)); n > 10 {
			t.Fatalf("%d records, want at most 10", n)
		}
	}
	if n := len(records(t, dir)); n < 9 {
		t.Errorf("%d records, want 9 or 10", n)
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dead writer's file is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Errorf("a file that is no record was removed: %v", err)
	}
}

func TestRunRecordsThatAreBroken(t *testing.T) {
	dir := t.TempDir()
	b := newBench(agentrl.Config{RunDir: dir})
	b.generate(t)
	paths, err := agentrl.RunRecordPaths(dir)
	if err != nil || len(paths) != 1 {
		t.Fatalf("RunRecordPaths = %v, %v", paths, err)
	}
	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.json": string(whole[:len(whole)/2]), "b.json": "", "c.json": `{"version":99}`, "d.json": `{"x":1}`, "e.json": "[]",
		"f.json": `{"version":1,"messages":[{"parent":0}]}`, "g.json": `{"version":1,"turns":7}`, "h.json": "nonsense",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := map[string]string{}
	good := 0
	for rec, err := range agentrl.ReadRunDir(dir) {
		var bad *agentrl.RunRecordError
		switch {
		case errors.As(err, &bad):
			said[filepath.Base(bad.Path)] = bad.Err.Error()
		case err == nil && rec != nil:
			good++
		}
	}
	for name, want := range map[string]string{"a.json": "cut short", "b.json": "cut short", "c.json": "99, this program reads 1", "d.json": "no version",
		"e.json": "not a run record", "f.json": "parent 0", "g.json": "turns", "h.json": "not a run record"} {
		if !strings.Contains(said[name], want) {
			t.Errorf("%s: %q does not say %q", name, said[name], want)
		}
	}
	if good != 1 {
		t.Errorf("%d records were read beside the broken ones, want 1", good)
	}
	for _, err := range agentrl.ReadRunDir(filepath.Join(dir, "nowhere")) {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a directory that is not there: %v", err)
		}
	}
}

func TestRunSettingsThatAreRefused(t *testing.T) {
	_, err := agentrl.ConfigFromEnv([]string{"AGENTRL_RUN_SAMPLE=1.5", "AGENTRL_RUN_KEEP=-1", "AGENTRL_RUN_MAX_MB=big"})
	for _, want := range []string{`AGENTRL_RUN_SAMPLE="1.5": want a share`, `AGENTRL_RUN_KEEP="-1"`, `AGENTRL_RUN_MAX_MB="big"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s:\n%v", want, err)
		}
	}
	if _, err := agentrl.ConfigFromEnv([]string{"AGENTRL_RUN_SAMPLE=0"}); err == nil || !strings.Contains(err.Error(), "leave AGENTRL_RUN_DIR empty") {
		t.Errorf("AGENTRL_RUN_SAMPLE=0: %v", err)
	}
}
