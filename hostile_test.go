package agentrl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

func TestPanicIsAnAbortedSample(t *testing.T) {
	for name, bend := range map[string]func(b *bench){
		"create":   func(b *bench) { b.fail = func(int) error { panic("boom") } },
		"install":  func(b *bench) { b.agent.OnInstall = func(context.Context, sandbox.Sandbox) error { panic("boom") } },
		"prepare":  panicIn("prepare"),
		"diff":     panicIn("diff"),
		"evaluate": panicIn("evaluate"),
		"run": func(b *bench) {
			b.agent.OnRun = func(context.Context, sandbox.Sandbox, harness.Job) (harness.Report, error) { panic("boom") }
		},
		"reward": func(b *bench) {
			b.Reward = func(swe.Evaluation, []trajectory.Segment) (float64, bool) { panic("boom") }
		},
		"hook": func(b *bench) {
			b.Hooks.StageStart = func(s agentrl.StageInfo) {
				if s.Stage == agentrl.StageRun {
					panic("boom")
				}
			}
		},
	} {
		b := newBench(agentrl.Config{BootRetries: 1, EvalRetries: agentrl.None, BootConcurrency: 1, MaxSandboxes: 1})
		bend(b)
		f := aborted(t, b.generate(t), "exception:invariant")
		if !strings.Contains(f["message"].(string), "boom") || !strings.Contains(b.log.String(), "hostile_test.go") {
			t.Errorf("%s: failure %v, log without a stack:\n%s", name, f, b.log.String())
		}
		b.clean(t)
		// What the call held is free again.
		b.fail, b.agent.OnInstall, b.rows.Bend, b.Reward, b.Hooks.StageStart = nil, nil, nil, nil, nil
		b.agent.OnRun = answer("42")
		if s := b.generate(t)[0]; s.Status != agentrl.Completed {
			t.Errorf("%s: the next call: %s: %v", name, s.Status, s.Err)
		}
	}
}

func panicIn(name string) func(*bench) {
	return func(b *bench) {
		b.rows.Bend = func(_ context.Context, call string, _ sandbox.Sandbox) error {
			if call == name {
				panic("boom")
			}
			return nil
		}
	}
}

// A caller that gives its calls a deadline says nothing about the backend.
func TestCallersEndDoesNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{Breaker: 2})
		var codes []string
		b.Hooks.RolloutDone = func(r agentrl.RolloutInfo) { codes = append(codes, r.Failure.Code) }
		b.agent.OnRun = func(ctx context.Context, _ sandbox.Sandbox, _ harness.Job) (harness.Report, error) {
			<-ctx.Done()
			return harness.Report{}, fmt.Errorf("exec: %w", context.Cause(ctx))
		}
		stepOver := errors.New("the step is over")
		for _, cause := range []error{nil, stepOver, sandbox.ErrGone, nil} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
			if _, err := b.Generate(ctx, row(), nil); err == nil || err != context.Cause(ctx) {
				t.Errorf("Generate = %v, want %v", err, context.Cause(ctx))
			}
			cancel()
		}
		b.agent.OnRun = answer("42")
		start := time.Now()
		b.generate(t)
		if took := time.Since(start); took != 0 || strings.Join(codes, " ") != "cancelled cancelled cancelled cancelled " {
			t.Errorf("the next call took %v, the codes were %q", took, codes)
		}
		b.clean(t)
	})
}

func TestInnerTimeoutIsNotTheCallers(t *testing.T) {
	for _, inner := range []error{context.Canceled, context.DeadlineExceeded} {
		b := newBench(agentrl.Config{})
		b.agent.OnRun = runFails(fmt.Errorf("exec: %w", inner))
		aborted(t, b.generate(t), "exception:agent_broken")
	}
}

func TestCloseEndsACallThatTheBreakerHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{})
		b.fail = func(int) error { return sandbox.ErrUnauthorized }
		b.generate(t)
		done := make(chan error)
		start := time.Now()
		go func() {
			_, err := b.Generate(t.Context(), row(), nil)
			done <- err
		}()
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, agentrl.ErrClosed) || time.Since(start) != 0 {
			t.Errorf("Generate = %v after %v, want ErrClosed at once", err, time.Since(start))
		}
	})
}

func TestGuardNamesTheStuckStageAndSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(agentrl.Config{AgentBudget: time.Minute, Guard: time.Hour})
		var since time.Time
		b.rows.Bend = func(ctx context.Context, call string, _ sandbox.Sandbox) error {
			if call == "prepare" {
				time.Sleep(time.Minute)
			}
			if call != "evaluate" {
				return nil
			}
			since = time.Now()
			<-ctx.Done()
			time.Sleep(time.Minute) // it ends late
			return ctx.Err()
		}
		f := aborted(t, b.generate(t), "wall_clock_timeout")
		want := fmt.Sprintf(`msg="wall clock guard expired" instance_id=sum attempt=1 elapsed=1h0m0s guard=1h0m0s stage=evaluate stage_since=%s`, since.Format("2006-01-02T15:04:05"))
		if f["stage"] != "evaluate" || !strings.Contains(b.log.String(), want) || strings.Count(b.log.String(), `msg="wall clock`) != 1 {
			t.Errorf("failure %v, want one line with %s in\n%s", f, want, b.log.String())
		}
		b.clean(t)
	})
}

