package scaleswe

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

const repo = `set -e
mkdir -p /srv/repo/pkg /srv/repo/tests && cd /srv/repo && git init -q -b main .
printf 'def add(a, b):\n    return a - b\n' >pkg/calc.py; : >pkg/__init__.py; : >tests/__init__.py
printf 'import unittest\nfrom pkg.calc import add\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n' >tests/test_calc.py
git add -A; git -c user.name=b -c user.email=b@b commit -qm base
`

const fix = `sed -i 's/a - b/a + b/' pkg/calc.py`

var boxes = sync.OnceValue(func() *local.Provider { return &local.Provider{} })

// pytestDir is where this machine has pytest's packages; "" where it has none.
var pytestDir = sync.OnceValue(func() string {
	out, err := exec.Command("python3", "-c", "import pytest, os; print(os.path.dirname(os.path.dirname(pytest.__file__)))").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
})

func newBench(t testing.TB) *swetest.Bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("sandboxes with users need root")
	}
	return &swetest.Bench{Boxes: boxes(), Setup: repo}
}

// pytestParts are what pytest of any recent version is made of.
const pytestParts = "pytest _pytest pluggy iniconfig packaging pygments py.py attr attrs exceptiongroup pytest-*-info pluggy-*-info"

// pytestBench has pytest at /opt/pytest, for rows with that in PYTHONPATH.
func pytestBench(t testing.TB) *swetest.Bench {
	t.Helper()
	b := newBench(t)
	dir := pytestDir()
	if dir == "" {
		t.Skip("this machine has no pytest")
	}
	b.Setup += "mkdir /opt/pytest; cd " + dir + "; for p in " + pytestParts + "; do [ ! -e $p ] || cp -R $p /opt/pytest/; done; chmod -R a+rX /opt/pytest\n"
	return b
}

// bareBench has a python without site packages, thus without pytest, in /opt/bare.
func bareBench(t testing.TB) *swetest.Bench {
	t.Helper()
	b := newBench(t)
	b.Setup += "mkdir /opt/bare; printf '#!/bin/sh\\nexec /usr/bin/env -u PYTHONPATH python3 -S \"$@\"\\n' >/opt/bare/python; chmod +x /opt/bare/python\n"
	return b
}

func flat(key, value string) map[string]any {
	return map[string]any{"image": "host", "workdir": "/srv/repo", key: value}
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
		{"runner deleted by the patch", "./check", "rm check", Options{}, swe.Failed},
		{"leading comment", "# check\n\n" + run, fix, Options{}, swe.Solved},
		{"E02 list", run + "; echo done", "touch x", Options{}, swe.Solved},
		{"E02 list, strict", run + "; echo done", "touch x", Options{StrictShell: true}, swe.Failed},
		{"E03 pipe", run + " 2>&1 | tee /dev/null", "touch x", Options{}, swe.Solved},
		{"E03 pipe, strict", run + " 2>&1 | tee /dev/null", "touch x", Options{StrictShell: true}, swe.Failed},
		{"E04 newline, strict", run + "\necho done", "touch x", Options{StrictShell: true}, swe.Failed},
		{"E09 edited tests", run, "sed -i 's/, 3/, -1/' tests/test_calc.py", Options{}, swe.Failed},
		{"E09 as patched", run, "sed -i 's/, 3/, -1/' tests/test_calc.py", Options{AsPatched: true}, swe.Solved},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Setup += "cd /srv/repo; printf '#!/bin/sh\\npython3 -m unittest -q tests.test_calc\\n' >check; chmod +x check; git add -A; git -c user.name=b -c user.email=b@b commit -qm check\n"
			_, e := b.Rollout(t, New(c.o), flat("eval_cmd", c.cmd), c.agent)
			if e.Outcome != c.want || !e.Applied {
				t.Errorf("%+v, want %s", e, c.want)
			}
		})
	}
}
