// Package scaleswe reads the default row format, metadata with
// metadata.remote_env_info behind it, and grades by a command's exit status
// (eval_cmd) or by pytest (f2p_script, f2p_patch, FAIL_TO_PASS, PASS_TO_PASS).
package scaleswe

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

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
// the instance id also from a label that is a string of less than 256
// characters, the problem statement also from the prompt.
func (p *Protocol) Parse(row swe.Row) (swe.Task, error) {
	f := row.Fields()
	remote, err := f.Object("remote_env_info")
	if err != nil {
		return nil, err
	}
	t := &task{o: p.o}
	image, err := first(f, "image", remote, "image_url")
	if err != nil {
		return nil, err
	}
	if t.Workdir, err = first(f, "workdir", remote, "workdir"); err != nil {
		return nil, err
	}
	if image == "" || t.Workdir == "" {
		return nil, missing(f, remote)
	}
	if !strings.HasPrefix(t.Workdir, "/") || strings.Trim(t.Workdir, "/") == "" {
		return nil, f.Error("workdir", `an absolute path below "/"`)
	}
	if f.Has("swepro") {
		return p.pro(f, row)
	}
	if err := t.read(f, remote, row, image); err != nil {
		return nil, err
	}
	return t, t.readGrader(f, remote)
}

// pro hands a SWE-bench Pro row on.
func (p *Protocol) pro(f swe.Fields, row swe.Row) (swe.Task, error) {
	if p.o.Pro == nil {
		return nil, f.Error("swepro", "a grader for SWE-bench Pro: set Options.Pro")
	}
	return p.o.Pro.Parse(row)
}

// missing says which of image and workdir there is none of, and which key was
// given that is not read.
func missing(f, remote swe.Fields) error {
	if err := f.CheckSpelling("image", "workdir"); err != nil {
		return &noImage{err}
	}
	if err := remote.CheckSpelling("image_url", "workdir"); err != nil {
		return &noImage{err}
	}
	return swe.ErrNoImage
}

// noImage is swe.ErrNoImage with a hint.
type noImage struct{ hint error }

func (e *noImage) Error() string   { return swe.ErrNoImage.Error() + ": " + e.hint.Error() }
func (e *noImage) Unwrap() []error { return []error{swe.ErrNoImage, e.hint} }

// read fills in all but the grader.
func (t *task) read(f, remote swe.Fields, row swe.Row, image string) error {
	id, err := first(f, "instance_id", remote, "instance_id")
	if err != nil {
		return err
	}
	if id == "" {
		id = labelID(row.Label)
	}
	if t.Statement, err = f.Text("problem_statement"); err != nil {
		return err
	}
	if t.Statement == "" {
		t.Statement = swe.PromptText(row.Prompt)
	}
	if t.Steps, err = f.Steps("pre_commands"); err == nil && t.Steps == nil {
		t.Steps, err = remote.Steps("pre_commands")
	}
	if err != nil {
		return err
	}
	if err := t.ReadCommon(f); err != nil {
		return err
	}
	t.Scrub = !t.o.KeepHistory
	box := sandbox.Spec{Image: image, Workdir: t.Workdir, Env: t.Env}
	t.spec = swe.Spec{InstanceID: id, ProblemStatement: t.Statement, Agent: box, Grader: box}
	return nil
}

// first is the value of one of two keys.
func first(f swe.Fields, key string, remote swe.Fields, remoteKey string) (string, error) {
	s, err := f.Text(key)
	if s != "" || err != nil {
		return s, err
	}
	return remote.Text(remoteKey)
}

func labelID(label json.RawMessage) string {
	var s string
	if json.Unmarshal(label, &s) != nil || s == "" || utf8.RuneCountInString(s) >= 256 {
		return "unknown"
	}
	return s
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