func TestRewardThatIsNoNumber(t *testing.T) {
	b := newBench(agentrl.Config{})
	b.Reward = func(swe.Evaluation, []trajectory.Segment) (float64, bool) { return math.NaN(), true }
	aborted(t, b.generate(t), "exception:invariant")
}

// A RewardFunc that keeps everything must not make a reward of a grader's fault.
func TestRewardFuncIsNotAskedAboutAGraderError(t *testing.T) {
	b := newBench(agentrl.Config{EvalRetries: agentrl.None})
	b.Protocol = verdict{b.rows, swe.Verdict(swe.GraderError, "no log")}
	b.Reward = func(swe.Evaluation, []trajectory.Segment) (float64, bool) { return 0, true }
	aborted(t, b.generate(t), "exception:grader_error")
}

// How the agent ended is known, whatever becomes of the evaluation.
func TestAgentExitIsKeptWhenTheEvaluationFails(t *testing.T) {
	b := newBench(agentrl.Config{EvalRetries: agentrl.None})
	work := answer("42")
	b.agent.OnRun = func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
		r, err := work(ctx, sb, job)
		r.Exit = sandbox.Exit{Code: 3}
		return r, err
	}
	b.rows.Bend = func(_ context.Context, call string, _ sandbox.Sandbox) error {
		if call == "evaluate" {
			return errors.New("no log")
		}
		return nil
	}
	samples := b.generate(t)
	aborted(t, samples, "exception:grader_error")
	if samples[0].Metadata["agent_exit_code"] != 3 || !strings.Contains(b.log.String(), "CLI error (exit 3)") {
		t.Errorf("metadata %v, log %s", samples[0].Metadata, b.log.String())
	}
}

func TestRefusedRowKeepsItsName(t *testing.T) {
	for want, base := range map[string]agentrl.Sample{
		"by-id":     {Label: "label", Metadata: map[string]any{"instance_id": "by-id"}},
		"by-remote": {Label: "label", Metadata: map[string]any{"remote_env_info": map[string]any{"instance_id": "by-remote"}}},
		"by-label":  {Label: "by-label", Metadata: map[string]any{"remote_env_info": "{}", "instance_id": 7}},
		"unknown":   {Label: strings.Repeat("x", 256)},
	} {
		b := newBench(agentrl.Config{})
		b.Protocol = refusing{}
		samples, err := b.Generate(t.Context(), base, nil)
		if err != nil || samples[0].Metadata["instance_id"] != want {
			t.Errorf("Generate = %v, %v, want the instance %s", samples, err, want)
		}
	}
}

func TestGeneratorThatCannotRunSaysWhy(t *testing.T) {
	var g agentrl.Generator
	_, err := g.Generate(t.Context(), row(), nil)
	for _, want := range []string{"Protocol", "Sandboxes", "Harness", "Adapter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Generate of a zero Generator = %v, want it to name %s", err, want)
		}
	}
	for want, cfg := range map[string]agentrl.Config{
		"BootRetries": {BootRetries: -1}, "BootConcurrency": {BootConcurrency: -1}, "Guard": {Guard: -1},
		"MaxSandboxes": {MaxSandboxes: -1}, "CreatesPerSec": {CreatesPerSec: math.NaN()},
	} {
		if _, err := newBench(cfg).Generate(t.Context(), row(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Generate = %v, want an error that names %s", err, want)
		}
	}
}

// A pause that the engine does not grant leaves neither turns nor clocks waiting.
func TestFailedPauseIsUndone(t *testing.T) {
	b := newBench(agentrl.Config{})
	stubborn := &stubbornAdapter{Fake: b.adapter}
	b.Adapter = stubborn
	if err := b.Pause(t.Context()); err == nil || !stubborn.resumed {
		t.Errorf("Pause = %v, resumed: %v", err, stubborn.resumed)
	}
}

type stubbornAdapter struct {
	*adaptertest.Fake
	resumed bool
}

func (s *stubbornAdapter) Pause(context.Context) error { return errors.New("a turn does not leave") }
func (s *stubbornAdapter) Resume()                     { s.resumed = true }

// refusing is a protocol that takes no row.
type refusing struct{}

func (refusing) Parse(swe.Row) (swe.Task, error) { return nil, swe.ErrNoImage }
