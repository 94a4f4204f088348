package swe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// GradeOptions are what graders of all formats share.
type GradeOptions struct {
	AsPatched bool   // leave protected paths as the patch made them
	Tests     []byte // the graders' own patch, applied last; nil for none
	Official  []byte // a patch that the grader's script will apply: its files are taken from the base
	Empty     bool   // grade an empty patch as any other, for a preflight
}

// Evaluate takes a patch to a fresh sandbox and lets run grade it there. An
// empty patch is not graded, a rejected one neither. An error is the
// infrastructure's.
func (w *Workspace) Evaluate(ctx context.Context, sb sandbox.Sandbox, p Patch, o GradeOptions, run func(context.Context, *Grading) (Evaluation, error)) (Evaluation, error) {
	if p.Empty() && !o.Empty {
		return Verdict(EmptyPatch, "the patch is empty; no test was run"), nil
	}
	g, err := w.Grading(ctx, sb)
	if err != nil {
		return Evaluation{}, err
	}
	protected := w.Protected
	if o.AsPatched {
		protected = nil
	}
	report, err := g.Apply(ctx, p, ApplyOptions{protected, o.Tests, o.Official})
	var official *OfficialError
	switch {
	case errors.As(err, &official):
		return g.finish(p, report, Verdict(GraderError, official.Error())), nil
	case err != nil:
		return Evaluation{}, err
	case report.Tier == "":
		return g.finish(p, report, Verdict(rejection(p, report, o), report.Rejection)), nil
	}
	e, err := run(ctx, g)
	if err != nil {
		return Evaluation{}, err
	}
	return g.finish(p, report, e), nil
}

// rejection says whose fault it is that a patch does not apply. A captured
// patch fits the base that it was captured on: if it does not apply there, its
// bytes were changed on the way, and if it meets another base, the set-up does
// not give the same twice. Only of a foreign patch it is the patch's.
func rejection(p Patch, report ApplyReport, o GradeOptions) Outcome {
	switch {
	case p.ResultTree == "" || o.AsPatched:
		return PatchRejected
	case report.Drift:
		return BaseBroken
	}
	return GraderError
}

// finish adds what is known of every graded patch.
func (g *Grading) finish(p Patch, report ApplyReport, e Evaluation) Evaluation {
	e.Apply, e.Tools = report, g.Tools
	if n := len(report.Drifted); n > 0 {
		e.Reason += fmt.Sprintf("; the base is not that of the capture: %d paths differ, %s", n, report.Drifted[0])
	}
	e.Tamper = append(e.Tamper, PatchSignals(p.Bytes)...)
	slices.Sort(e.Tamper)
	e.Tamper = slices.Compact(e.Tamper)
	return e
}

// A TestRun is how a script of a grader ended.
type TestRun struct {
	Exit     sandbox.Exit
	Duration time.Duration
	Tail     string // the end of its output
}

// Read reads a file that a grader's script left, of at most max bytes. A
// missing one is fs.ErrNotExist.
func (g *Grading) Read(ctx context.Context, path string, max int) ([]byte, error) {
	return readFile(ctx, g.sb, path, max)
}

// Write puts a file that only root can change, readable by everyone, below a
// directory of the grader's own, and returns its path.
func (g *Grading) Write(ctx context.Context, name string, content []byte) (string, error) {
	path := g.snap.dir + ".run/" + name
	return path, g.sb.WriteFile(ctx, path, "", bytes.NewReader(content))
}

// WriteAt puts a file of root's at path.
func (g *Grading) WriteAt(ctx context.Context, path string, content []byte) error {
	return g.sb.WriteFile(ctx, path, "", bytes.NewReader(content))
}

// Results makes a directory that the tests' user can write to, and returns it.
func (g *Grading) Results(ctx context.Context, user string) (string, error) {
	dir := g.snap.dir + ".out"
	script := "rm -rf " + sandbox.Path(dir) + " && mkdir -m 700 " + sandbox.Path(dir)
	if user != "" {
		script += " && { " + oneUser + " || chown " + user + " " + sandbox.Path(dir) + "; }"
	}
	_, err := sandbox.Output(ctx, g.sb, sandbox.Cmd{Script: script, Replayable: true})
	return dir, err
}

// Log reads a script's whole output, of at most max bytes from its start.
func (g *Grading) Log(ctx context.Context, script string, max int) ([]byte, error) {
	return readFile(ctx, g.sb, g.w.logOf(g.sb, script), max)
}

// Run runs a grader's script, once, through cut connections. On return nothing
// of it runs. An error is the infrastructure's.
func (g *Grading) Run(ctx context.Context, s Script) (TestRun, error) {
	start := time.Now()
	exit, tail, err := g.w.runScript(ctx, g.sb, s)
	return TestRun{exit, time.Since(start), tail}, err
}

// Verdict is the Evaluation of a run with this outcome.
func (r TestRun) Verdict(o Outcome, reason string) Evaluation {
	e := Verdict(o, reason)
	e.ExitCode, e.Duration, e.LogTail = r.Exit.Code, r.Duration, r.Tail
	return e
}
