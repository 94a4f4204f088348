package agentrl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/internal/clock"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// step runs one stage: hooks, timing, the name of a stuck stage and the
// StageError, in one place.
func step[T any](ctx context.Context, r *rollout, stage Stage, role string, f func(context.Context) (T, error)) (T, error) {
	info := StageInfo{InstanceID: r.instance, Session: r.session.ID, Attempt: r.attempt, Stage: stage, Role: role, Sandbox: r.sandboxID, Start: time.Now()}
	r.enterStage(info)
	if h := r.g.Hooks.StageStart; h != nil {
		h(info)
	}
	ctx, end := r.g.tele.stage(ctx, info)
	var out T
	err := protect(func() (err error) {
		out, err = f(ctx)
		return err
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		err = &StageError{Stage: stage, Err: r.cancelled(err)}
	}
	end(err)
	info.InstanceID, info.Duration, info.Err = r.instance, time.Since(info.Start), err
	r.draft.stage(info)
	if h := r.g.Hooks.StageDone; h != nil {
		h(info)
	}
	return out, err
}

// protect runs f and makes an error of its panic: a bug that one row uncovers in
// a stage, a hook or a RewardFunc must not end a process with a thousand
// rollouts in it, nor leave their sandboxes behind.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	return f()
}

// cancelled marks what failed after the caller's own ctx had ended, which may
// have any cause: it is the caller's doing.
func (r *rollout) cancelled(err error) error {
	if err == nil || r.caller.Err() == nil || errors.Is(err, errCancelled) {
		return err
	}
	return fmt.Errorf("%w: %w", errCancelled, err)
}

// act is step for a stage that works in a sandbox, whose life is extended
// first where the backend can.
func act(ctx context.Context, r *rollout, stage Stage, m *machine, f func(context.Context) error) error {
	_, err := step(ctx, r, stage, m.role, func(ctx context.Context) (struct{}, error) {
		if e, ok := m.Sandbox.(sandbox.Extender); ok && (stage == StageRun || stage == StageEvaluate) {
			if err := e.Extend(ctx, r.g.Config.SandboxLifetime); err != nil {
				r.log.Warn("sandbox lifetime was not extended", "sandbox", m.ID(), "err", err)
			}
		}
		return struct{}{}, f(ctx)
	})
	return err
}

func (r *rollout) enterStage(info StageInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = info
}

func (r *rollout) where() (Stage, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.Stage, r.now.Start
}

// labelled is the spec as this rollout boots it: labels that tell this
// attempt's sandboxes from every other's, and the lifetime and egress asked for.
func (r *rollout) labelled(spec sandbox.Spec, role string, boot int) sandbox.Spec {
	host, _ := os.Hostname()
	labels := maps.Clone(spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["run"] = label(r.g.Config.RunID)
	labels["owner"] = label(fmt.Sprintf("%s-%d", host, os.Getpid()))
	labels["sample"] = label(r.session.ID)
	labels["attempt"] = fmt.Sprintf("%d.%d", r.attempt, boot)
	labels["role"] = role
	spec.Labels = labels
	if spec.Lifetime == 0 {
		spec.Lifetime = r.g.Config.SandboxLifetime
	}
	if role == RoleAgent {
		spec.Adapter = r.session.BaseURL
		if spec.Egress == sandbox.EgressOpen && r.g.Config.Egress == "adapter" {
			spec.Egress = sandbox.EgressAdapter
		}
	}
	return spec
}

// label keeps what every backend's labels can carry: [A-Za-z0-9._-].
func label(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			return c
		}
		return '-'
	}, s)
}

func (r *rollout) onTurn(t adapter.TurnInfo) {
	switch {
	case t.Err != nil:
		r.log.Warn("turn failed", "turn", t.ID, "duration", t.Duration, "err", t.Err)
	case t.Duration > 2*time.Minute:
		r.log.Warn("turn was slow", "turn", t.ID, "duration", t.Duration, "prompt", t.Prompt, "output", t.Output)
	}
	r.g.tele.turn(r.ctx, t)
	r.draft.turn(t)
	r.progressed(t)
	if h := r.g.Hooks.Turn; h != nil {
		h(TurnInfo{InstanceID: r.instance, Attempt: r.attempt, TurnInfo: t})
	}
}

