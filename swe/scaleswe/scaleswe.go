// Package scaleswe reads the default row format, metadata with
// metadata.remote_env_info behind it, and grades by a command's exit status
// (eval_cmd) or by pytest (f2p_script, f2p_patch, FAIL_TO_PASS, PASS_TO_PASS).
package scaleswe

import (
	"context"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// Options of the protocol. The zero value is the careful one.
type Options struct {
	EvalTimeout time.Duration // of the tests; defaults to 10 minutes
	StrictShell bool          // eval_cmd runs under -eo pipefail: no failing part is lost in a list or a pipeline
	AsPatched   bool          // the seeds' way: tests and runner configuration stay as the agent left them
	KeepHistory bool          // leave future commits, remotes and reflogs where the agent finds them
	GradeEmpty  bool          // run the tests for an empty patch too, as a preflight needs
	Pro         swe.Protocol  // reads rows that have metadata.swepro; nil refuses them
}

// Protocol is the default row format. It is safe for concurrent use.
type Protocol struct{ o Options }

// New returns the protocol.
func New(o Options) *Protocol {
	if o.EvalTimeout == 0 {
		o.EvalTimeout = 10 * time.Minute
	}
	return &Protocol{o}
}

// Parse reads a row. What metadata lacks comes from metadata.remote_env_info,
// see swe.Workspace.ReadRow. The grader is metadata.swepro, else eval_cmd, else
// f2p_script or f2p_patch of remote_env_info, whose parent_commit, if it is
// there, has to be HEAD after the pre_commands.
func (p *Protocol) Parse(row swe.Row) (swe.Task, error) {
	t := &task{o: p.o}
	var err error
	if t.spec, err = t.ReadRow(row); err != nil {
		return nil, err
	}
	f := row.Fields()
	if f.Has("swepro") {
		if p.o.Pro == nil {
			return nil, f.Error("swepro", "a grader for SWE-bench Pro: set Options.Pro")
		}
		return p.o.Pro.Parse(row)
	}
	t.Scrub = !p.o.KeepHistory
	remote, err := f.Object("remote_env_info")
	if err != nil {
		return nil, err
	}
	if t.Commit, err = remote.Text("parent_commit"); err != nil {
		return nil, err
	}
	if err := t.readGrader(f, remote); err != nil {
		return nil, err
	}
	return t, t.NeedStatement(row)
}

// A task is one row. It is immutable.
type task struct {
	swe.Workspace
	o    Options
	spec swe.Spec

	evalCmd string
	pytest  *pytestJob // nil: eval_cmd
}

// Spec implements swe.Task.
func (t *task) Spec() swe.Spec { return t.spec }

// Evaluate implements swe.Task.
func (t *task) Evaluate(ctx context.Context, sb sandbox.Sandbox, p swe.Patch) (swe.Evaluation, error) {
	o := swe.GradeOptions{AsPatched: t.o.AsPatched, Empty: t.o.GradeEmpty}
	if t.pytest != nil {
		o.Tests = t.pytest.patch
		return t.Workspace.Evaluate(ctx, sb, p, o, t.runPytest)
	}
	return t.Workspace.Evaluate(ctx, sb, p, o, t.runCommand)
}
