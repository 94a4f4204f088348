package swebench

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

const repo = `set -e
mkdir -p /testbed/pkg /testbed/tests && cd /testbed && git init -q -b main .
printf 'def add(a, b):\n    return a - b\n' >pkg/calc.py; : >pkg/__init__.py
printf 'from pkg.calc import add\ndef test_zero():\n    assert add(0, 0) == 0\n' >tests/test_calc.py
cat >runner.py <<'EOF'
import importlib, os, sys
sys.path.insert(0, ".")
if os.path.exists("conftest.py"):
    import conftest
bad = 0
for f in sys.argv[1:]:
    m = None
    try:
        m = importlib.import_module(f[:-3].replace("/", "."))
    except Exception as e:
        print("ERROR", f, "-", e); bad = 1
    for name in dir(m):
        if name.startswith("test_"):
            try:
                getattr(m, name)(); print("PASSED", f + "::" + name)
            except AssertionError as e:
                print("FAILED", f + "::" + name, "-", e); bad = 1
sys.exit(bad)
EOF
git add -A; git -c user.name=b -c user.email=b@b commit -qm base
`

const testPatch = `diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -1,3 +1,5 @@
 from pkg.calc import add
 def test_zero():
     assert add(0, 0) == 0
+def test_add():
+    assert add(1, 2) == 3
diff --git a/tests/test_new.py b/tests/test_new.py
new file mode 100644
--- /dev/null
+++ b/tests/test_new.py
@@ -0,0 +1,3 @@
+from pkg.calc import add
+def test_new():
+    assert add(2, 2) == 4
`

const evalScript = `#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout HEAD tests/test_calc.py
git apply -v - <<'EOF_1'
` + testPatch + `
EOF_1
: '>>>>> Start Test Output'
python3 runner.py tests/test_calc.py tests/test_new.py
: '>>>>> End Test Output'
git checkout HEAD tests/test_calc.py
`

const fix = `sed -i 's/a - b/a + b/' pkg/calc.py`

var boxes = sync.OnceValue(func() *local.Provider { return &local.Provider{} })

func newBench(t testing.TB) *swetest.Bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("sandboxes with users need root")
	}
	return &swetest.Bench{Boxes: boxes(), Setup: repo}
}

func row(change map[string]any) map[string]any {
	r := map[string]any{
		"instance_id": "org__pkg-1", "repo": "org/pkg", "version": "1", "base_commit": "HEAD", "image": "host",
		"test_patch": testPatch, "eval_script": evalScript, "log_parser": "pytest", "eval_type": "pass_and_fail",
		"FAIL_TO_PASS": `["tests/test_calc.py::test_add", "tests/test_new.py::test_new"]`, "PASS_TO_PASS": `["tests/test_calc.py::test_zero"]`,
	}
	for k, v := range change {
		r[k] = v
	}
	return map[string]any{"remote_env_info": r}
}

func TestGrade(t *testing.T) {
	for _, c := range []struct {
		name, agent string
		change      map[string]any
		o           Options
		want        swe.Outcome
	}{
		{"W1 fix", fix, nil, Options{}, swe.Solved},
		{"no fix", "touch x", nil, Options{}, swe.Failed},
		{"empty", ":", nil, Options{}, swe.EmptyPatch},
		{"empty graded", ":", nil, Options{GradeEmpty: true}, swe.Failed},
		{"partial", "printf 'def add(a, b):\\n    return {(0, 0): 0, (1, 2): 3}.get((a, b))\\n' >pkg/calc.py", nil, Options{}, swe.Partial},
		{"W2 own version of a new test, no fix", "printf 'def test_new():\\n    pass\\n' >tests/test_new.py", nil, Options{}, swe.Failed},
		{"W2b fix and own version of a new test", fix + "; printf 'def test_new():\\n    pass\\n' >tests/test_new.py", nil, Options{}, swe.Solved},
		{"W3 edited test", "printf 'def test_add():\\n    pass\\ndef test_zero():\\n    pass\\n' >tests/test_calc.py", nil, Options{}, swe.Failed},
		{"W4 conftest", "printf 'import builtins\\nbuiltins.AssertionError = type(\"E\", (BaseException,), {})\\n' >conftest.py", nil, Options{}, swe.Failed},
		{"W5 forged lines at exit", "printf 'import atexit, os\\natexit.register(lambda: print(\"PASSED tests/test_calc.py::test_add\\\\nPASSED tests/test_new.py::test_new\\\\nPASSED tests/test_calc.py::test_zero\"))\\nraise SystemExit(1)\\n' >>pkg/calc.py", nil, Options{}, swe.NoEvidence},
		{"W6 os._exit", "printf 'import os\\nos._exit(0)\\n' >pkg/__init__.py", nil, Options{}, swe.NoEvidence},
		{"W7 timeout", fix, map[string]any{"eval_script": strings.Replace(evalScript, "python3 runner.py", "sleep 60; python3 runner.py", 1)}, Options{EvalTimeout: 2 * time.Second}, swe.EvalTimeout},
		{"out of memory", fix, map[string]any{"eval_script": strings.Replace(evalScript, "python3 runner.py", "echo Cannot allocate memory; false", 1)}, Options{}, swe.GraderError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, e := newBench(t).Rollout(t, New(c.o), row(c.change), c.agent)
			if e.Outcome != c.want {
				t.Errorf("%s: %s\n%s", e.Outcome, e.Reason, e.LogTail)
			}
			t.Logf("figure: %s: %s, flagged %v", c.name, e.Outcome, e.Tamper)
		})
	}
}

