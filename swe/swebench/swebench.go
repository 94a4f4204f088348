// Package swebench reads and grades SWE-bench rows: those of version 5, which
// bring their evaluation script, and those of version 4 by a table of what the
// 12 repositories of SWE-bench Verified need.
package swebench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// Options of the protocol. The zero value is the careful one.
type Options struct {
	EvalTimeout time.Duration     // of the whole evaluation script; defaults to 10 minutes
	Harness4    bool              // judge rows of version 4 exactly as harness 4.1.0 does, with its holes
	AsPatched   bool              // leave runner configuration as the agent left it; files of the test patch are restored always
	KeepHistory bool              // leave future commits, remotes and reflogs where the agent finds them
	GradeEmpty  bool              // run the tests for an empty patch too, as a preflight needs
	Parsers     map[string]Parser // further log parsers, by the name in the row
}

// Protocol is the SWE-bench row format. It is safe for concurrent use.
type Protocol struct{ o Options }

// New returns the protocol.
func New(o Options) *Protocol {
	if o.EvalTimeout == 0 {
		o.EvalTimeout = 10 * time.Minute
	}
	return &Protocol{o}
}

// fields of metadata.remote_env_info.
var rowKeys = []string{"instance_id", "repo", "version", "base_commit", "test_patch", "image", "workdir", "problem_statement",
	"FAIL_TO_PASS", "PASS_TO_PASS", "eval_script", "log_parser", "eval_type"}

// Parse reads a row. All of it is in metadata.remote_env_info.
func (p *Protocol) Parse(row swe.Row) (swe.Task, error) {
	f, err := row.Fields().Object("remote_env_info")
	if err != nil {
		return nil, err
	}
	v := map[string]string{}
	for _, key := range rowKeys {
		if strings.HasSuffix(key, "_PASS") {
			continue
		}
		if v[key], err = f.Text(key); err != nil {
			return nil, err
		}
	}
	if v["image"] == "" {
		if row.Fields().Has("image") {
			return nil, fmt.Errorf("%w: a SWE-bench row has its image at metadata.remote_env_info.image", swe.ErrNoImage)
		}
		return nil, swe.ErrNoImage
	}
	if err := f.CheckSpelling(rowKeys...); err != nil {
		return nil, err
	}
	for _, key := range []string{"repo", "base_commit", "test_patch"} {
		if strings.TrimSpace(v[key]) == "" {
			return nil, swe.Unevaluable("missing_" + key)
		}
	}
	t := &task{o: p.o, testPatch: v["test_patch"]}
	if err := t.readTests(f, v); err != nil {
		return nil, err
	}
	return t, t.readSpace(row, v)
}

// readSpace fills in workspace and spec.
func (t *task) readSpace(row swe.Row, v map[string]string) error {
	f := row.Fields()
	if err := t.ReadCommon(f); err != nil {
		return err
	}
	if !f.Has("protected_paths") {
		t.Protected = runnerFiles()
	}
	t.Workdir = cmp.Or(v["workdir"], "/testbed")
	t.Statement = cmp.Or(v["problem_statement"], swe.PromptText(row.Prompt))
	t.Scrub = !t.o.KeepHistory
	t.spec = t.SpecOf(cmp.Or(v["instance_id"], "unknown"), v["image"])
	if err := t.CheckWorkdir(f); err != nil {
		return err
	}
	return t.NeedStatement(row)
}

