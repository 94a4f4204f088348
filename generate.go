// Package agentrl turns one dataset row into training samples: Generate runs a
// real coding agent on a real repository inside a sandbox, serves its model
// calls from the policy being trained while recording the exact tokens, grades
// its patch in a second clean sandbox, and returns one sample for each token
// sequence to train on.
//
// A trainer calls Generate once per sample, many at once. A rollout that fails
// is data: one aborted sample with the reason in its metadata, and no error.
package agentrl

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/internal/clock"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// Generate runs one rollout for base with the process-wide Generator of args,
// which is made at the first call from the process's environment. It returns
// the rollout's samples, or one aborted sample. The error is not nil only when
// ctx ended (then it is its cause), when the Generator cannot be made, or when
// the circuit breaker is open (ErrUnavailable). base is not changed.
func Generate(ctx context.Context, args Args, base Sample, params SamplingParams) ([]Sample, error) {
	g, err := process.generator(args)
	if err != nil {
		return nil, err
	}
	return g.Generate(ctx, base, params)
}

// Evaluate is Generate for measuring: the same rollout by the evaluation
// protocol, and one sample that carries the reward and no tokens.
func Evaluate(ctx context.Context, args Args, base Sample, params SamplingParams) ([]Sample, error) {
	g, err := process.generator(args)
	if err != nil {
		return nil, err
	}
	return g.Evaluate(ctx, base, params)
}

// A RewardFunc decides what a graded rollout is worth, and whether it is kept
// (false aborts it as exception:<outcome>). It is not asked about a grader's own
// failure, which says nothing about the patch.
type RewardFunc func(eval swe.Evaluation, segments []trajectory.Segment) (reward float64, keep bool)

// A Generator runs rollouts. Its fields are the stages: New fills them with the
// production ones, and a caller may inject others until the first call. It must
// not be copied, and it is safe for concurrent use.
type Generator struct {
	Config       Config
	Protocol     swe.Protocol
	EvalProtocol swe.Protocol // for Evaluate; nil means Protocol
	Sandboxes    sandbox.Provider
	Harness      harness.Harness
	Adapter      adapter.Adapter
	Reward       RewardFunc   // nil means the protocol's own reward and verdict
	Hooks        Hooks        // optional
	Logger       *slog.Logger // nil means slog.Default()

	// Recorder records every rollout for Replay; nil means none.
	Recorder *Recorder

	// TracerProvider and MeterProvider take traces and metrics; nil means none.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	once     sync.Once
	shared   *shared // boot gates and breaker: the process's, or this Generator's own
	tele     *telemetry
	broken   error // why the Generator cannot run
	live     liveSet
	records  *runWriter // nil: none are kept
	replayed *Recording // what is replayed; nil: nothing is
	admin    *admin     // nil: there is no live view
	args     Args
	closer   func() error // what New opened
}

// Generate runs one rollout: see the package function.
func (g *Generator) Generate(ctx context.Context, base Sample, params SamplingParams) ([]Sample, error) {
	return g.rollout(ctx, base, params, g.Protocol, export{"generate", (*rollout).samples})
}

// Evaluate runs one rollout by EvalProtocol: see the package function.
func (g *Generator) Evaluate(ctx context.Context, base Sample, params SamplingParams) ([]Sample, error) {
	protocol := g.EvalProtocol
	if protocol == nil {
		protocol = g.Protocol
	}
	return g.rollout(ctx, base, params, protocol, export{"evaluate", (*rollout).measured})
}

