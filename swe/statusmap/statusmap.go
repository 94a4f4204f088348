// Package statusmap reads and grades rows in the style of R2E-Gym: the tests'
// statuses after the run have to equal an expected map.
package statusmap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// Options of the protocol. The zero value is the careful one.
type Options struct {
	EvalTimeout time.Duration // of the tests; defaults to 10 minutes
	KeepHistory bool          // leave future commits, remotes and reflogs where the agent finds them
	GradeEmpty  bool          // run the tests for an empty patch too, as a preflight needs
}

// Protocol is the status map row format. It is safe for concurrent use.
type Protocol struct{ o Options }

// New returns the protocol.
func New(o Options) *Protocol {
	o.EvalTimeout = cmp.Or(o.EvalTimeout, 10*time.Minute)
	return &Protocol{o}
}

// Parse reads metadata: image or docker_image, workdir (defaults to /testbed),
// expected_output_json (an object of statuses, or a string that holds one),
// test_command (defaults to "bash run_tests.sh"), tests_dir (the hidden tests in
// the image; defaults to /r2e_tests), instance_id, problem_statement or the prompt.
func (p *Protocol) Parse(row swe.Row) (swe.Task, error) {
	row.Metadata = maps.Clone(row.Metadata)
	f := row.Fields()
	if !f.Has("image") && f.Has("docker_image") {
		row.Metadata["image"] = f.Raw("docker_image")
	}
	if !f.Has("workdir") && f.Has("image") {
		row.Metadata["workdir"] = json.RawMessage(`"/testbed"`)
	}
	t := &task{o: p.o}
	var err error
	if t.spec, err = t.ReadRow(row); err != nil {
		return nil, err
	}
	if err := f.CheckSpelling("expected_output_json", "test_command", "tests_dir"); err != nil {
		return nil, err
	}
	if t.want, err = expected(f); err != nil {
		return nil, err
	}
	if t.command, err = f.Text("test_command"); err != nil {
		return nil, err
	}
	if t.tests, err = f.Text("tests_dir"); err != nil {
		return nil, err
	}
	t.command, t.tests = cmp.Or(t.command, "bash run_tests.sh"), cmp.Or(t.tests, "/r2e_tests")
	if !f.Has("protected_paths") {
		t.Protected = append(t.Protected, "/run_tests.sh", "/install.sh", "/r2e_tests/*")
	}
	t.Scrub = !p.o.KeepHistory
	return t, t.NeedStatement(row)
}

func expected(f swe.Fields) (map[string]string, error) {
	raw := f.Raw("expected_output_json")
	if raw == nil {
		return nil, swe.Unevaluable("no_grader:the row has no expected_output_json")
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var m map[string]string
	if json.Unmarshal(raw, &m) != nil {
		return nil, f.Error("expected_output_json", "an object of test statuses, or a string that holds one")
	}
	m = clean(m)
	if len(m) == 0 {
		return nil, f.Error("expected_output_json", "at least one test: an empty map is what a crash leaves")
	}
	return m, nil
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// clean cuts keys at " - ", where a message begins, and takes colours out.
func clean(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		k, _, _ = strings.Cut(colour.ReplaceAllString(k, ""), " - ")
		if k = strings.TrimSpace(k); k != "" {
			out[k] = v
		}
	}
	return out
}

// A task is one row. It is immutable.
type task struct {
	swe.Workspace
	o              Options
	spec           swe.Spec
	want           map[string]string
	command, tests string
}

// Spec implements swe.Task.
func (t *task) Spec() swe.Spec { return t.spec }

// Prepare implements swe.Task. The image holds the hidden tests: the agent's
// user can't enter their directory, and a link to it is taken away.
func (t *task) Prepare(ctx context.Context, sb sandbox.Sandbox) error {
	script := fmt.Sprintf("set -e\nd=%s l=%s/r2e_tests\n[ ! -d \"$d\" ] || chmod 700 \"$d\"\n[ ! -L \"$l\" ] || rm -f \"$l\"\n",
		sandbox.Path(t.tests), sandbox.Path(t.Workdir))
	if _, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: script, Replayable: true}); err != nil {
		return fmt.Errorf("hide the tests: %w", err)
	}
	return t.Workspace.Prepare(ctx, sb)
}

