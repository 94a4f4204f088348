package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/swe"
)

// fill writes n records of the shape that real ones have: a line of turns, every
// fifth with a branch, every seventh aborted.
func fill(t testing.TB, dir string, n, turns int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		data, err := json.Marshal(record(i, turns))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("2026%06d-x.json", i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func record(i, turns int) *agentrl.RunRecord {
	start := time.Date(2026, 7, 1, 8, 0, i, 0, time.UTC)
	rec := &agentrl.RunRecord{
		Version: agentrl.RunRecordVersion, RunID: "run-1", Mode: "generate", InstanceID: fmt.Sprintf("project__lib-%d", i), Session: fmt.Sprintf("cagent-%d", i), Attempt: 1,
		Start: start, Seconds: float64(100 + i%400), Agent: "claude_code", Sandbox: "docker", Reward: float64(i % 2), Outcome: "failed", Samples: 1,
		Row:    agentrl.Sample{Metadata: map[string]any{"image": "img", "workdir": "/repo"}},
		Pieces: pieces(),
		Patch:  &swe.Patch{Bytes: []byte("diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"), Files: []swe.FileChange{{Path: "x.py", Status: "M"}}},
		Eval:   &swe.Evaluation{Outcome: swe.Failed, Applied: true, Keep: true, Reason: "1 of 2 tests failed", LogTail: "E   assert 1 == 2"},
		Report: &agentrl.AgentRecord{Outcome: "finished", Version: "2.1", Turns: turns, Seconds: 80, Log: "done"},
	}
	if i%2 == 1 {
		rec.Outcome, rec.Eval.Outcome, rec.Eval.Reason = "solved", swe.Solved, "all tests passed"
	}
	if i%7 == 3 {
		rec.Outcome, rec.Reward, rec.Eval, rec.Samples = "aborted", 0, nil, 0
		rec.Failure = &agentrl.FailureRecord{Reason: "exception:sandbox_gone", Stage: agentrl.StageRun, Class: agentrl.ClassSandbox, Code: agentrl.CodeSandboxGone, Retryable: true, Message: "run: sandbox is gone"}
	}
	at := start
	for _, s := range []struct {
		stage   agentrl.Stage
		role    string
		seconds float64
	}{{agentrl.StageQueue, "agent", 3}, {agentrl.StageCreate, "agent", 6}, {agentrl.StageInstall, "agent", 4}, {agentrl.StageRun, "agent", 80}, {agentrl.StageCreate, "grader", 6}, {agentrl.StageEvaluate, "grader", 20}} {
		rec.Stages = append(rec.Stages, agentrl.StageRecord{Stage: s.stage, Role: s.role, Start: at, Seconds: s.seconds})
		at = at.Add(time.Duration(s.seconds * float64(time.Second)))
	}
	talk(rec, i, turns, start)
	return rec
}

// talk adds the conversation and its tokens.
func talk(rec *agentrl.RunRecord, i, turns int, start time.Time) {
	rec.Messages = []agentrl.MessageRecord{{Role: chat.User, Content: "Fix <b>it</b>.", Parent: -1, Toolset: -1}}
	rec.Toolsets = [][]agentrl.ToolRecord{{{Name: "bash", Description: "runs a command"}}}
	seg := trajectory.Segment{PromptLen: 4, Tokens: []int32{1, 2, 3, 4}, Policy: "exact", Count: 1, Parent: -1}
	noise := rand.New(rand.NewPCG(1, uint64(i)))
	add := func(ids []int32, mask int8) {
		for _, id := range ids {
			seg.Tokens, seg.LossMask = append(seg.Tokens, id), append(seg.LossMask, mask)
			seg.LogProbs = append(seg.LogProbs, -float32(mask)*noise.Float32())
		}
	}
	for n := range turns {
		id := fmt.Sprintf("turn%d", n)
		st := trajectory.SegmentTurn{ID: id, Prompt: len(seg.Tokens), Output: 40, Owned: true, Finish: chat.FinishStop}
		rec.Turns = append(rec.Turns, agentrl.TurnRecord{ID: id, Kind: "main", Prompt: len(seg.Tokens), Output: 40, Finish: "stop", Start: start.Add(time.Duration(15+n) * time.Second), Seconds: 1})
		from := len(seg.Tokens)
		add(someIDs(noise, 40), 1)
		seg.Turns, seg.Owned = append(seg.Turns, st), seg.Owned+40
		seg.Versions = append(seg.Versions, trajectory.Span{From: from, To: len(seg.Tokens), Version: fmt.Sprint(1 + 2*n/turns)})
		last := len(rec.Messages) - 1
		rec.Messages = append(rec.Messages,
			agentrl.MessageRecord{Role: chat.Assistant, Reasoning: "I look.", Calls: []agentrl.CallRecord{{Name: "bash", Arguments: `{"command":"ls -la && cat x.py"}`}}, Turn: id, Parent: last, Toolset: 0},
			agentrl.MessageRecord{Role: chat.ToolRole, Content: strings.Repeat("total 12\n", 20) + fmt.Sprintf("%x", noise.Uint64()), Parent: last + 1, Toolset: -1})
		add(someIDs(noise, 60), 0)
	}
	rec.Segments = []trajectory.Segment{seg}
	if i%5 == 0 {
		branch := seg
		branch.Label, branch.Index, branch.Parent, branch.Branch = chat.Subagent, 1, 0, 4
		branch.Split = &trajectory.Split{Cause: trajectory.CauseSubagent, Turn: "side", After: "turn0", Message: 1, Field: "content", Token: 4}
		branch.Turns = []trajectory.SegmentTurn{{ID: "side", Prompt: 4, Output: 40, Owned: true, Finish: chat.FinishStop}}
		rec.Messages = append(rec.Messages, agentrl.MessageRecord{Role: chat.Assistant, Content: "I am the branch.", Turn: "side", Parent: 0, Toolset: 0})
		rec.Segments = append(rec.Segments, branch)
	}
}

// pieces is a vocabulary; its first words are such as a page must not believe.
func pieces() map[int32]string {
	all := map[int32]string{1: "<|im_start|>", 2: "user\n", 3: " fix", 4: " it </script><b>"}
	for id := int32(5); id < 1500; id++ {
		all[id] = fmt.Sprintf(" w%x", id*7919)
	}
	return all
}

func someIDs(noise *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for k := range ids {
		ids[k] = 1 + noise.Int32N(1499)
	}
	return ids
}

// made runs the command over a directory and returns the page and what was said.
func made(t testing.TB, o options) (page, said string) {
	t.Helper()
	o.out = filepath.Join(t.TempDir(), "report.html")
	if o.maxMB == 0 {
		o.maxMB = 512
	}
	var out bytes.Buffer
	if err := run(o, &out); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(o.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), out.String()
}

func TestPage(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 30, 3)
	page, said := made(t, options{dir: dir})
	for _, want := range []string{"<b>30</b> rollouts", "<b>4</b> aborted", "sandbox: sandbox_gone", "run: sandbox is gone", "grader create", `id="d0"`, `id="d29"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	if !strings.Contains(said, "30 rollouts, 0 files") {
		t.Errorf("said %q", said)
	}
	for _, bad := range []string{"http://", "https://", "</script><b>", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
}

func TestPageOfNothing(t *testing.T) {
	page, said := made(t, options{dir: t.TempDir()})
	if !strings.Contains(page, "No rollout was recorded here") || !strings.Contains(said, "0 rollouts") {
		t.Errorf("the page of an empty run does not say so; said %q", said)
	}
	err := run(options{dir: filepath.Join(t.TempDir(), "nowhere"), out: os.DevNull}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "there is no directory") {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := run(options{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "-run DIR") {
		t.Errorf("no directory: %v", err)
	}
}

func TestBrokenRecordsAreNamed(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 2, 1)
	for name, text := range map[string]string{"half.json": `{"version":1,"run_id":"r`, "later.json": `{"version":7,"x":[]}`, "other.json": `{"a":"<script>alert(1)</script>"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, said := made(t, options{dir: dir})
	for _, want := range []string{"3 files could not be read", "half.json: the record is cut short", "later.json: the record has another version: 7, this program reads 1"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %s", want)
		}
	}
	if !strings.Contains(said, "2 rollouts, 3 files") || strings.Contains(page, "<script>alert") {
		t.Errorf("said %q", said)
	}
}

func TestSizeIsBounded(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 20, 2)
	r, err := load(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := write(path, r, 4000); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.left == 0 || r.left == 20 || !bytes.Contains(page, []byte(`id="d17"`)) {
		t.Errorf("%d details are left out; that of a failed rollout must not be", r.left)
	}
}

func TestOneRunOfSeveral(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 3, 1)
	if page, _ := made(t, options{dir: dir, id: "run-2"}); !strings.Contains(page, "No rollout was recorded here") {
		t.Error("-id does not leave the other runs out")
	}
}

func TestDetailsAreTheRecords(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 1, 2)
	page, _ := made(t, options{dir: dir})
	_, rest, _ := strings.Cut(page, `id="d0">`)
	packed, _, _ := strings.Cut(rest, "<")
	if _, err := base64.StdEncoding.DecodeString(packed); err != nil {
		t.Error(err)
	}
}

// TestRewardsOfAnySize: a custom reward may be any number.
func TestRewardsOfAnySize(t *testing.T) {
	for _, values := range [][]float64{{1e308}, {-1e308, 1e308, 0}, {0.25, 5e-324}, {-3}} {
		var rows []row
		for _, v := range values {
			rows = append(rows, row{Reward: v})
		}
		n := 0
		for _, b := range rewards(rows) {
			n += b.Count
			if strings.ContainsAny(b.Label, "NI") {
				t.Errorf("rewards(%v) has a column %q", values, b.Label)
			}
		}
		if n != len(values) {
			t.Errorf("rewards(%v) counts %d", values, n)
		}
	}
}