// agentDone keeps how the agent ended in the metadata, and warns unless it
// exited with 0. What becomes of the rollout afterwards does not matter to it.
func (r *rollout) agentDone(w work) {
	code, reason := w.report.Exit.Code, fmt.Sprintf("CLI error (exit %d)", w.report.Exit.Code)
	if w.report.Exit.State == sandbox.TimedOut {
		code, reason = -1, "time budget exceeded"
	}
	if code != 0 {
		r.log.Warn("agent did not exit with 0", "agent_exit_code", code, "reason", reason)
	}
	r.base.Metadata["agent_exit_code"] = code
}

// describe writes what a graded rollout says about itself into the metadata
// that all its samples share.
func (r *rollout) describe(rec adapter.Record, w work, eval swe.Evaluation) {
	md := r.base.Metadata
	md["instance_id"] = r.instance
	md["grading_solved"] = eval.Outcome == swe.Solved
	md["is_solved"] = eval.Outcome == swe.Solved
	md["applied_cleanly"] = eval.Applied
	md["outcome"] = string(eval.Outcome)
	md["elapsed_sec"] = r.measure("elapsed", time.Since(r.start)).Seconds()
	md["agent"] = describeAgent(rec, w)
	md["turns"] = rec.Turns
	if tamper := append(commandSignals(rec.Tree), eval.Tamper...); len(tamper) > 0 {
		md["tamper"] = tamper
	}
}

// describeAgent is what the agent said of its run; a failed one leaves the end
// of its log.
func describeAgent(rec adapter.Record, w work) map[string]any {
	turns := w.report.Turns
	if turns == 0 {
		turns = rec.Turns // it does not count them itself
	}
	agent := map[string]any{
		"version": w.report.Version, "turns": turns, "duration_sec": w.took.Seconds(), "result": string(w.report.Outcome),
	}
	if len(w.report.Sessions) > 0 {
		agent["sessions"] = w.report.Sessions
	}
	if w.report.Outcome != harness.Finished && w.report.Log != "" {
		agent["log"] = w.report.Log
	}
	return agent
}

// samples makes one sample of each segment that is worth training on.
func (r *rollout) samples(rec adapter.Record, _ work, eval swe.Evaluation) ([]Sample, error) {
	var keep []trajectory.Segment
	untrained := ErrNoSamples
	for _, seg := range rec.Segments {
		switch {
		case seg.Label == chat.SideCall:
		case seg.Untrained != "":
			untrained = fmt.Errorf("%w: %s", ErrNoSamples, seg.Untrained)
		default:
			keep = append(keep, seg)
		}
	}
	if len(keep) == 0 {
		return nil, untrained
	}
	base := r.base
	if base.RolloutID == nil && base.Index != nil {
		id := *base.Index // a number of its own: who changes one does not change the other
		base.RolloutID = &id
	}
	out := make([]Sample, len(keep))
	for i, seg := range keep {
		reward := eval.Reward
		if r.g.Config.Reward == "split" {
			reward /= float64(len(keep))
		}
		out[i] = trained(base, seg, reward, r.g.Config.TruncatedStatus)
		out[i].Metadata["segment"] = describeSegment(keep, i)
	}
	return out, nil
}

// describeSegment says which of the rollout's sequences a sample is, and why it
// is one of its own.
func describeSegment(segs []trajectory.Segment, i int) map[string]any {
	seg := segs[i]
	md := map[string]any{"index": i, "count": len(segs), "label": labelOf(seg.Label), "weight": weight(segs, i)}
	if seg.Split != nil {
		md["split"] = seg.Split
	}
	if len(seg.Flags) > 0 {
		md["flags"] = seg.Flags
	}
	return md
}

// weight is a segment's share of the rollout's trained tokens.
func weight(segs []trajectory.Segment, i int) float64 {
	total := 0
	for _, seg := range segs {
		total += owned(seg)
	}
	return float64(owned(segs[i])) / float64(max(total, 1))
}

func owned(seg trajectory.Segment) int {
	n := 0
	for _, m := range seg.LossMask {
		n += int(m)
	}
	return n
}