// differences from the reference: what its package can't do without the
// harness's Python, and what no grader can do with.
var differences = map[string]string{
	"swebench full": "no facts about a/b", "swebench label not used as id": "no facts about a/b", "swebench prompt fallback": "no facts about a/b",
	"swebench import failed": "no facts about a/b", // there is nothing to import
}

func TestRowVectors(t *testing.T) {
	var cases []struct {
		Name, Protocol string
		Sample         struct {
			Prompt, Label json.RawMessage
			Metadata      map[string]json.RawMessage
		}
		Out struct {
			Abort *string `json:"generate_abort_reason"`
		}
	}
	readJSON(t, "testdata/row_cases.json", &cases)
	n := 0
	for _, c := range cases {
		if c.Protocol != "swebench" {
			continue
		}
		n++
		_, err := New(Options{}).Parse(swe.Row{Prompt: c.Sample.Prompt, Label: c.Sample.Label, Metadata: c.Sample.Metadata})
		want := differences[c.Name]
		if c.Out.Abort != nil && want == "" {
			want = strings.TrimSuffix(*c.Out.Abort, ":KeyError")
		}
		if err == nil || !strings.Contains(err.Error(), want) || want == "" {
			t.Errorf("%s: %v, want %q", c.Name, err, want)
		}
	}
	t.Logf("figure: %d vectors", n)
}

func TestRows(t *testing.T) {
	good := func(change map[string]any) (*task, error) {
		parsed, err := New(Options{}).Parse(swetest.Row(t, row(change)))
		if err != nil {
			return nil, err
		}
		return parsed.(*task), nil
	}
	v4 := map[string]any{"eval_script": nil, "log_parser": nil, "repo": "django/django", "version": "4.1"}
	got, err := good(v4)
	if err != nil || !strings.Contains(got.script, "./tests/runtests.py") || got.Workdir != "/testbed" || got.spec.InstanceID != "org__pkg-1" {
		t.Errorf("v4 row: %+v, %v", got, err)
	}
	for _, c := range []struct {
		change map[string]any
		want   string
	}{
		{map[string]any{"eval_script": nil}, "make_test_spec_failed"},
		{map[string]any{"log_parser": "parse_log_cargo"}, "log_parser"},
		{map[string]any{"eval_script": "echo"}, "eval_script"},
		{map[string]any{"eval_type": "all"}, "eval_type"},
		{map[string]any{"FAIL_TO_PASS": nil, "PASS_TO_PASS": nil}, "FAIL_TO_PASS"},
		{map[string]any{"FAIL_TO_PASS": "tests/a.py"}, "FAIL_TO_PASS"},
		{map[string]any{"FAIL_TO_PASS": nil, "fail_to_pass": []string{"a"}}, "fail_to_pass"},
		{map[string]any{"image_assets": `{"test_patch": ["x.png"]}`}, "image_assets"},
		{map[string]any{"test_patch": " \n"}, "unevaluatable:missing_test_patch"},
		{map[string]any{"image": nil}, "missing_image_or_workdir"},
	} {
		if _, err := good(c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want an error that names %s", c.change, err, c.want)
		}
	}
}

func FuzzJudge(f *testing.F) {
	for _, name := range []string{"25_django_basic.log", "37_sympy_basic.log", "21_v2_tox_prefix_sphinx.log"} {
		data, err := os.ReadFile("testdata/logs/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, log string) {
		for _, name := range []string{"pytest", "pytest_options", "pytest_v2", "django", "matplotlib", "seaborn", "sympy", "chart_js"} {
			for _, v := range []Harness{V4, V5} {
				r := Judge{Version: v, Parser: parsers(name), F2P: []string{"a"}, P2P: []string{"b["}}.Judge(log)
				if !r.Found && r.Resolution() != "" {
					t.Error("a resolution of a log that was not found")
				}
			}
		}
	})
}

func FuzzScripts(f *testing.F) {
	f.Add(testPatch, evalScript)
	f.Fuzz(func(t *testing.T, patch, script string) {
		modifiedFiles(patch)
		directives("django/django", patch)
		if strings.Count(scriptV5(script), exitMark) > strings.Count(script, exitMark)+1 {
			t.Error("the exit status is recorded more than once")
		}
	})
}