// runnerFiles are what can turn a test's result around without being a test
// of the row. Other tests may be changed: they are not run.
func runnerFiles() swe.Globs {
	return swe.Globs{"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "sitecustomize.py", "usercustomize.py", "*.pth", "/pytest.py", "/_pytest/*", "*.dist-info/*"}
}

// readTests chooses script, parser and lists.
func (t *task) readTests(f swe.Fields, v map[string]string) error {
	var err error
	t.judge.Version = V5
	if t.judge.F2P, err = f.List("FAIL_TO_PASS"); err != nil {
		return err
	}
	if t.judge.P2P, err = f.List("PASS_TO_PASS"); err != nil {
		return err
	}
	parser := v["log_parser"]
	if v["eval_script"] != "" {
		if !strings.Contains(v["eval_script"], startMark) || !strings.Contains(v["eval_script"], endMark) {
			return f.Error("eval_script", "a script with the lines that mark the tests' output: "+startMark+", "+endMark)
		}
		if assets := assetsOf(f.Raw("image_assets")); assets {
			return swe.Unevaluable("image_assets:the row's tests need files that are not in the image")
		}
		t.script = scriptV5(v["eval_script"])
	} else {
		if t.script, err = scriptV4(v["repo"], v["version"], v["base_commit"], v["test_patch"]); err != nil {
			return swe.Unevaluable("make_test_spec_failed:" + err.Error() + "; rows of version 5 bring an eval_script")
		}
		if t.o.Harness4 {
			t.judge.Version = V4
		} else {
			t.script = scriptV5(t.script)
		}
	}
	if parser == "" {
		parser = repoParser(v["repo"])
	}
	if t.judge.Parser = t.o.Parsers[parser]; t.judge.Parser == nil {
		t.judge.Parser = parsers(parser)
	}
	if t.judge.Parser == nil {
		return swe.Unevaluable(fmt.Sprintf("log_parser:there is no parser %q for %s; Options.Parsers takes one", parser, v["repo"]))
	}
	if len(t.judge.F2P) == 0 {
		return f.Error("FAIL_TO_PASS", "the tests that the fix makes pass: without any, every patch would be a solution")
	}
	return t.readEvalType(f, v)
}

func (t *task) readEvalType(f swe.Fields, v map[string]string) error {
	switch v["eval_type"] {
	case "fail_only":
		t.judge.FailOnly = true
	case "pass_and_fail":
	case "":
		switch v["repo"] {
		case "chartjs/Chart.js", "processing/p5.js", "markedjs/marked", "bpmn-io/bpmn-js", "openlayers/openlayers", "eslint/eslint":
			t.judge.FailOnly = true
		}
	default:
		return f.Error("eval_type", "pass_and_fail or fail_only")
	}
	return nil
}

// assetsOf: the row names files, as an object or as JSON in a string, that the
// test patch can't bring.
func assetsOf(raw json.RawMessage) bool {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var assets map[string]json.RawMessage
	if json.Unmarshal(raw, &assets) != nil {
		return false
	}
	return len(assets["test_patch"]) > 0 && string(assets["test_patch"]) != "[]" && string(assets["test_patch"]) != "null"
}

// A task is one row. It is immutable.
type task struct {
	swe.Workspace
	o         Options
	spec      swe.Spec
	script    string
	testPatch string
	judge     Judge
}

// Spec implements swe.Task.
func (t *task) Spec() swe.Spec { return t.spec }

// Evaluate implements swe.Task. The script runs as root, as the harness runs
// it: it installs the package into the image's environment.
func (t *task) Evaluate(ctx context.Context, sb sandbox.Sandbox, p swe.Patch) (swe.Evaluation, error) {
	o := swe.GradeOptions{AsPatched: t.o.AsPatched, Empty: t.o.GradeEmpty, Official: []byte(t.testPatch)}
	return t.Workspace.Evaluate(ctx, sb, p, o, t.run)
}

// maxLog bounds a test log, in bytes.
const maxLog = 128 << 20

func (t *task) run(ctx context.Context, g *swe.Grading) (swe.Evaluation, error) {
	run, err := g.Run(ctx, swe.Script{Name: "eval", Shell: "bash", Body: t.script, Limit: t.o.EvalTimeout})
	if err != nil {
		return swe.Evaluation{}, err
	}
	switch run.Exit.State {
	case sandbox.TimedOut:
		return run.Verdict(swe.EvalTimeout, fmt.Sprintf("the evaluation ran longer than %v", t.o.EvalTimeout)), nil
	case sandbox.Lost:
		return swe.Evaluation{}, fmt.Errorf("the evaluation vanished: killed from outside, or out of memory")
	}
	log, err := g.Log(ctx, "eval", maxLog)
	if err != nil {
		return swe.Evaluation{}, err
	}
	return t.verdict(run, t.judge.Judge(string(log)), string(log)), nil
}

// notRun: the shell found no command to run. Whoever removed it, nothing is
// known of the patch.
var notRun = regexp.MustCompile(exitMark + `12[67]\b`)

// verdict tells what the row, the environment and the patch did.
func (t *task) verdict(run swe.TestRun, r Report, log string) swe.Evaluation {
	var e swe.Evaluation
	switch {
	case r.Infra:
		e = run.Verdict(swe.GraderError, "the environment failed: "+r.InfraReason)
	case !r.Found && strings.Contains(log, "error: patch failed") && !strings.Contains(log, startMark):
		e = run.Verdict(swe.GraderError, "the row's test patch does not apply")
	case !r.Found && notRun.MatchString(log):
		e = run.Verdict(swe.GraderError, "the tests' command can't be run: it exits with 126 or 127")
	case !r.Found, len(r.Statuses.Map()) == 0 && !t.judge.FailOnly:
		e = run.Verdict(swe.NoEvidence, cmp.Or(r.Why, "the log has no result in it"))
	default:
		e = run.Verdict(swe.Grade(r.F2P, r.P2P), fmt.Sprintf("fail-to-pass %s, pass-to-pass %s%s", r.F2P, r.P2P, r.F2P.Hint(r.Statuses.order)))
	}
	e.F2P, e.P2P = r.F2P, r.P2P
	if r.DoubledMarker {
		e.Tamper = append(e.Tamper, swe.SignalDoubledMarker)
	}
	if r.Outside {
		e.Tamper = append(e.Tamper, swe.SignalOutside)
	}
	return e
}
