package agentrl

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// A draft is the record of a rollout that is running. The methods of a nil
// draft do nothing: then there is no run directory. It is safe for concurrent use.
type draft struct {
	w       *runWriter
	sampled bool // it is recorded even when nothing goes wrong

	mu       sync.Mutex
	rec      RunRecord
	finished bool // the session's conversations are in it
}

// newDraft begins the record of a rollout whose base is set.
func newDraft(r *rollout) *draft {
	w := r.g.records
	if w == nil {
		return nil
	}
	row := r.base
	row.Metadata = maps.Clone(row.Metadata)
	cfg := r.g.Config
	return &draft{w: w, sampled: rand.Float64() < w.sample, rec: RunRecord{
		Version: RunRecordVersion, RunID: cfg.RunID, Attempt: r.attempt, Start: r.start, Agent: cfg.Agent, Sandbox: cfg.Sandbox,
		Args: r.g.args, Params: r.params, Row: row,
	}}
}

func (d *draft) stage(info StageInfo) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := StageRecord{Stage: info.Stage, Role: info.Role, Sandbox: info.Sandbox, Start: info.Start, Seconds: info.Duration.Seconds()}
	if info.Err != nil {
		s.Err = info.Err.Error()
	}
	d.rec.Stages = append(d.rec.Stages, s)
}

func (d *draft) turn(t adapter.TurnInfo) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	rec := TurnRecord{ID: t.ID, Kind: labelOf(t.Kind), Agent: t.Agent, Prompt: t.Prompt, Output: t.Output, Cached: t.Cached,
		Finish: t.Finish, IllFormed: t.IllFormed, Start: t.Start, Seconds: t.Duration.Seconds()}
	if t.Err != nil {
		rec.Err = t.Err.Error()
	}
	d.rec.Turns = append(d.rec.Turns, rec)
}

func (d *draft) worked(w work) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	code := w.report.Exit.Code
	if w.report.Exit.State == sandbox.TimedOut {
		code = -1
	}
	d.rec.Report = &AgentRecord{Outcome: string(w.report.Outcome), ExitCode: code, Version: w.report.Version,
		Turns: w.report.Turns, Seconds: w.took.Seconds(), Log: w.report.Log}
	if w.patch.Bytes != nil {
		d.rec.Patch = &w.patch
	}
}

func (d *draft) graded(eval swe.Evaluation) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rec.Eval = &eval
}

// session keeps what the adapter recorded. decode may be nil.
func (d *draft) session(rec adapter.Record, decode func([]int32) string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished = true
	d.rec.Segments, d.rec.Rewrites, d.rec.Budget = rec.Segments, rec.Rewrites, rec.Budget
	d.rec.Counts = map[string]int{"turns": rec.Turns, "side_calls": rec.SideCalls, "abandoned": rec.Abandoned}
	if rec.Tree != nil {
		d.history(rec)
	}
	if decode == nil {
		return
	}
	d.rec.Pieces = map[int32]string{}
	for _, s := range rec.Segments {
		for _, id := range s.Tokens {
			if _, ok := d.rec.Pieces[id]; !ok {
				d.rec.Pieces[id] = decode([]int32{id})
			}
		}
	}
}

// history keeps the conversations. d.mu is held.
func (d *draft) history(rec adapter.Record) {
	h := rec.Tree.History()
	for _, m := range h.Messages {
		out := MessageRecord{Role: m.Role, Content: m.Content, Reasoning: m.Reasoning, Turn: m.Turn, Parent: m.Parent, Toolset: m.Toolset, Superseded: m.Superseded}
		for _, c := range m.ToolCalls {
			out.Calls = append(out.Calls, CallRecord{c.Name, string(c.Arguments)})
		}
		d.rec.Messages = append(d.rec.Messages, out)
	}
	for _, set := range h.Toolsets {
		tools := make([]ToolRecord, len(set))
		for i, t := range set {
			tools[i] = ToolRecord{t.Name, t.Description, string(t.Parameters)}
		}
		d.rec.Toolsets = append(d.rec.Toolsets, tools)
	}
}

// salvageLimit bounds what is waited for the conversations of a failed rollout.
const salvageLimit = 10 * time.Second

// salvage keeps the conversations of a session that is about to be dropped
// unfinished: those of a failed rollout are the ones that people look for.
func (r *rollout) salvage() {
	d := r.draft
	if d == nil || d.finished {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), salvageLimit)
	defer cancel()
	_ = r.g.Adapter.SealSession(ctx, r.session.ID) // what it has to say is what the rollout failed for, or nothing new
	if rec, err := r.g.Adapter.FinishSession(ctx, r.session.ID); err == nil {
		d.session(rec, r.decoder())
	}
}

// decoder is the adapter's, or nil.
func (r *rollout) decoder() func([]int32) string {
	if d, ok := r.g.Adapter.(interface{ Decode([]int32) string }); ok {
		return d.Decode
	}
	return nil
}

// finish completes the record and writes it, if it is one of those to be kept.
func (d *draft) finish(r *rollout, info RolloutInfo) {
	if d == nil || !d.sampled && info.Err == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	rec := &d.rec
	rec.Start = info.Start
	rec.InstanceID, rec.Session, rec.Seconds = info.InstanceID, info.Session, info.Duration.Seconds()
	rec.Reward, rec.Outcome, rec.Mode = info.Reward, info.Outcome, r.export.mode
	for _, s := range info.Samples {
		if !s.RemoveSample {
			rec.Samples++
		}
	}
	if info.Err != nil {
		rec.Outcome = "aborted"
		rec.Failure = failureRecord(info)
	}
	d.w.write(rec, r.log)
}

func failureRecord(info RolloutInfo) *FailureRecord {
	f := &FailureRecord{Reason: abortReason(info.Err), Class: info.Failure.Class, Code: info.Failure.Code, Retryable: info.Failure.Retryable, Message: info.Err.Error()}
	var at *StageError
	if errors.As(info.Err, &at) {
		f.Stage = at.Stage
	}
	return f
}
