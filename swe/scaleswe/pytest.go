package scaleswe

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// runner starts pytest in the sandbox.
//
//go:embed run.py
var runner []byte

// maxReport bounds a JUnit report, in bytes.
const maxReport = 64 << 20

// A pytestJob is what a row wants to see pass.
type pytestJob struct {
	script   string   // f2p_script
	patch    []byte   // f2p_patch: the official tests
	f2p, p2p []string // pytest ids; none: the script's own verdict
}

// scriptFile is where f2p_script stands in the work directory, as the data's
// own grader has it: FAIL_TO_PASS ids name it.
const scriptFile = "test_fail_to_pass.py"

// readGrader chooses the row's grader: eval_cmd before f2p_script and f2p_patch.
func (t *task) readGrader(f, remote swe.Fields) error {
	if err := f.CheckSpelling(append(swe.RowKeys(), "eval_cmd", "swepro")...); err != nil {
		return err
	}
	var err error
	if t.evalCmd, err = f.Text("eval_cmd"); err != nil || t.evalCmd != "" {
		return err
	}
	job := &pytestJob{}
	if job.script, err = remote.Text("f2p_script"); err != nil {
		return err
	}
	patch, err := remote.Text("f2p_patch")
	if err != nil {
		return err
	}
	job.patch = []byte(patch)
	if job.f2p, err = remote.List("FAIL_TO_PASS"); err != nil {
		return err
	}
	if job.p2p, err = remote.List("PASS_TO_PASS"); err != nil {
		return err
	}
	t.pytest = job
	return job.check(f, remote)
}

// check refuses what could never earn a reward.
func (j *pytestJob) check(f, remote swe.Fields) error {
	switch {
	case j.script != "":
		return nil
	case len(j.patch) > 0 && len(j.f2p) > 0:
		return nil
	case len(j.patch) > 0:
		return remote.Error("FAIL_TO_PASS", "the ids of the tests that f2p_patch brings")
	case remote.Has("test_patch"):
		return swe.Unevaluable("protocol_row_mismatch:looks_swebench")
	case f.Has("f2p_script"):
		return f.Error("f2p_script", "it at metadata.remote_env_info.f2p_script; here it is not read")
	}
	if err := remote.CheckSpelling("f2p_script", "f2p_patch", "FAIL_TO_PASS", "PASS_TO_PASS", "image_url", "workdir", "pre_commands"); err != nil {
		return err
	}
	return swe.Unevaluable("no_grader:the row has neither swepro nor eval_cmd nor f2p_script")
}

// runPytest runs the row's tests and asks the JUnit report, not the output.
func (t *task) runPytest(ctx context.Context, g *swe.Grading) (swe.Evaluation, error) {
	python := g.Tools["python"]
	if python == "" {
		python = g.Tools["python3"]
	}
	if python == "" {
		return swe.Verdict(swe.GraderError, "the image has no python on the PATH (a row may set path_prefix)"), nil
	}
	if err := t.placeScript(ctx, g); err != nil {
		return swe.Evaluation{}, err
	}
	ids := slices.Concat(t.pytest.f2p, t.pytest.p2p)
	if len(t.pytest.f2p) == 0 {
		ids = nil // what passed before says nothing of a fix: the script decides
	}
	run, report, err := t.pytestRun(ctx, g, python, ids)
	if err != nil {
		return swe.Evaluation{}, err
	}
	if len(ids) > 0 && run.Exit.State == sandbox.Exited && run.Exit.Code == 4 { // an id that is not there: nothing was run
		if run, report, err = t.pytestRun(ctx, g, python, files(ids)); err != nil {
			return swe.Evaluation{}, err
		}
	}
	e, err := exitVerdict(run)
	switch {
	case err != nil || e.Outcome == swe.EvalTimeout:
		return e, err
	case run.Exit.Code == 90:
		return run.Verdict(swe.GraderError, python+" has no pytest: "+strings.TrimSpace(run.Tail)), nil
	case len(ids) > 0:
		return t.pytest.judgeIDs(run, report), nil
	}
	return t.pytest.judgeScript(run, report), nil
}

// placeScript writes f2p_script. It is root's, so that the tests' user can't
// change its text.
func (t *task) placeScript(ctx context.Context, g *swe.Grading) error {
	if t.pytest.script == "" {
		return nil
	}
	return g.WriteAt(ctx, t.Workdir+"/"+scriptFile, []byte(t.pytest.script))
}

