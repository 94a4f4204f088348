// Package swepro reads and grades SWE-bench Pro rows: metadata.swepro names a
// run script, a parser for its output, and the tests that have to pass.
package swepro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// Options of the protocol. The zero value is the careful one.
type Options struct {
	EvalTimeout time.Duration // of the run script; defaults to 10 minutes
	AsPatched   bool          // the seeds' order: the official tests come before the patch, whose edits of tests win
	GradeEmpty  bool          // run the tests for an empty patch too, as a preflight needs
}

// Protocol is the SWE-bench Pro row format. It is safe for concurrent use.
type Protocol struct{ o Options }

// New returns the protocol.
func New(o Options) *Protocol {
	if o.EvalTimeout == 0 {
		o.EvalTimeout = 10 * time.Minute
	}
	return &Protocol{o}
}

// Parse reads a row; see swe.Workspace.ReadRow for what is not in
// metadata.swepro. The scripts are read from this machine's files now: a
// missing one is a row error.
//
// before_repo_set_cmd brings the repository to its base and then, in its last
// line, checks the official tests out of the solution's commit. The last line
// is run in grading only, after the patch. The agent's sandbox gets neither it
// nor the commits that it names.
func (p *Protocol) Parse(row swe.Row) (swe.Task, error) {
	t := &task{o: p.o}
	var err error
	if t.spec, err = t.ReadRow(row); err != nil {
		return nil, err
	}
	f, err := row.Fields().Object("swepro")
	if err != nil {
		return nil, err
	}
	if err := t.read(f); err != nil {
		return nil, err
	}
	t.Scrub = true
	return t, t.NeedStatement(row)
}

func (t *task) read(f swe.Fields) error {
	if err := f.CheckSpelling("run_script_path", "parser_script_path", "run_script", "parser_script", "before_repo_set_cmd",
		"selected_test_files", "fail_to_pass", "pass_to_pass"); err != nil {
		return err
	}
	if f.Has("selected_test_files_to_run") && !f.Has("selected_test_files") {
		return f.Error("selected_test_files_to_run", "the key selected_test_files: this one is not read")
	}
	var err error
	if t.runScript, err = script(f, "run_script"); err != nil {
		return err
	}
	if t.parser, err = script(f, "parser_script"); err != nil {
		return err
	}
	if t.selected, err = f.List("selected_test_files"); err != nil {
		return err
	}
	if t.f2p, err = f.List("fail_to_pass"); err != nil {
		return err
	}
	if t.p2p, err = f.List("pass_to_pass"); err != nil {
		return err
	}
	if len(t.f2p) == 0 {
		return f.Error("fail_to_pass", "the tests that the fix makes pass: without any, every patch would be a solution")
	}
	before, err := f.Text("before_repo_set_cmd")
	if err != nil {
		return err
	}
	t.splitBefore(before)
	return nil
}

// script is a file of this machine, or its text in the row.
func script(f swe.Fields, key string) ([]byte, error) {
	text, err := f.Text(key)
	if text != "" || err != nil {
		return []byte(text), err
	}
	path, err := f.Text(key + "_path")
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, f.Error(key+"_path", "the path of a script on this machine")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", f.Error(key+"_path", "a script that can be read on this machine"), err)
	}
	return data, nil
}

