package agentrl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// A bench is a Generator over fakes, with what the tests look at afterwards.
type bench struct {
	*agentrl.Generator
	boxes   *sandboxtest.Fake
	agent   *harnesstest.Fake
	adapter *adaptertest.Fake
	rows    *swetest.Protocol
	log     bytes.Buffer

	mu     sync.Mutex
	stages []string
	specs  []sandbox.Spec
	fail   func(n int) error // of the n-th create, from 1
}

func newBench(cfg agentrl.Config) *bench {
	b := &bench{boxes: &sandboxtest.Fake{}, adapter: &adaptertest.Fake{}, rows: &swetest.Protocol{}, agent: &harnesstest.Fake{OnRun: answer("42")}}
	b.Generator = &agentrl.Generator{
		Config: cfg, Protocol: b.rows, Sandboxes: b, Harness: b.agent, Adapter: b.adapter,
		Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
		Hooks: agentrl.Hooks{StageDone: func(s agentrl.StageInfo) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stages = append(b.stages, string(s.Stage))
		}},
	}
	return b
}

// Create counts, and fails where the test says so.
func (b *bench) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	b.mu.Lock()
	b.specs = append(b.specs, spec)
	n, fail := len(b.specs), b.fail
	b.mu.Unlock()
	if fail != nil {
		if err := fail(n); err != nil {
			return nil, err
		}
	}
	return b.boxes.Create(ctx, spec)
}

func (b *bench) creates() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.specs)
}

// clean fails the test when anything of a rollout is left.
func (b *bench) clean(t *testing.T) {
	t.Helper()
	b.boxes.CheckClosed(t)
	b.adapter.CheckDropped(t)
}

// answer is an agent that writes the answer and ends.
func answer(text string) func(context.Context, sandbox.Sandbox, harness.Job) (harness.Report, error) {
	return func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
		err := sb.WriteFile(ctx, job.Workdir+"/"+swetest.AnswerFile, sandbox.AgentUser, strings.NewReader(text))
		return harness.Report{Outcome: harness.Finished, Version: "1.0", Turns: 1}, err
	}
}

func row() agentrl.Sample {
	zero := int64(0)
	return agentrl.Sample{Index: &zero, GroupIndex: &zero, Prompt: agentrl.Prompt{Text: "add"},
		Metadata: map[string]any{"instance_id": "sum", "image": "img", "workdir": "/repo", "want": "42"}}
}

func (b *bench) generate(t *testing.T) []agentrl.Sample {
	t.Helper()
	samples, err := b.Generate(t.Context(), row(), agentrl.SamplingParams{})
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	return samples
}

// aborted checks the one aborted sample and returns its failure.
func aborted(t *testing.T, samples []agentrl.Sample, reason string) map[string]any {
	t.Helper()
	if len(samples) != 1 || samples[0].Status != agentrl.Aborted {
		t.Fatalf("got %d samples, %+v, want one aborted", len(samples), samples)
	}
	s := samples[0]
	if s.Metadata["abort_reason"] != reason {
		t.Errorf("abort_reason %v, want %s (%v)", s.Metadata["abort_reason"], reason, s.Err)
	}
	if diff := cmp.Diff([]any{[]int32{0, 0}, "", 1, []int8{0}, []float32{0}, 0.0, true},
		[]any{s.Tokens, s.Response, s.ResponseLength, s.LossMask, s.RolloutLogProbs, *s.Reward, s.RemoveSample}); diff != "" {
		t.Errorf("aborted sample (-want +got):\n%s", diff)
	}
	return s.Metadata["failure"].(map[string]any)
}