// pytestRun runs ids, or the script where there are none. The report is nil
// when the run left none.
func (t *task) pytestRun(ctx context.Context, g *swe.Grading, python string, ids []string) (swe.TestRun, junit, error) {
	out, err := g.Results(ctx, sandbox.AgentUser)
	if err != nil {
		return swe.TestRun{}, nil, err
	}
	job := map[string]any{
		"pytest": true, "script": scriptFile, "report": out + "/junit.xml",
		"options": []string{"-p", "no:cacheprovider", "-o", "addopts="},
		"args":    nil, // of pytest; none: the script is run as it is
	}
	args := []string{"-vv", "--rootdir=."}
	switch {
	case len(ids) > 0:
		job["args"] = append(args, ids...)
	case !runsItself(t.pytest.script):
		job["args"] = append(args, scriptFile)
	default:
		job["pytest"] = strings.Contains(t.pytest.script, "pytest")
	}
	text, err := json.Marshal(job)
	if err != nil {
		return swe.TestRun{}, nil, err
	}
	jobFile, err := g.Write(ctx, "job.json", text)
	if err != nil {
		return swe.TestRun{}, nil, err
	}
	runFile, err := g.Write(ctx, "run.py", runner)
	if err != nil {
		return swe.TestRun{}, nil, err
	}
	run, err := g.Run(ctx, swe.Script{
		Name: "pytest", User: sandbox.AgentUser, Limit: t.o.EvalTimeout,
		Body: fmt.Sprintf("exec %s %s %s\n", python, sandbox.Path(runFile), sandbox.Path(jobFile)),
	})
	if err != nil {
		return run, nil, err
	}
	data, err := g.Read(ctx, out+"/junit.xml", maxReport)
	if errors.Is(err, fs.ErrNotExist) {
		return run, nil, nil
	}
	if err != nil {
		return run, nil, err
	}
	report, err := parseJUnit(data)
	if err != nil {
		return run, nil, nil // half a report is none
	}
	return run, report, nil
}

var mainCall = regexp.MustCompile(`(?m)__main__|^\s*(sys\.exit|raise SystemExit|exit)\b|\b(pytest|unittest)\.main\s*\(`)

// runsItself: the script starts its tests when it is run as a program.
func runsItself(script string) bool { return mainCall.MatchString(script) }

// files are the files of test ids, each once, in order.
func files(ids []string) []string {
	var out []string
	for _, id := range ids {
		file, _, _ := strings.Cut(id, "::")
		if !slices.Contains(out, file) {
			out = append(out, file)
		}
	}
	return out
}

// judgeScript: the exit status, and where pytest is used a report that says the same.
func (j *pytestJob) judgeScript(run swe.TestRun, report junit) swe.Evaluation {
	good, bad := report.count()
	switch {
	case run.Exit.Code != 0:
		return run.Verdict(swe.Failed, fmt.Sprintf("f2p_script exited with %d", run.Exit.Code))
	case !strings.Contains(j.script, "pytest") && runsItself(j.script):
		return run.Verdict(swe.Solved, "f2p_script exited with 0")
	case report == nil:
		return run.Verdict(swe.NoEvidence, "f2p_script exited with 0, but pytest left no report")
	case bad > 0:
		return run.Verdict(swe.Failed, fmt.Sprintf("f2p_script exited with 0, but pytest reports %d failed tests", bad))
	case good == 0:
		return run.Verdict(swe.NoEvidence, "f2p_script exited with 0, but no test passed")
	}
	return run.Verdict(swe.Solved, fmt.Sprintf("%d tests passed", good))
}

// judgeIDs: every id in the report, and passed.
func (j *pytestJob) judgeIDs(run swe.TestRun, report junit) swe.Evaluation {
	if report == nil {
		return run.Verdict(swe.NoEvidence, fmt.Sprintf("pytest exited with %d and left no report", run.Exit.Code))
	}
	f2p, p2p := bucket(j.f2p, report), bucket(j.p2p, report)
	e := run.Verdict(swe.Grade(f2p, p2p), "")
	if e.Outcome == swe.Solved && run.Exit.Code != 0 {
		e = run.Verdict(swe.Failed, fmt.Sprintf("every test passed, but pytest exited with %d", run.Exit.Code))
	}
	e.F2P, e.P2P = f2p, p2p
	if e.Reason == "" {
		e.Reason = fmt.Sprintf("fail-to-pass %s, pass-to-pass %s", f2p, p2p)
	}
	return e
}

func bucket(ids []string, report junit) swe.Bucket {
	var b swe.Bucket
	for _, id := range ids {
		switch status := report[testKey(id)]; status {
		case passed:
			b.Passed = append(b.Passed, id)
		case "":
			b.Missing = append(b.Missing, id)
		default:
			b.Failed = append(b.Failed, id)
		}
	}
	return b
}