// splitBefore keeps the last line for grading. Of the others the agent's side
// gets those that name no files: "git checkout COMMIT -- FILES" is how tests
// arrive.
func (t *task) splitBefore(before string) {
	lines := slices.DeleteFunc(strings.Split(strings.ReplaceAll(before, "\r", ""), "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return
	}
	t.official = lines[len(lines)-1]
	base := slices.DeleteFunc(lines[:len(lines)-1], func(l string) bool { return strings.Contains(l, " -- ") })
	if !strings.Contains(t.official, " -- ") && strings.HasPrefix(strings.TrimSpace(t.official), "git ") {
		base, t.official = append(base, t.official), "" // it brings no files: it is of the base
	}
	if len(base) > 0 {
		step := swe.Step{Name: "swepro.before_repo_set_cmd", Script: strings.Join(base, "\n")}
		t.Steps = append([]swe.Step{step}, t.Steps...)
	}
}

// A task is one row. It is immutable.
type task struct {
	swe.Workspace
	o    Options
	spec swe.Spec

	runScript, parser  []byte
	official           string // the command that brings the official tests
	selected, f2p, p2p []string
}

// Spec implements swe.Task.
func (t *task) Spec() swe.Spec { return t.spec }

// Evaluate implements swe.Task.
func (t *task) Evaluate(ctx context.Context, sb sandbox.Sandbox, p swe.Patch) (swe.Evaluation, error) {
	o := swe.GradeOptions{AsPatched: t.o.AsPatched, Empty: t.o.GradeEmpty}
	w := t.Workspace
	if t.o.AsPatched && t.official != "" {
		w.Steps = append(slices.Clone(w.Steps), swe.Step{Name: "swepro.before_repo_set_cmd", Script: t.official})
	}
	return w.Evaluate(ctx, sb, p, o, t.run)
}

// run is: official tests, run script, parser. What decides is root's: the
// scripts' texts can't be changed by what they run, and the parser works as
// another user on files that it only reads.
func (t *task) run(ctx context.Context, g *swe.Grading) (swe.Evaluation, error) {
	if t.official != "" && !t.o.AsPatched {
		tests, err := g.Run(ctx, swe.Script{Name: "official", Body: t.official + "\n", User: sandbox.AgentUser, Limit: 5 * time.Minute})
		if err != nil {
			return swe.Evaluation{}, err
		}
		if tests.Exit != (sandbox.Exit{}) {
			return tests.Verdict(swe.GraderError, "the row's official tests can't be checked out: "+strings.TrimSpace(tests.Tail)), nil
		}
	}
	out, err := g.Results(ctx, sandbox.AgentUser)
	if err != nil {
		return swe.Evaluation{}, err
	}
	run, err := t.runTests(ctx, g, out)
	if err != nil {
		return swe.Evaluation{}, err
	}
	switch run.Exit.State {
	case sandbox.TimedOut:
		return run.Verdict(swe.EvalTimeout, fmt.Sprintf("the tests ran longer than %v", t.o.EvalTimeout)), nil
	case sandbox.Lost:
		return swe.Evaluation{}, errors.New("the tests vanished: killed from outside, or out of memory")
	}
	return t.parse(ctx, g, out, run)
}

// runTests runs the row's script with the test files as one argument, or with
// none, which means all of them.
func (t *task) runTests(ctx context.Context, g *swe.Grading, out string) (swe.TestRun, error) {
	path, err := g.Write(ctx, "run_script.sh", t.runScript)
	if err != nil {
		return swe.TestRun{}, err
	}
	arg := ""
	if len(t.selected) > 0 {
		arg = " " + shell.Quote(strings.Join(t.selected, ","))
	}
	body := fmt.Sprintf("exec bash %s%s >%s/stdout 2>%s/stderr\n", sandbox.Path(path), arg, sandbox.Path(out), sandbox.Path(out))
	return g.Run(ctx, swe.Script{Name: "tests", Body: body, User: sandbox.AgentUser, Limit: t.o.EvalTimeout})
}

const (
	parserLimit = 2 * time.Minute
	maxResult   = 64 << 20 // bytes
)

func (t *task) parse(ctx context.Context, g *swe.Grading, out string, run swe.TestRun) (swe.Evaluation, error) {
	parser, err := g.Write(ctx, "parser.py", t.parser)
	if err != nil {
		return swe.Evaluation{}, err
	}
	result := strings.TrimSuffix(parser, "parser.py") + "result.json"
	body := fmt.Sprintf("cd /\nfor p in python3 python; do command -v $p >/dev/null && exec $p -I %s %s/stdout %s/stderr %s; done\nexit 127\n",
		sandbox.Path(parser), sandbox.Path(out), sandbox.Path(out), sandbox.Path(result))
	parsed, err := g.Run(ctx, swe.Script{Name: "parse", Shell: "sh", Body: body, Limit: parserLimit})
	if err != nil {
		return swe.Evaluation{}, err
	}
	if parsed.Exit != (sandbox.Exit{}) {
		return run.Verdict(swe.GraderError, fmt.Sprintf("the row's parser ended with %v %d: %s", parsed.Exit.State, parsed.Exit.Code, strings.TrimSpace(parsed.Tail))), nil
	}
	data, err := g.Read(ctx, result, maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		return run.Verdict(swe.GraderError, "the row's parser left no result"), nil
	}
	if err != nil {
		return swe.Evaluation{}, err
	}
	return t.judge(run, data), nil
}

// judge reads {"tests":[{"name","status"}]}.
func (t *task) judge(run swe.TestRun, data []byte) swe.Evaluation {
	var result struct {
		Tests []struct{ Name, Status string }
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return run.Verdict(swe.GraderError, "the row's parser left a result that can't be read: "+err.Error())
	}
	status := map[string]string{}
	for _, test := range result.Tests {
		status[test.Name] = test.Status
	}
	if len(status) == 0 {
		return run.Verdict(swe.NoEvidence, "the output has no test in it")
	}
	f2p, p2p := bucket(t.f2p, status), bucket(t.p2p, status)
	e := run.Verdict(swe.Grade(f2p, p2p), fmt.Sprintf("fail-to-pass %s, pass-to-pass %s", f2p, p2p))
	e.F2P, e.P2P = f2p, p2p
	return e
}

func bucket(ids []string, status map[string]string) swe.Bucket {
	var b swe.Bucket
	for _, id := range ids {
		switch s, ok := status[id]; {
		case s == "PASSED":
			b.Passed = append(b.Passed, id)
		case ok:
			b.Failed = append(b.Failed, id)
		default:
			b.Missing = append(b.Missing, id)
		}
	}
	return b
}
