package agentrl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

func TestEvaluationIsTriedAgainAfterAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{})
		evaluations := 0
		b.rows.Bend = func(_ context.Context, call string, _ sandbox.Sandbox) error {
			if call != "evaluate" {
				return nil
			}
			if evaluations++; evaluations == 1 {
				return fmt.Errorf("exec: %w", sandbox.ErrGone)
			}
			return nil
		}
		s := b.generate(t)[0]
		if s.Status != agentrl.Completed || *s.Reward != 1 || evaluations != 2 || b.creates() != 3 || b.agent.Runs() != 1 {
			t.Errorf("%s after %d evaluations, %d creates, %d runs: %v", s.Status, evaluations, b.creates(), b.agent.Runs(), s.Err)
		}
		b.clean(t)
	})
}

func TestFaultsAreClassified(t *testing.T) {
	gone := fmt.Errorf("exec: %w", sandbox.ErrGone)
	for name, c := range map[string]struct {
		bend               func(b *bench)
		code, class, stage string
	}{
		"prepare fails":      {bendCall("prepare", errors.New("pre_commands: exit 1")), "prepare_failed", "sandbox", "prepare"},
		"gone in prepare":    {bendCall("prepare", gone), "sandbox_gone", "sandbox", "prepare"},
		"capture fails":      {bendCall("diff", errors.New("git: exit 128")), "capture_failed", "grader", "diff"},
		"grader fails":       {bendCall("evaluate", errors.New("no log")), "grader_error", "grader", "evaluate"},
		"agent lost":         {report(harness.Report{Exit: sandbox.Exit{State: sandbox.Lost}}), "job_lost", "sandbox", "run"},
		"agent unreachable":  {report(harness.Report{Outcome: harness.Unreachable}), "agent_unreachable", "harness", "run"},
		"harness fails":      {func(b *bench) { b.agent.OnRun = runFails(errors.New("no binary")) }, "agent_broken", "harness", "run"},
		"engine down":        {adapterFails("SealSession", &sglang.Error{Kind: sglang.Unavailable}), "engine_unavailable", "engine", "seal"},
		"engine aborts":      {adapterFails("SealSession", &sglang.Error{Kind: sglang.Aborted}), "engine_aborted", "engine", "seal"},
		"engine bad":         {adapterFails("SealSession", &sglang.Error{Kind: sglang.BadOutput}), "engine_bad_output", "engine", "seal"},
		"capture incomplete": {adapterFails("SealSession", errors.New("lost a turn")), "capture_incomplete", "adapter", "seal"},
		"session live":       {adapterFails("OpenSession", adapter.ErrSessionLive), "session_conflict", "adapter", "open"},
		"finish fails":       {adapterFails("FinishSession", errors.New("broken")), "invariant", "adapter", "finish"},
	} {
		b := newBench(agentrl.Config{BootRetries: 1})
		c.bend(b)
		f := aborted(t, b.generate(t), "exception:"+c.code)
		if f["code"] != c.code || f["class"] != c.class || f["stage"] != c.stage {
			t.Errorf("%s: failure %v, want %s, %s at %s", name, f, c.class, c.code, c.stage)
		}
		b.clean(t)
	}
}

func bendCall(name string, err error) func(*bench) {
	return func(b *bench) {
		b.rows.Bend = func(_ context.Context, call string, _ sandbox.Sandbox) error {
			if call == name {
				return err
			}
			return nil
		}
	}
}

func report(r harness.Report) func(*bench) {
	return func(b *bench) {
		b.agent.OnRun = func(context.Context, sandbox.Sandbox, harness.Job) (harness.Report, error) { return r, nil }
	}
}

func runFails(err error) func(context.Context, sandbox.Sandbox, harness.Job) (harness.Report, error) {
	return func(context.Context, sandbox.Sandbox, harness.Job) (harness.Report, error) {
		return harness.Report{}, err
	}
}

func adapterFails(method string, err error) func(*bench) {
	return func(b *bench) {
		b.adapter.Fail = func(_ context.Context, called, _ string) error {
			if called == method {
				return err
			}
			return nil
		}
	}
}

