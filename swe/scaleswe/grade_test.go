package scaleswe

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe"
)

const setup = `set -e
mkdir -p /srv/repo/pkg /srv/repo/tests && cd /srv/repo && git init -q -b main .
printf 'def add(a, b):\n    return a - b\n' >pkg/calc.py; : >pkg/__init__.py; : >tests/__init__.py
printf 'import unittest\nfrom pkg.calc import add\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n' >tests/test_calc.py
git -c user.name=b -c user.email=b@b add -A; git -c user.name=b -c user.email=b@b commit -qm base
`

const fix = `sed -i 's/a - b/a + b/' pkg/calc.py`

func box(t *testing.T) sandbox.Sandbox {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("local sandboxes with users need root")
	}
	sb, err := (&local.Provider{}).Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	sh(t, sb, "", "/", setup)
	return sb
}

func sh(t *testing.T, sb sandbox.Sandbox, user, dir, script string) {
	t.Helper()
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: script, User: user, Dir: dir})
	if err != nil || !res.Ok() {
		t.Fatalf("%s: %v %d %s", script, err, res.Code, res.Stderr)
	}
}

// rollout prepares, lets the agent act, takes the diff and grades it.
func rollout(t *testing.T, o Options, metadata, agent string) (swe.Patch, swe.Evaluation) {
	t.Helper()
	var row swe.Row
	if err := json.Unmarshal([]byte(metadata), &row.Metadata); err != nil {
		t.Fatal(err)
	}
	row.Prompt = json.RawMessage(`"fix add"`)
	task, err := New(o).Parse(row)
	if err != nil {
		t.Fatal("Parse:", err)
	}
	a := box(t)
	if err := task.Prepare(t.Context(), a); err != nil {
		t.Fatal("Prepare:", err)
	}
	sh(t, a, sandbox.AgentUser, "/srv/repo", agent)
	p, err := task.Diff(t.Context(), a)
	if err != nil {
		t.Fatal("Diff:", err)
	}
	e, err := task.Evaluate(t.Context(), box(t), p)
	if err != nil {
		t.Fatal("Evaluate:", err)
	}
	return p, e
}

func TestEvalCmd(t *testing.T) {
	const run = "python3 -m unittest -q tests.test_calc"
	for _, c := range []struct {
		name, cmd, agent string
		o                Options
		want             swe.Outcome
	}{
		{"gold", run, fix, Options{}, swe.Solved},
		{"wrong", run, "echo x >>pkg/calc.py", Options{}, swe.Failed},
		{"empty", run, ":", Options{}, swe.EmptyPatch},
		{"empty graded", run, ":", Options{GradeEmpty: true}, swe.Failed},
		{"timeout", "sleep 30", fix, Options{EvalTimeout: time.Second}, swe.EvalTimeout},
		{"runner not there", "no-such-runner", fix, Options{}, swe.GraderError},
		{"edited tests", run, "sed -i 's/, 3/, -1/' tests/test_calc.py", Options{}, swe.Failed},
		{"edited tests, as patched", run, "sed -i 's/, 3/, -1/' tests/test_calc.py", Options{AsPatched: true}, swe.Solved},
		{"list", run + "; echo done", "touch x", Options{}, swe.Solved},
		{"list, strict", run + "\necho done", "touch x", Options{StrictShell: true}, swe.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			meta, _ := json.Marshal(map[string]any{"image": "host", "workdir": "/srv/repo", "eval_cmd": c.cmd})
			_, e := rollout(t, c.o, string(meta), c.agent)
			if e.Outcome != c.want || !e.Applied {
				t.Errorf("%+v, want %s", e, c.want)
			}
		})
	}
}
