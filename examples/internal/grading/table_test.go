package grading

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/harbor"
	"github.com/agentrl-go/agentrl/swe/scaleswe"
	"github.com/agentrl-go/agentrl/swe/statusmap"
	"github.com/agentrl-go/agentrl/swe/swebench"
	"github.com/agentrl-go/agentrl/swe/swepro"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// spy remembers a protocol's last evaluation.
type spy struct {
	swe.Protocol
	last swe.Evaluation
}

func (s *spy) Parse(row swe.Row) (swe.Task, error) {
	t, err := s.Protocol.Parse(row)
	return spied{t, s}, err
}

type spied struct {
	swe.Task
	s *spy
}

func (t spied) Evaluate(ctx context.Context, sb sandbox.Sandbox, p swe.Patch) (swe.Evaluation, error) {
	e, err := t.Task.Evaluate(ctx, sb, p)
	t.s.last = e
	return e, err
}

// severing breaks every answer of every sandbox once.
type severing struct{ sandbox.Provider }

func (p severing) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := p.Provider.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &swetest.Severed{Sandbox: sb, At: -1}, nil
}

// A kind is one way to grade the same repository. Its row has a test command;
// slow and broken are that command in its other conditions.
type kind struct {
	name          string
	protocol      func(timeout time.Duration) swe.Protocol
	row           func(d dirs, command string) map[string]any
	slow, broken  string
	partial       swe.Outcome
	exit, noTests swe.Outcome // of a package that ends the process, and of a command that can't run
}

// dirs: bare has a python without pytest.
type dirs struct{ repo, tests, pytest, bare string }

const runTests = "python3 -m pytest -rA -p no:cacheprovider tests"

// solution and conditions: what the agent does in the work directory.
var agents = map[string]string{
	"gold": "sed -i 's/a - b/a + b/; s/a \\/ b/a * b/' pkg/calc.py", "empty": ":", "wrong": "echo '# hm' >>pkg/calc.py",
	"partial": "sed -i 's/a - b/a + b/' pkg/calc.py",
	"cheat":   "printf 'def test_add(): pass\\ndef test_mul(): pass\\ndef test_zero(): pass\\n' >tests/test_calc.py",
	"exit":    "printf 'import os\\nos._exit(0)\\n' >>pkg/__init__.py",
}

const (
	testFile  = "from pkg.calc import add, mul\ndef test_add():\n    assert add(1, 2) == 3\ndef test_mul():\n    assert mul(2, 3) == 6\ndef test_zero():\n    assert add(0, 0) == 0\n"
	testPatch = "diff --git a/tests/test_extra.py b/tests/test_extra.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/test_extra.py\n@@ -0,0 +1,2 @@\n+def test_extra():\n+    pass\n"
)

var f2p, p2p = []string{"tests/test_calc.py::test_add", "tests/test_calc.py::test_mul"}, []string{"tests/test_calc.py::test_zero"}

func env(d dirs) map[string]string { return map[string]string{"PYTHONPATH": d.pytest} }

func base(d dirs) map[string]any {
	return map[string]any{"image": "host", "workdir": d.repo, "instance_id": "x", "env": env(d)}
}

func with(m map[string]any, key string, value any) map[string]any { m[key] = value; return m }