func TestOrderOfARollout(t *testing.T) {
	b := newBench(agentrl.Config{})
	samples := b.generate(t)
	b.clean(t)
	want := strings.Fields("parse open queue create install prepare run seal diff close queue create evaluate close finish drop")
	if diff := cmp.Diff(want, b.stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	s := samples[0]
	if s.Status != agentrl.Completed || *s.Reward != 1 || *s.RolloutID != 0 || s.SessionID != "cagent-sum-0-0" || s.ResponseLength != 2 {
		t.Errorf("sample = %+v", s)
	}
	for key, want := range map[string]any{"instance_id": "sum", "grading_solved": true, "is_solved": true, "applied_cleanly": true,
		"agent_exit_code": 0, "truncated": false, "use_tool": false, "ill_formed": false, "attempt": 1, "want": "42"} {
		if diff := cmp.Diff(want, s.Metadata[key]); diff != "" {
			t.Errorf("metadata.%s: %s", key, diff)
		}
	}
	if s.Metadata["elapsed_sec"] == nil {
		t.Error("metadata has no elapsed_sec")
	}
	t.Logf("figure: hooks called in order: %s", strings.Join(b.stages, " "))
}

func TestBaseIsNotChanged(t *testing.T) {
	b := newBench(agentrl.Config{})
	base := row()
	if _, err := b.Generate(t.Context(), base, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(row(), base); diff != "" {
		t.Errorf("base was changed:\n%s", diff)
	}
}

func TestRowsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		metadata map[string]any
		reason   string
	}{
		"no image":    {map[string]any{"instance_id": "i", "workdir": "/repo", "want": "1"}, "missing_image_or_workdir"},
		"no grader":   {map[string]any{"instance_id": "i", "image": "x", "workdir": "/repo"}, "unevaluatable:no_grader"},
		"wrong shape": {map[string]any{"instance_id": "i", "image": 7, "workdir": "/repo", "want": "1"}, "exception:bad_row"},
	} {
		b := newBench(agentrl.Config{})
		samples, err := b.Generate(t.Context(), agentrl.Sample{Metadata: c.metadata}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := aborted(t, samples, c.reason)
		if f["class"] != "data" || f["retryable"] != false || b.creates() != 0 || len(b.adapter.Opened()) != 0 {
			t.Errorf("%s: failure %v, %d sandboxes, sessions %v", name, f, b.creates(), b.adapter.Opened())
		}
		if samples[0].Metadata["instance_id"] != "i" {
			t.Errorf("%s: instance_id %v", name, samples[0].Metadata["instance_id"])
		}
	}
}

func TestGuardNamesTheStuckStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{AgentBudget: 30 * time.Minute, Guard: time.Hour})
		b.agent.OnRun = func(ctx context.Context, _ sandbox.Sandbox, _ harness.Job) (harness.Report, error) {
			<-ctx.Done()
			return harness.Report{}, fmt.Errorf("read tcp: %w", ctx.Err())
		}
		start := time.Now()
		f := aborted(t, b.generate(t), "wall_clock_timeout")
		if took := time.Since(start); took != time.Hour {
			t.Errorf("the guard of 1h fired after %v", took)
		}
		if f["class"] != "timeout" || f["stage"] != "run" || f["retryable"] != true {
			t.Errorf("failure %v", f)
		}
		b.clean(t)
		if log := b.log.String(); !strings.Contains(log, "wall clock guard expired") || !strings.Contains(log, "stage=run") || !strings.Contains(log, "guard=1h0m0s") {
			t.Errorf("log: %s", log)
		}
	})
}

func TestCallersCancelIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{})
		why := errors.New("step is over")
		ctx, cancel := context.WithCancelCause(t.Context())
		b.agent.OnRun = func(ctx context.Context, _ sandbox.Sandbox, _ harness.Job) (harness.Report, error) {
			cancel(why)
			<-ctx.Done()
			return harness.Report{}, ctx.Err()
		}
		samples, err := b.Generate(ctx, row(), nil)
		if samples != nil || !errors.Is(err, why) {
			t.Errorf("Generate = %v, %v, want no samples and the cause", samples, err)
		}
		b.clean(t)
	})
}

func TestBootIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{})
		b.fail = func(n int) error {
			if n == 1 {
				return errors.New("no route")
			}
			return nil
		}
		start := time.Now()
		if s := b.generate(t)[0]; s.Status != agentrl.Completed {
			t.Errorf("status %s: %v", s.Status, s.Err)
		}
		if took := time.Since(start); took < 1500*time.Millisecond || took > 2500*time.Millisecond {
			t.Errorf("the wait after the first attempt took %v, want about 2s", took)
		}
		if b.creates() != 3 {
			t.Errorf("%d creates, want 2 for the agent and 1 for the evaluation", b.creates())
		}
		if !strings.Contains(b.log.String(), "provision attempt failed") {
			t.Error("the failed attempt was not logged")
		}
		b.clean(t)
	})
}

func TestBootGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			err     error
			code    string
			class   string
			creates int
		}{
			"transient":    {errors.New("no route"), "boot_failed", "sandbox", 2},
			"bad key":      {sandbox.ErrUnauthorized, "unauthorized", "config", 1},
			"no image":     {sandbox.ErrNoImage, "image_not_found", "data", 1},
			"no workdir":   {sandbox.ErrNoWorkdir, "missing_workdir", "data", 1},
			"rate limited": {&sandbox.RateLimitError{RetryAfter: time.Minute}, "rate_limited", "sandbox", 2},
			"no capacity":  {&sandbox.CapacityError{}, "no_capacity", "sandbox", 2},
		} {
			b := newBench(agentrl.Config{BootRetries: 2})
			b.fail = func(int) error { return fmt.Errorf("create: %w", c.err) }
			f := aborted(t, b.generate(t), "exception:"+c.code)
			if f["class"] != c.class || f["stage"] != "create" || b.creates() != c.creates {
				t.Errorf("%s: failure %v after %d creates, want %d", name, f, b.creates(), c.creates)
			}
			b.clean(t)
		}
	})
}

func TestFailedInstallClosesItsSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{})
		b.agent.OnInstall = func(context.Context, sandbox.Sandbox) error { return errors.New("no space") }
		f := aborted(t, b.generate(t), "exception:install_failed")
		if f["stage"] != "install" || b.agent.Installs() != 2 {
			t.Errorf("failure %v after %d installs, want 2", f, b.agent.Installs())
		}
		b.clean(t)
	})
}

func TestBootSlotsBoundTheBoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{BootConcurrency: 2})
		var now, most atomic.Int32
		b.agent.OnInstall = func(context.Context, sandbox.Sandbox) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				base := row()
				index := int64(i)
				base.Index = &index
				if s, err := b.Generate(t.Context(), base, nil); err != nil || s[0].Status != agentrl.Completed {
					t.Errorf("Generate: %v, %v", s, err)
				}
			})
		}
		wg.Wait()
		if most.Load() != 2 {
			t.Errorf("%d boots at once, want 2", most.Load())
		}
		b.clean(t)
	})
}

func TestWaitingIsNotChargedToTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 2000
		b := newBench(agentrl.Config{BootConcurrency: 16, AgentBudget: 5 * time.Minute, Guard: 10 * time.Minute})
		b.fail = func(int) error { time.Sleep(30 * time.Second); return nil }
		var late atomic.Int32
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				base := row()
				index := int64(i)
				base.Index = &index
				s, err := b.Generate(t.Context(), base, nil)
				if err != nil || s[0].Status != agentrl.Completed {
					late.Add(1)
				}
			})
		}
		wg.Wait()
		if late.Load() != 0 {
			t.Errorf("%d of %d calls did not complete", late.Load(), calls)
		}
		b.clean(t)
		t.Logf("figure: %d calls, 16 slots, 30 s boots: %d wall_clock_timeout", calls, late.Load())
	})
}

func TestEmptySessionIsAborted(t *testing.T) {
	for name, record := range map[string]adapter.Record{
		"no turn":         {},
		"side calls only": sideCalls(),
		"untrained only":  untrained(),
	} {
		b := newBench(agentrl.Config{})
		b.adapter.Record = func(string, adapter.SessionOptions) adapter.Record { return record }
		f := aborted(t, b.generate(t), "adapter_session_empty")
		if f["code"] != "session_empty" {
			t.Errorf("%s: failure %v", name, f)
		}
		b.clean(t)
	}
}

func sideCalls() adapter.Record {
	rec := adaptertest.OneTurn()
	rec.Segments[0].Label = chat.SideCall
	return rec
}

func untrained() adapter.Record {
	rec := adaptertest.OneTurn()
	rec.Segments[0].Untrained = "proof"
	return rec
}

func TestAgentIsGoneBeforeTheEvaluationBegins(t *testing.T) {
	b := newBench(agentrl.Config{})
	b.rows.Bend = func(_ context.Context, call string, _ sandbox.Sandbox) error {
		switch call {
		case "diff":
			if !b.adapter.Sealed("cagent-sum-0-0") {
				t.Error("the session is not sealed when the patch is taken")
			}
		case "evaluate":
			if b.boxes.Live() != 1 {
				t.Errorf("%d sandboxes live in the evaluation, want its own alone", b.boxes.Live())
			}
		}
		return nil
	}
	b.generate(t)
	b.clean(t)
}

func TestWrongAnswerIsRewardZero(t *testing.T) {
	b := newBench(agentrl.Config{})
	b.agent.OnRun = answer("41")
	s := b.generate(t)[0]
	if s.Status != agentrl.Completed || *s.Reward != 0 || s.RemoveSample || s.Metadata["outcome"] != string(swe.Failed) {
		t.Errorf("sample = %+v", s)
	}
}

func TestEmptyPatchIsNotGraded(t *testing.T) {
	b := newBench(agentrl.Config{})
	b.agent.OnRun = nil
	s := b.generate(t)[0]
	if s.Status != agentrl.Completed || *s.Reward != 0 || s.Metadata["outcome"] != string(swe.EmptyPatch) || s.Metadata["applied_cleanly"] != true || b.creates() != 1 {
		t.Errorf("sample = %+v after %d creates", s, b.creates())
	}
}