func labelOf(k chat.Kind) string {
	if k == chat.Main {
		return "main"
	}
	return string(k)
}

// measured makes the one sample of an evaluation.
func (r *rollout) measured(_ adapter.Record, _ work, eval swe.Evaluation) ([]Sample, error) {
	s := placeholder(r.base)
	reward := eval.Reward
	s.Reward, s.Status = &reward, Completed
	return []Sample{s}, nil
}

// expired logs what the guard found when it expired.
func (r *rollout) expired() {
	stage, since := r.where()
	r.log.Warn("wall clock guard expired", "elapsed", time.Since(r.start), "guard", r.g.Config.Guard, "stage", string(stage), "stage_since", since)
}

// aborted makes the one sample of a rollout that failed, and logs why, unless
// the caller's own ctx ended: then nobody gets the sample.
func (r *rollout) aborted(err error) Sample {
	f := FailureOf(err)
	stage, _ := r.where()
	var at *StageError
	if errors.As(err, &at) {
		stage = at.Stage
	}
	s := placeholder(r.base)
	s.Status, s.Err = Aborted, err
	s.Metadata["abort_reason"] = abortReason(err)
	s.Metadata["instance_id"] = r.instance
	s.Metadata["failure"] = map[string]any{
		"stage": string(stage), "class": string(f.Class), "code": f.Code, "retryable": f.Retryable, "message": err.Error(),
	}
	if r.caller.Err() != nil {
		return s
	}
	attrs := []any{"reason", s.Metadata["abort_reason"], "stage", string(stage), "class", string(f.Class), "err", err}
	var p *panicError
	if errors.As(err, &p) {
		attrs = append(attrs, "stack", string(p.stack))
	}
	r.log.Warn("rollout aborted", attrs...)
	return s
}

func (r *rollout) done(samples []Sample, err error) {
	info := RolloutInfo{
		InstanceID: r.instance, Session: r.session.ID, Attempt: r.attempt, Samples: samples, Outcome: string(r.outcome),
		Patch: r.patch, Start: r.start, Duration: time.Since(r.start), Failure: FailureOf(err), Err: err,
	}
	if len(samples) > 0 && samples[0].Reward != nil {
		info.Reward = *samples[0].Reward
	}
	r.draft.finish(r, info)
	r.tape.finish(samples, r.log)
	if h := r.g.Hooks.RolloutDone; h != nil {
		h(info)
	}
}

// A liveSet is the rollouts of a Generator that are running, with the clocks
// that stand still in a pause.
type liveSet struct {
	mu     sync.Mutex
	calls  map[*rollout]*liveCall
	paused bool
	closed bool
	idle   sync.WaitGroup
}

type liveCall struct {
	cancel context.CancelCauseFunc
	clocks []*clock.Clock
}

// add reports whether the set still takes rollouts.
func (l *liveSet) add(r *rollout, cancel context.CancelCauseFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if l.calls == nil {
		l.calls = map[*rollout]*liveCall{}
	}
	l.calls[r] = &liveCall{cancel: cancel, clocks: []*clock.Clock{r.guard}}
	if l.paused {
		r.guard.Hold()
	}
	l.idle.Add(1)
	return true
}

func (l *liveSet) remove(r *rollout) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, r)
	l.idle.Done()
}

// track lets a clock of the rollout stand still in pauses until the returned
// function is called.
func (l *liveSet) track(r *rollout, c *clock.Clock) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	call := l.calls[r]
	call.clocks = append(call.clocks, c)
	if l.paused {
		c.Hold()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		call.clocks = call.clocks[:1]
	}
}

// pause holds all clocks, or lets them go on.
func (l *liveSet) pause(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused == on {
		return
	}
	l.paused = on
	for _, call := range l.calls {
		for _, c := range call.clocks {
			if on {
				c.Hold()
			} else {
				c.Release()
			}
		}
	}
}

// shut refuses new rollouts, cancels the live ones and waits for their end.
func (l *liveSet) shut() {
	l.mu.Lock()
	l.closed = true
	for _, call := range l.calls {
		call.cancel(ErrClosed)
	}
	l.mu.Unlock()
	l.idle.Wait()
}