// kinds are all graders.
func kinds() []kind {
	scale := func(timeout time.Duration) swe.Protocol {
		return scaleswe.New(scaleswe.Options{EvalTimeout: timeout})
	}
	return []kind{
		{"eval_cmd", scale, func(d dirs, c string) map[string]any { return with(base(d), "eval_cmd", c) }, "sleep 60", "no-such-runner", swe.Failed, swe.Solved, swe.GraderError},
		{"pytest ids", scale, func(d dirs, c string) map[string]any {
			r := base(d)
			if c == "broken" {
				r = with(r, "path_prefix", []string{d.bare})
			}
			patch := testPatch
			if c == "slow" {
				patch = strings.Replace(patch, "@@ -0,0 +1,2 @@\n", "@@ -0,0 +1,4 @@\n+import time\n+time.sleep(60)\n", 1)
			}
			ids := append([]string{"tests/test_extra.py::test_extra"}, p2p...)
			return with(r, "remote_env_info", map[string]any{"f2p_patch": patch, "FAIL_TO_PASS": f2p, "PASS_TO_PASS": ids})
		}, "slow", "broken", swe.Partial, swe.NoEvidence, swe.GraderError},
		{"f2p_script", scale, func(d dirs, c string) map[string]any {
			r, script := base(d), testFile
			switch c {
			case "broken":
				r = with(r, "path_prefix", []string{d.bare})
			case "slow":
				script = "import time\ntime.sleep(60)\n" + script
			}
			return with(r, "remote_env_info", map[string]any{"f2p_script": script})
		}, "slow", "broken", swe.Failed, swe.NoEvidence, swe.GraderError},
		{"swepro", func(timeout time.Duration) swe.Protocol { return swepro.New(swepro.Options{EvalTimeout: timeout}) }, func(d dirs, c string) map[string]any {
			parser := "import json, sys\nt = [l.split() for l in open(sys.argv[1]) if l.startswith(('PASSED', 'FAILED'))]\njson.dump({'tests': [{'name': f[1], 'status': f[0]} for f in t]}, open(sys.argv[3], 'w'))\n"
			if c == "broken" {
				parser, c = "import nosuch\n", runTests
			}
			return with(base(d), "swepro", map[string]any{"run_script": c + "\n", "parser_script": parser, "fail_to_pass": f2p, "pass_to_pass": p2p})
		}, "sleep 60", "broken", swe.Partial, swe.NoEvidence, swe.GraderError},
		{"swebench", func(timeout time.Duration) swe.Protocol {
			return swebench.New(swebench.Options{EvalTimeout: timeout})
		}, func(d dirs, c string) map[string]any {
			script := "cd " + d.repo + "\ngit apply -v - <<'EOF_1'\n" + testPatch + "EOF_1\n: '>>>>> Start Test Output'\n" + c + "\n: '>>>>> End Test Output'\n"
			return map[string]any{"env": env(d), "remote_env_info": map[string]any{
				"repo": "o/r", "base_commit": "HEAD", "image": "host", "workdir": d.repo, "test_patch": testPatch + strings.ReplaceAll(oldTest, "\x00", ""),
				"eval_script": script, "log_parser": "pytest", "FAIL_TO_PASS": f2p, "PASS_TO_PASS": p2p,
			}}
		}, "sleep 60", "no-such-runner", swe.Partial, swe.NoEvidence, swe.GraderError},
		{"status map", func(timeout time.Duration) swe.Protocol {
			return statusmap.New(statusmap.Options{EvalTimeout: timeout})
		}, func(d dirs, c string) map[string]any {
			r := with(base(d), "expected_output_json", map[string]string{"test_add": "PASSED", "test_mul": "PASSED", "test_zero": "PASSED"})
			return with(with(r, "tests_dir", d.tests), "test_command", strings.Replace(c, " tests", " r2e_tests", 1))
		}, "sleep 60", "no-such-runner", swe.Failed, swe.NoEvidence, swe.GraderError},
		{"reward file", func(timeout time.Duration) swe.Protocol { return harbor.New(harbor.Options{EvalTimeout: timeout}) }, func(d dirs, c string) map[string]any {
			test := "cd " + d.repo + "\n" + c + " >/tmp/log; n=$(grep -c ^PASSED /tmp/log); grep -q passed /tmp/log && case $n in 3) r=1;; 2) r=0.5;; *) r=0;; esac\n[ -z \"$r\" ] || echo $r >/logs/verifier/reward.txt\n"
			return with(base(d), "harbor", map[string]any{"tests": map[string]string{"test.sh": test}})
		}, "sleep 60", "no-such-runner", swe.Partial, swe.GraderError, swe.GraderError},
	}
}

// oldTest makes tests/test_calc.py one of the row's own test files.
const oldTest = "diff --git a/tests/test_calc.py b/tests/test_calc.py\n--- a/tests/test_calc.py\n+++ b/tests/test_calc.py\n"