func TestAgentExitIsKeptNotAborted(t *testing.T) {
	for name, c := range map[string]struct {
		exit sandbox.Exit
		code int
		log  string
	}{
		"crash":  {sandbox.Exit{Code: 3}, 3, "CLI error (exit 3)"},
		"signal": {sandbox.Exit{Code: 137}, 137, "CLI error (exit 137)"},
		"budget": {sandbox.Exit{State: sandbox.TimedOut}, -1, "time budget exceeded"},
	} {
		b := newBench(agentrl.Config{})
		work := answer("42")
		b.agent.OnRun = func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
			r, err := work(ctx, sb, job)
			r.Exit = c.exit
			return r, err
		}
		s := b.generate(t)[0]
		if s.Status != agentrl.Completed || s.Metadata["agent_exit_code"] != c.code || !strings.Contains(b.log.String(), c.log) {
			t.Errorf("%s: %s, agent_exit_code %v, log %s", name, s.Status, s.Metadata["agent_exit_code"], b.log.String())
		}
	}
}

func TestOutcomesThatAreNotKept(t *testing.T) {
	for outcome, class := range map[swe.Outcome]string{swe.EvalTimeout: "grader", swe.BaseBroken: "grader", swe.GraderError: "grader"} {
		b := newBench(agentrl.Config{EvalRetries: agentrl.None})
		b.Protocol = verdict{b.rows, swe.Verdict(outcome, "because")}
		f := aborted(t, b.generate(t), "exception:"+string(outcome))
		if f["class"] != class {
			t.Errorf("%s: failure %v", outcome, f)
		}
		b.clean(t)
	}
}

// verdict is a protocol whose evaluations all end alike.
type verdict struct {
	swe.Protocol
	eval swe.Evaluation
}

type fixedTask struct {
	swe.Task
	eval swe.Evaluation
}

func (v verdict) Parse(row swe.Row) (swe.Task, error) {
	task, err := v.Protocol.Parse(row)
	return fixedTask{task, v.eval}, err
}

func (f fixedTask) Evaluate(context.Context, sandbox.Sandbox, swe.Patch) (swe.Evaluation, error) {
	return f.eval, nil
}

func TestSecondAttemptIsNotMistakenForTheFirst(t *testing.T) {
	b := newBench(agentrl.Config{BootRetries: 1})
	b.fail = func(n int) error {
		if n <= 2 {
			return errors.New("no route")
		}
		return nil
	}
	base := row()
	var ids []string
	for attempt := 1; attempt <= 3; attempt++ {
		samples, err := b.Generate(t.Context(), base, nil)
		if err != nil {
			t.Fatal(err)
		}
		base = samples[0]
		if base.Metadata["attempt"] != attempt {
			t.Errorf("attempt %d: metadata says %v", attempt, base.Metadata["attempt"])
		}
		ids = append(ids, base.SessionID)
	}
	if diff := cmp.Diff([]string{"cagent-sum-0-0", "cagent-sum-0-0-a2", "cagent-sum-0-0-a3"}, ids); diff != "" {
		t.Errorf("session ids (-want +got):\n%s", diff)
	}
	if base.Status != agentrl.Completed || base.Metadata["abort_reason"] != nil || base.Metadata["failure"] != nil {
		t.Errorf("third attempt: %+v", base)
	}
	if labels := b.specs[2].Labels; labels["attempt"] != "3.1" || labels["sample"] != "cagent-sum-0-0-a3" || labels["role"] != "agent" || labels["run"] == "" || labels["owner"] == "" {
		t.Errorf("labels %v", labels)
	}
}

func TestEvaluateReturnsOneMeasuredSample(t *testing.T) {
	b := newBench(agentrl.Config{})
	samples, err := b.Evaluate(t.Context(), row(), nil)
	if err != nil || len(samples) != 1 {
		t.Fatalf("Evaluate = %v, %v", samples, err)
	}
	s := samples[0]
	if s.Status != agentrl.Completed || *s.Reward != 1 || !s.RemoveSample || len(s.Tokens) != 2 || s.Metadata["is_solved"] != true {
		t.Errorf("sample = %+v", s)
	}
	b.clean(t)
}

func TestRewardFuncDecides(t *testing.T) {
	b := newBench(agentrl.Config{})
	b.Reward = func(eval swe.Evaluation, segs []trajectory.Segment) (float64, bool) {
		return 0.5 + float64(len(segs)), true
	}
	if s := b.generate(t)[0]; *s.Reward != 1.5 {
		t.Errorf("reward %v, want 1.5", *s.Reward)
	}
}

func TestRewardIsWholeOrSplit(t *testing.T) {
	for mode, want := range map[string]float64{"full": 1, "split": 0.5} {
		b := newBench(agentrl.Config{Reward: mode})
		b.adapter.Record = func(string, adapter.SessionOptions) adapter.Record {
			rec := adaptertest.OneTurn()
			rec.Segments = append(rec.Segments, adaptertest.OneTurn().Segments...)
			return rec
		}
		samples := b.generate(t)
		weights := 0.0
		for i, s := range samples {
			seg := s.Metadata["segment"].(map[string]any)
			weights += seg["weight"].(float64)
			if *s.Reward != want || *s.RolloutID != 0 || seg["index"] != i || seg["count"] != 2 || seg["label"] != "main" {
				t.Errorf("%s: sample %d: reward %v, segment %v", mode, i, *s.Reward, seg)
			}
		}
		if weights != 1 {
			t.Errorf("%s: weights sum to %v", mode, weights)
		}
	}
}

func TestPauseHoldsTheClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{AgentBudget: 10 * time.Minute, Guard: 20 * time.Minute})
		work := answer("42")
		running := make(chan struct{})
		b.agent.OnRun = func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
			close(running)
			start := time.Now()
			<-job.Stop
			if took := time.Since(start); took != 70*time.Minute {
				t.Errorf("a budget of 10 min with a pause of 60 min ended after %v", took)
			}
			return work(ctx, sb, job)
		}
		done := make(chan []agentrl.Sample)
		go func() { done <- b.generate(t) }()
		<-running
		time.Sleep(5 * time.Minute)
		if err := b.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		b.Resume()
		if s := (<-done)[0]; s.Status != agentrl.Completed {
			t.Errorf("status %s: %v", s.Status, s.Err)
		}
	})
}

func TestCloseEndsLiveCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{})
		var live atomic.Bool
		b.agent.OnRun = func(ctx context.Context, _ sandbox.Sandbox, _ harness.Job) (harness.Report, error) {
			live.Store(true)
			<-ctx.Done()
			return harness.Report{}, ctx.Err()
		}
		done := make(chan []agentrl.Sample, 1)
		go func() { done <- b.generate(t) }()
		synctest.Wait()
		if !live.Load() {
			t.Error("the call is not running")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if f := aborted(t, <-done, "exception:cancelled"); f["class"] != "cancelled" {
			t.Errorf("failure %v", f)
		}
		b.clean(t)
		if _, err := b.Generate(t.Context(), row(), nil); !errors.Is(err, agentrl.ErrClosed) {
			t.Errorf("Generate after Close: %v, want ErrClosed", err)
		}
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{BootRetries: 1, Breaker: 3})
		broken := true
		cause := errors.New("connection refused")
		b.fail = func(int) error {
			if broken {
				return cause
			}
			return nil
		}
		for range 3 {
			aborted(t, b.generate(t), "exception:boot_failed")
		}
		// Open: calls wait for probes, and are turned away after two of them failed.
		errs := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := b.Generate(t.Context(), row(), nil)
				errs <- err
			}()
		}
		turnedAway := 0
		for range 10 {
			if err := <-errs; errors.Is(err, agentrl.ErrUnavailable) && errors.Is(err, cause) {
				turnedAway++
			} else if err != nil {
				t.Errorf("Generate: %v", err)
			}
		}
		if turnedAway != 8 || b.creates() != 5 {
			t.Errorf("%d of 10 calls turned away after %d creates in all, want 8 and 5", turnedAway, b.creates())
		}
		broken = false
		if s := b.generate(t)[0]; s.Status != agentrl.Completed {
			t.Errorf("after the repair: %s: %v", s.Status, s.Err)
		}
		start := time.Now()
		b.generate(t)
		if time.Since(start) != 0 {
			t.Error("a closed breaker made the call wait")
		}
	})
}

func TestBreakerOpensAtOnceOnABadKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{})
		b.fail = func(int) error { return sandbox.ErrUnauthorized }
		aborted(t, b.generate(t), "exception:unauthorized")
		for range 3 {
			_, _ = b.Generate(t.Context(), row(), nil)
		}
		if _, err := b.Generate(t.Context(), row(), nil); err != nil && !errors.Is(err, sandbox.ErrUnauthorized) {
			t.Errorf("Generate: %v, want the cause named", err)
		}
	})
}

func TestGradeRunsNoAgent(t *testing.T) {
	b := newBench(agentrl.Config{})
	for answer, want := range map[string]swe.Outcome{"42": swe.Solved, "41": swe.Failed, "": swe.EmptyPatch} {
		eval, err := b.Grade(t.Context(), row(), swe.Patch{Bytes: []byte(answer)})
		if err != nil || eval.Outcome != want {
			t.Errorf("Grade(%q) = %v, %v, want %s", answer, eval.Outcome, err, want)
		}
	}
	if b.agent.Runs() != 0 || len(b.adapter.Opened()) != 0 || b.creates() != 2 {
		t.Errorf("%d agents ran, %d sessions, %d sandboxes", b.agent.Runs(), len(b.adapter.Opened()), b.creates())
	}
	b.clean(t)
}