// Grade grades a patch for the row without an agent: for preflight and for
// grading again. The error is a *StageError, or the cause of a ctx that ended.
// An empty patch is graded only if Config.GradeEmpty is set.
func (g *Generator) Grade(ctx context.Context, row Sample, patch swe.Patch) (swe.Evaluation, error) {
	g.once.Do(g.prepare)
	if g.broken != nil {
		return swe.Evaluation{}, g.broken
	}
	r := newRollout(g, row, nil, g.Protocol, export{})
	var eval swe.Evaluation
	err := r.under(ctx, func(ctx context.Context) error {
		return r.traced(ctx, func(ctx context.Context) (err error) {
			eval, err = r.gradeOnly(ctx, patch)
			return err
		})
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return eval, err
}

// An export is what a call is for.
type export struct {
	mode string
	make func(r *rollout, rec adapter.Record, work work, eval swe.Evaluation) ([]Sample, error) // the samples of a rollout that was graded
}

func (g *Generator) rollout(ctx context.Context, base Sample, params SamplingParams, p swe.Protocol, out export) ([]Sample, error) {
	g.once.Do(g.prepare)
	if err := errors.Join(g.broken, g.lacking("Harness", "Adapter")); err != nil {
		return nil, err
	}
	samples, err := newRollout(g, base, params, p, out).do(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case samples == nil: // it was not let in
		return nil, err
	}
	return samples, nil
}

// A rollout is one call of Generate. Only its own goroutine uses it, but for
// what the mutex guards.
type rollout struct {
	g        *Generator
	base     Sample
	params   SamplingParams
	protocol swe.Protocol
	export   export
	attempt  int
	instance string
	log      *slog.Logger
	born     time.Time       // when it was called
	start    time.Time       // when the breaker let it in
	caller   context.Context // the caller's own
	ctx      context.Context
	guard    *clock.Clock
	session  adapter.Session

	sandboxID string
	patch     []byte
	outcome   swe.Outcome
	draft     *draft // nil: no record is kept
	tape      *tape  // nil: it is not recorded

	mu    sync.Mutex
	now   StageInfo // the stage that it is in
	turns progress
}

func newRollout(g *Generator, base Sample, params SamplingParams, p swe.Protocol, out export) *rollout {
	given := base
	base, before := base.asBase()
	r := &rollout{g: g, base: base, params: params, protocol: p, export: out, attempt: before + 1, instance: "unknown", start: time.Now()}
	r.born = r.start
	r.base.Metadata["attempt"] = r.attempt
	r.log = g.logger().With("instance_id", r.instance, "attempt", r.attempt)
	r.draft, r.tape = newDraft(r), newTape(r, given)
	return r
}

// do waits for the breaker, runs the rollout and turns its failure into data.
// Without samples the rollout was not let in.
func (r *rollout) do(ctx context.Context) ([]Sample, error) {
	var samples []Sample
	err := r.under(ctx, func(ctx context.Context) error {
		report, err := r.g.shared.breaker.enter(ctx)
		if err != nil {
			return err
		}
		r.start = time.Now()
		err = r.traced(ctx, func(ctx context.Context) error {
			return r.cancelled(protect(func() (err error) {
				samples, err = r.run(ctx)
				return err
			}))
		})
		report(err)
		if err != nil {
			samples = []Sample{r.aborted(err)}
		}
		r.done(samples, err)
		return err
	})
	return samples, err
}

// under runs f as one live call, with the guard, which stands still until the
// sandboxes begin.
func (r *rollout) under(ctx context.Context, f func(context.Context) error) error {
	r.caller = ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.guard = clock.Held(r.g.Config.Guard, func() {
		r.expired()
		cancel(ErrWallClock)
	})
	defer r.guard.Stop()
	if !r.g.live.add(r, cancel) {
		return ErrClosed
	}
	defer r.g.live.remove(r)
	return f(ctx)
}

// traced runs f under the span of the rollout.
func (r *rollout) traced(ctx context.Context, f func(context.Context) error) error {
	ctx, span := r.g.tele.startRollout(ctx, r)
	r.ctx = ctx
	err := f(ctx)
	r.g.tele.endRollout(ctx, span, r, err)
	return err
}

// run is the rollout from top to bottom.
func (r *rollout) run(ctx context.Context) ([]Sample, error) {
	task, err := step(ctx, r, StageParse, "", r.parse)
	if err != nil {
		return nil, err
	}
	r.session, err = step(ctx, r, StageOpen, "", r.open)
	if err != nil {
		return nil, err
	}
	r.tape.opened(r.session)
	r.g.tele.sessions.Add(ctx, 1)
	defer r.g.tele.sessions.Add(r.ctx, -1)
	defer r.drop()

	r.guard.Release()
	work, err := r.solve(ctx, task)
	if err != nil {
		return nil, err
	}
	eval, err := r.evaluate(ctx, task, work.patch)
	if err != nil {
		return nil, err
	}
	return step(ctx, r, StageFinish, "", func(ctx context.Context) ([]Sample, error) {
		return r.collect(ctx, work, eval)
	})
}

func (r *rollout) parse(context.Context) (swe.Task, error) {
	row, err := r.base.row()
	if err != nil {
		return nil, &swe.RowError{Key: "metadata", Got: err.Error(), Want: "values that JSON can hold"}
	}
	task, err := r.protocol.Parse(row)
	if id := instanceOf(task, row); id != "" {
		r.instance = id
		r.log = r.g.logger().With("instance_id", id, "attempt", r.attempt)
	}
	return task, err
}

func (r *rollout) open(ctx context.Context) (adapter.Session, error) {
	id := sessionID(r.base, r.instance, r.attempt, randomID)
	r.base.SessionID = id
	kwargs, err := r.base.templateKwargs()
	if err != nil {
		return adapter.Session{}, err
	}
	return r.g.Adapter.OpenSession(ctx, id, adapter.SessionOptions{
		Sampling:   maps.Clone(r.params),
		MaxContext: r.g.args.MaxContextLen,
		MaxTurns:   r.g.Config.MaxTurns,
		MaxTokens:  r.g.Config.MaxTokens,
		MaxTime:    r.g.Config.MaxTime,
		Kwargs:     kwargs,
		OnTurn:     r.onTurn,
	})
}

// drop forgets the session: on return the engine holds nothing of it.
func (r *rollout) drop() {
	r.salvage()
	_, err := step(context.WithoutCancel(r.ctx), r, StageDrop, "", func(context.Context) (struct{}, error) {
		return struct{}{}, r.g.Adapter.DropSession(r.session.ID)
	})
	if err != nil {
		r.log.Warn("session did not drop cleanly", "session", r.session.ID, "err", err)
	}
}

// work is what the agent's side leaves.
type work struct {
	report harness.Report
	took   time.Duration // of the agent's run
	patch  swe.Patch
}

// solve boots the agent's sandbox, lets the agent work, and takes its patch.
// The agent is dead and its token worth nothing before the patch is taken.
func (r *rollout) solve(ctx context.Context, task swe.Task) (work, error) {
	m, err := r.boot(ctx, RoleAgent, task.Spec().Agent)
	if err != nil {
		return work{}, err
	}
	defer r.close(m)

	if err := act(ctx, r, StagePrepare, m, func(ctx context.Context) error { return task.Prepare(ctx, m.Sandbox) }); err != nil {
		return work{}, err
	}
	var w work
	if err := act(ctx, r, StageRun, m, func(ctx context.Context) (err error) {
		w, err = r.runAgent(ctx, m, task)
		return err
	}); err != nil {
		return work{}, err
	}
	r.agentDone(w)
	if err := act(ctx, r, StageSeal, m, func(ctx context.Context) error {
		return r.g.Adapter.SealSession(ctx, r.session.ID)
	}); err != nil {
		return work{}, err
	}
	err = act(ctx, r, StageDiff, m, func(ctx context.Context) (err error) {
		w.patch, err = task.Diff(ctx, m.Sandbox)
		return err
	})
	r.patch = w.patch.Bytes
	r.draft.worked(w)
	return w, err
}

// runAgent runs the harness within its budget. An agent that fails is data,
// unless it never had a chance.
func (r *rollout) runAgent(ctx context.Context, m *machine, task swe.Task) (work, error) {
	stop := make(chan struct{})
	budget := clock.New(r.g.Config.AgentBudget, func() { close(stop) })
	defer budget.Stop()
	defer r.g.live.track(r, budget)()

	start := time.Now()
	report, err := r.g.Harness.Run(ctx, bare(m.Sandbox), r.job(task, stop))
	r.tape.ran(report, err)
	w := work{report: report, took: r.measure("agent", time.Since(start))}
	r.draft.worked(w)
	switch {
	case err != nil:
		return w, err
	case report.Exit.State == sandbox.Lost:
		return w, fmt.Errorf("%w: %s", errJobLost, report.Log)
	case report.Outcome == harness.Unreachable:
		if engine := r.g.Adapter.SealSession(ctx, r.session.ID); engine != nil {
			return w, engine // it is the engine that was not there, behind an adapter that was
		}
		return w, fmt.Errorf("%w at %s: %s", errAgentUnreachable, r.baseURL(), report.Log)
	}
	return w, nil
}

func (r *rollout) job(task swe.Task, stop <-chan struct{}) harness.Job {
	prompt := r.g.Config.Prompt
	if prompt == "" {
		prompt = swe.TaskPrompt
	}
	return harness.Job{
		Workdir: task.Spec().Agent.Workdir, Prompt: prompt,
		BaseURL: r.baseURL(), Token: r.session.Token, Model: "agentrl",
		MaxContext: r.g.args.MaxContextLen, MaxTurn: intOf(r.params["max_new_tokens"]),
		Stop: stop,
	}
}

func (r *rollout) baseURL() string {
	if r.g.Harness.DialsBack() && r.session.BaseURL != "" {
		return r.session.BaseURL
	}
	return r.session.LocalURL
}

// evaluate grades the patch in a fresh sandbox; after an infrastructure fault
// again in another. An empty patch is not graded.
func (r *rollout) evaluate(ctx context.Context, task swe.Task, patch swe.Patch) (swe.Evaluation, error) {
	if patch.Empty() && !r.g.Config.GradeEmpty {
		return swe.Evaluation{Applied: true, Outcome: swe.EmptyPatch, Keep: true, Reason: "the agent changed nothing"}, nil
	}
	var (
		eval swe.Evaluation
		err  error
	)
	for try := 0; try <= r.g.Config.EvalRetries.n(); try++ {
		if eval, err = r.grade(ctx, task, patch); err == nil && !infrastructural(eval) {
			return eval, nil
		}
		if ctx.Err() != nil || permanent(err) {
			return eval, err
		}
		r.g.tele.retry(ctx, "evaluation")
		r.log.Warn("evaluation failed", "try", try+1, "outcome", string(eval.Outcome), "err", err)
	}
	return eval, err
}

// infrastructural reports an outcome that says nothing about the patch.
func infrastructural(eval swe.Evaluation) bool { return eval.Outcome == swe.GraderError }

// gradeOnly is evaluate without an agent before it.
func (r *rollout) gradeOnly(ctx context.Context, patch swe.Patch) (swe.Evaluation, error) {
	task, err := step(ctx, r, StageParse, "", r.parse)
	if err != nil {
		return swe.Evaluation{}, err
	}
	r.session.ID = sessionID(r.base, r.instance, r.attempt, randomID) // for the labels
	r.guard.Release()
	return r.evaluate(ctx, task, patch)
}

func (r *rollout) grade(ctx context.Context, task swe.Task, patch swe.Patch) (swe.Evaluation, error) {
	m, err := r.boot(ctx, RoleGrader, task.Spec().Grader)
	if err != nil {
		return swe.Evaluation{}, err
	}
	defer r.close(m)
	var eval swe.Evaluation
	err = act(ctx, r, StageEvaluate, m, func(ctx context.Context) (err error) {
		eval, err = task.Evaluate(ctx, m.Sandbox, patch)
		return err
	})
	r.draft.graded(eval)
	return eval, err
}

// collect finishes the session and makes the samples.
func (r *rollout) collect(ctx context.Context, w work, eval swe.Evaluation) ([]Sample, error) {
	rec, err := r.g.Adapter.FinishSession(ctx, r.session.ID)
	if err != nil {
		return nil, err
	}
	r.g.tele.sessionOf(ctx, rec)
	r.draft.session(rec, r.decoder())
	keep := eval.Keep
	if r.g.Reward != nil && !infrastructural(eval) {
		eval.Reward, keep = r.g.Reward(eval, rec.Segments)
	}
	r.outcome = eval.Outcome
	r.draft.graded(eval)
	switch {
	case !keep:
		return nil, &outcomeError{eval}
	case math.IsNaN(eval.Reward), math.IsInf(eval.Reward, 0):
		return nil, fmt.Errorf("the reward is %v, which is no number that JSON or a loss can hold", eval.Reward)
	}
	r.describe(rec, w, eval)
	samples, err := r.export.make(r, rec, w, eval)
	if err != nil {
		return nil, err
	}
	r.log.Info("rollout done", "reward", eval.Reward, "outcome", string(eval.Outcome), "applied", eval.Applied,
		"agent_exit_code", r.base.Metadata["agent_exit_code"], "elapsed", time.Since(r.start).Round(100*time.Millisecond), "segments", len(samples))
	return samples, nil
}

func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: see its doc
	return hex.EncodeToString(b[:])
}