// world makes the repository on this machine, which is the sandboxes' image.
func world(t *testing.T) dirs {
	out, err := exec.Command("python3", "-c", "import pytest, os; print(os.path.dirname(os.path.dirname(pytest.__file__)))").Output()
	if os.Getuid() != 0 || err != nil {
		t.Skip("this needs root and pytest")
	}
	dir, err := demo.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := dirs{filepath.Join(dir, "repo"), filepath.Join(dir, "hidden"), filepath.Join(dir, "pytest"), filepath.Join(dir, "bare")}
	script := `set -e
mkdir -p "$1/pkg" "$1/tests" "$2" "$3" "$6"
printf '#!/bin/sh\nexec /usr/bin/env -u PYTHONPATH python3 -S "$@"\n' >"$6/python"; chmod +x "$6/python"
cd "$4"
for p in pytest _pytest pluggy iniconfig packaging pygments py.py attr attrs exceptiongroup pytest-*-info pluggy-*-info; do [ ! -e $p ] || cp -R $p "$3/"; done; chmod -R a+rX "$3"
cd "$1"; git init -q .
printf 'def add(a, b):\n    return a - b\ndef mul(a, b):\n    return a / b\n' >pkg/calc.py; : >pkg/__init__.py; : >tests/__init__.py
printf '%s' "$5" >tests/test_calc.py; cp tests/test_calc.py "$2/"; : >"$2/__init__.py"
git add -A; git -c user.name=b -c user.email=b@b commit -qm base`
	cmd := exec.Command("bash", "-c", script, "bash", d.repo, d.tests, d.pytest, strings.TrimSpace(string(out)), testFile, d.bare)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return d
}

// conditions are the columns; in the last three the agent's work is right.
var conditions = []string{"gold", "empty", "wrong", "partial", "cheat", "exit", "severed", "timeout", "assets missing"}

// TestGraders: each kind of grader in each condition, through Generate.
func TestGraders(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	d, boxes := world(t), &local.Provider{}
	for _, k := range kinds() {
		want := map[string]swe.Outcome{
			"gold": swe.Solved, "empty": swe.EmptyPatch, "wrong": swe.Failed, "partial": k.partial, "cheat": swe.Failed, "exit": k.exit,
			"severed": swe.Solved, "timeout": swe.EvalTimeout, "assets missing": k.noTests,
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			var group sync.WaitGroup
			cells := make([]string, len(conditions))
			for i, condition := range conditions {
				group.Go(func() { cells[i] = condition + ": " + k.try(t, d, boxes, condition, want[condition]) })
			}
			group.Wait()
			t.Logf("figure: %s | %s", strings.ToUpper(k.name), strings.Join(cells, " | "))
		})
	}
}

// try is one rollout, and what became of it.
func (k kind) try(t *testing.T, d dirs, boxes sandbox.Provider, condition string, want swe.Outcome) string {
	command, agent, timeout := runTests, agents[condition], 5*time.Minute
	switch condition {
	case "severed":
		boxes = severing{boxes}
	case "timeout":
		command, timeout = k.slow, time.Second
	case "assets missing":
		command = k.broken
	}
	if agent == "" {
		agent = agents["gold"]
	}
	protocol := &spy{Protocol: k.protocol(timeout)}
	g := &agentrl.Generator{
		Config:   agentrl.Config{AgentBudget: time.Minute, Guard: 20 * time.Minute},
		Protocol: protocol, Sandboxes: boxes, Adapter: &adaptertest.Fake{}, Logger: slog.New(slog.DiscardHandler),
		Harness: &harnesstest.Fake{OnRun: func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
			res, err := sb.Exec(ctx, sandbox.Cmd{Script: agent, User: sandbox.AgentUser, Dir: job.Workdir, Replayable: true})
			if err == nil && !res.Ok() {
				err = fmt.Errorf("agent: %s", res.Stderr)
			}
			return harness.Report{}, err
		}},
	}
	sample := agentrl.Sample{Prompt: agentrl.Prompt{Text: "Fix it."}, Metadata: k.row(d, command)}
	samples, err := g.Generate(t.Context(), sample, nil)
	if err != nil || len(samples) != 1 || samples[0].Reward == nil {
		t.Errorf("%s, %s: %v %v", k.name, condition, samples, err)
		return "nothing"
	}
	s, e := samples[0], protocol.last
	if want == swe.EmptyPatch {
		e = swe.Verdict(want, "") // not asked: there is nothing to grade
	}
	kept := s.Status != agentrl.Aborted
	reward, keep := swe.DefaultPolicy(want)
	if k.name == "reward file" && want == swe.Partial {
		reward = 0.5
	}
	if e.Outcome != want || *s.Reward != reward || kept != keep {
		t.Errorf("%s, %s: %s, reward %g, kept %v (%v, %s), want %s\n%s", k.name, condition, e.Outcome, *s.Reward, kept, s.Err, e.Reason, want, e.LogTail)
	}
	text := fmt.Sprintf("%s reward %g %s", e.Outcome, *s.Reward, map[bool]string{true: "kept", false: "not kept"}[kept])
	if len(e.Tamper) > 0 {
		text += fmt.Sprint(" flagged ", e.Tamper)
	}
	return text
}
