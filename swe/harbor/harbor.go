// Package harbor reads and grades tasks in the style of Harbor and Terminal
// Bench: a test script leaves a reward in a file. What is graded is the agent's
// patch of the work directory in a clean sandbox; changes elsewhere in the
// agent's sandbox are not carried over.
package harbor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// Options of the protocol. The zero value is the careful one.
type Options struct {
	EvalTimeout time.Duration // of the test script where the row has none; defaults to 10 minutes
	KeepHistory bool          // leave future commits, remotes and reflogs where the agent finds them
	GradeEmpty  bool          // run the tests for an empty patch too, as a preflight needs
}

// Protocol is the reward file row format. It is safe for concurrent use.
type Protocol struct{ o Options }

// New returns the protocol.
func New(o Options) *Protocol {
	o.EvalTimeout = cmp.Or(o.EvalTimeout, 10*time.Minute)
	return &Protocol{o}
}

// Parse reads what swe.Workspace.ReadRow reads, and metadata.harbor:
// tests_path, a directory of this machine with test.sh, or tests, an object of
// file names and texts; timeout_sec; user, root (the default) or agent.
func (p *Protocol) Parse(row swe.Row) (swe.Task, error) {
	t := &task{o: p.o}
	var err error
	if t.spec, err = t.ReadRow(row); err != nil {
		return nil, err
	}
	f, err := row.Fields().Object("harbor")
	if err != nil {
		return nil, err
	}
	if err := f.CheckSpelling("tests_path", "tests", "timeout_sec", "user"); err != nil {
		return nil, err
	}
	if t.tests, err = testFiles(f); err != nil {
		return nil, err
	}
	if t.user, err = f.Text("user"); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", "root", sandbox.AgentUser}, t.user) {
		return nil, f.Error("user", "root or "+sandbox.AgentUser)
	}
	if t.user == "root" {
		t.user = ""
	}
	if raw := f.Raw("timeout_sec"); raw != nil {
		var seconds float64
		if json.Unmarshal(raw, &seconds) != nil || seconds <= 0 || seconds > 1e6 {
			return nil, f.Error("timeout_sec", "a positive number of seconds")
		}
		t.o.EvalTimeout = time.Duration(seconds * float64(time.Second))
	}
	t.Scrub = !p.o.KeepHistory
	return t, t.NeedStatement(row)
}

// testFiles are the files below /tests.
func testFiles(f swe.Fields) (map[string][]byte, error) {
	texts, err := f.Texts("tests")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, text := range texts {
		if !filepath.IsLocal(name) {
			return nil, f.Error("tests", "file names below the tests' directory")
		}
		files[name] = []byte(text)
	}
	dir, err := f.Text("tests_path")
	if err != nil {
		return nil, err
	}
	if dir != "" {
		if err := readDir(dir, files); err != nil {
			return nil, fmt.Errorf("%w: %w", f.Error("tests_path", "a directory that can be read on this machine"), err)
		}
	}
	if len(files) == 0 {
		return nil, swe.Unevaluable("no_grader:the row has neither harbor.tests_path nor harbor.tests")
	}
	if files["test.sh"] == nil {
		return nil, f.Error("tests", "a file test.sh among the tests")
	}
	return files, nil
}

func readDir(dir string, into map[string][]byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		into[path], err = fs.ReadFile(root.FS(), path)
		return err
	})
}

// A task is one row. It is immutable.
type task struct {
	swe.Workspace
	o     Options
	spec  swe.Spec
	tests map[string][]byte
	user  string
}

// Spec implements swe.Task.
func (t *task) Spec() swe.Spec { return t.spec }

// Evaluate implements swe.Task.
func (t *task) Evaluate(ctx context.Context, sb sandbox.Sandbox, p swe.Patch) (swe.Evaluation, error) {
	return t.Workspace.Evaluate(ctx, sb, p, swe.GradeOptions{Empty: t.o.GradeEmpty}, t.run)
}

// Where the format has its files in the sandbox.
const (
	testsDir  = "/tests"
	rewardDir = "/logs/verifier"
	maxReward = 1 << 20 // bytes
)

func (t *task) run(ctx context.Context, g *swe.Grading) (swe.Evaluation, error) {
	for _, name := range slices.Sorted(maps.Keys(t.tests)) {
		if err := g.WriteAt(ctx, testsDir+"/"+name, t.tests[name]); err != nil {
			return swe.Evaluation{}, err
		}
	}
	// Whatever stands there was not written by these tests.
	clear := fmt.Sprintf("set -e\nd=%s\nrm -rf \"$d\"\nmkdir -p \"$d\"\n[ -z '%s' ] || [ -n \"${%s-}\" ] || chown '%s' \"$d\"\n",
		sandbox.Path(rewardDir), t.user, sandbox.OneUserVar, t.user)
	cleared, err := g.Run(ctx, swe.Script{Name: "clear", Shell: "sh", Body: clear, Limit: time.Minute})
	if err != nil {
		return swe.Evaluation{}, err
	}
	if cleared.Exit != (sandbox.Exit{}) {
		return swe.Evaluation{}, fmt.Errorf("clear %s: %s", rewardDir, cleared.Tail)
	}
	run, err := g.Run(ctx, swe.Script{Name: "tests", Shell: "bash", Body: "exec bash " + sandbox.Path(testsDir+"/test.sh") + "\n", User: t.user, Limit: t.o.EvalTimeout})
	if err != nil {
		return swe.Evaluation{}, err
	}
	switch run.Exit.State {
	case sandbox.TimedOut:
		return run.Verdict(swe.EvalTimeout, fmt.Sprintf("the tests ran longer than %v", t.o.EvalTimeout)), nil
	case sandbox.Lost:
		return swe.Evaluation{}, errors.New("the tests vanished: killed from outside, or out of memory")
	}
	return judge(ctx, g, run)
}

// judge reads reward.json, or reward.txt where there is none.
func judge(ctx context.Context, g *swe.Grading, run swe.TestRun) (swe.Evaluation, error) {
	data, err := g.Read(ctx, rewardDir+"/reward.json", maxReward)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = g.Read(ctx, rewardDir+"/reward.txt", maxReward)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return run.Verdict(swe.GraderError, fmt.Sprintf("test.sh exited with %d and left no reward file", run.Exit.Code)), nil
	}
	if err != nil {
		return swe.Evaluation{}, err
	}
	reward, ok := parseReward(data)
	switch {
	case !ok:
		return run.Verdict(swe.GraderError, fmt.Sprintf("the reward file holds %.80q, not a number from 0 to 1", data)), nil
	case reward == 1:
		return run.Verdict(swe.Solved, "reward 1"), nil
	case reward == 0:
		return run.Verdict(swe.Failed, "reward 0"), nil
	}
	e := run.Verdict(swe.Partial, fmt.Sprintf("reward %g", reward))
	e.Reward = reward
	return e, nil
}

// parseReward reads a number, or {"reward": number}, or an object with a
// single number, whatever its name.
func parseReward(data []byte) (float64, bool) {
	reward, err := strconv.ParseFloat(string(bytes.TrimSpace(data)), 64)
	if err != nil {
		var m map[string]float64
		if json.Unmarshal(data, &m) != nil {
			return 0, false
		}
		value, ok := m["reward"]
		if !ok && len(m) == 1 {
			for _, value = range m {
				ok = true
			}
		}
		if !ok {
			return 0, false
		}
		reward = value
	}
	return reward, !math.IsNaN(reward) && reward >= 0 && reward <= 1
}