// Evaluate implements swe.Task.
func (t *task) Evaluate(ctx context.Context, sb sandbox.Sandbox, p swe.Patch) (swe.Evaluation, error) {
	return t.Workspace.Evaluate(ctx, sb, p, swe.GradeOptions{Empty: t.o.GradeEmpty}, t.run)
}

// maxLog bounds a test log, in bytes.
const maxLog = 128 << 20

func (t *task) run(ctx context.Context, g *swe.Grading) (swe.Evaluation, error) {
	if err := t.placeTests(ctx, g); err != nil {
		return swe.Evaluation{}, err
	}
	run, err := g.Run(ctx, swe.Script{Name: "tests", Body: t.command + "\n", User: sandbox.AgentUser, Limit: t.o.EvalTimeout})
	if err != nil {
		return swe.Evaluation{}, err
	}
	switch run.Exit.State {
	case sandbox.TimedOut:
		return run.Verdict(swe.EvalTimeout, fmt.Sprintf("the tests ran longer than %v", t.o.EvalTimeout)), nil
	case sandbox.Lost:
		return swe.Evaluation{}, errors.New("the tests vanished: killed from outside, or out of memory")
	}
	if run.Exit.Code == 126 || run.Exit.Code == 127 {
		return run.Verdict(swe.GraderError, fmt.Sprintf("%q can't be run: exit status %d", t.command, run.Exit.Code)), nil
	}
	log, err := g.Log(ctx, "tests", maxLog)
	if err != nil {
		return swe.Evaluation{}, err
	}
	return t.judge(run, parseSummary(string(log))), nil
}

// placeTests copies the hidden tests into the work directory, where the
// command looks for them. They are root's: the tests' user can't change them.
func (t *task) placeTests(ctx context.Context, g *swe.Grading) error {
	run, err := g.Run(ctx, swe.Script{Name: "place", Shell: "sh", Limit: time.Minute, Body: fmt.Sprintf(
		"set -e\nd=%s\n[ -d \"$d\" ] || exit 0\nrm -rf r2e_tests\ncp -R \"$d\" r2e_tests\nchmod -R a+rX r2e_tests\n", sandbox.Path(t.tests))})
	if err == nil && run.Exit != (sandbox.Exit{}) {
		err = fmt.Errorf("place the tests: exit status %d: %s", run.Exit.Code, run.Tail)
	}
	return err
}

// parseSummary reads pytest's short test summary. A test's key is its id
// without the file, its parts joined by dots, cut at " - ".
func parseSummary(log string) map[string]string {
	_, summary, ok := strings.Cut(log, "short test summary info")
	if !ok {
		return nil
	}
	m := map[string]string{}
	for line := range strings.Lines(colour.ReplaceAllString(summary, "")) {
		status, id, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || status != "PASSED" && status != "FAILED" && status != "ERROR" {
			continue
		}
		if _, test, ok := strings.Cut(id, "::"); ok {
			id = strings.ReplaceAll(test, "::", ".")
		}
		m[id] = status
	}
	return clean(m)
}

func (t *task) judge(run swe.TestRun, got map[string]string) swe.Evaluation {
	if len(got) == 0 {
		return run.Verdict(swe.NoEvidence, "the output has no short test summary")
	}
	var b swe.Bucket
	for key, want := range t.want {
		switch status, ok := got[key]; {
		case !ok:
			b.Missing = append(b.Missing, key)
		case status == want:
			b.Passed = append(b.Passed, key)
		default:
			b.Failed = append(b.Failed, key)
		}
	}
	extra := len(got) - len(b.Passed) - len(b.Failed)
	outcome := swe.Failed
	if len(b.Passed) == len(t.want) && extra == 0 {
		outcome = swe.Solved
	}
	e := run.Verdict(outcome, fmt.Sprintf("%s statuses as expected, %d tests not expected", b, extra))
	e.F2P = b
	return e
}
