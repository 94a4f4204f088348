package swepro

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// repo has a solution commit after its base, as Pro images do: it brings the
// official tests, and the fix.
const repo = `set -e
mkdir -p /app/pkg /app/tests && cd /app && git init -q -b main .
git config user.name b; git config user.email b@b
printf 'def add(a, b):\n    return a - b\n' >pkg/calc.py; : >pkg/__init__.py
printf 'from pkg.calc import add\nassert add(0, 0) == 0\n' >tests/t_zero.py
git add -A; git commit -qm base; git tag base
printf 'def add(a, b):\n    return a + b  # THE SOLUTION\n' >pkg/calc.py
printf 'from pkg.calc import add\nassert add(1, 2) == 3\n' >tests/t_add.py
git add -A; git commit -qm solution; git tag solution
git remote add origin https://example.invalid/x.git
git checkout -q base; git branch -q -D main
`

const runScript = `for t in $(echo "${1:-tests/t_add.py,tests/t_zero.py}" | tr , ' '); do
if PYTHONPATH=. python3 "$t"; then echo "PASSED $t"; else echo "FAILED $t"; fi
done
`

const parser = `import json, sys
tests = []
for line in open(sys.argv[1]):
    status, _, name = line.strip().partition(" ")
    if status in ("PASSED", "FAILED"):
        tests.append({"name": name, "status": status})
json.dump({"tests": tests}, open(sys.argv[3], "w"))
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

// row is a good row with some keys of swepro replaced.
func row(change map[string]any) map[string]any {
	pro := map[string]any{
		"run_script": runScript, "parser_script": parser,
		"before_repo_set_cmd": "git reset --hard base\ngit clean -fd\ngit checkout base\ngit checkout solution -- tests/t_add.py",
		"selected_test_files": "['tests/t_add.py', 'tests/t_zero.py']",
		"fail_to_pass":        `["tests/t_add.py"]`, "pass_to_pass": []string{"tests/t_zero.py"},
	}
	for k, v := range change {
		pro[k] = v
	}
	return map[string]any{"image": "host", "workdir": "/app", "swepro": pro}
}

func TestGrade(t *testing.T) {
	for _, c := range []struct {
		name, agent string
		change      map[string]any
		o           Options
		want        swe.Outcome
	}{
		{"S01 gold", fix, nil, Options{}, swe.Solved},
		{"S02 no fix", "touch x", nil, Options{}, swe.Failed},
		{"empty", ":", nil, Options{}, swe.EmptyPatch},
		{"partial", fix, map[string]any{"fail_to_pass": []string{"tests/t_add.py", "tests/t_more.py"}}, Options{}, swe.Partial},
		{"breaks what passed", "printf 'def add(a, b):\\n    return 3\\n' >pkg/calc.py", nil, Options{}, swe.Failed},
		{"S05 no selection runs all", fix, map[string]any{"selected_test_files": nil}, Options{}, swe.Solved},
		{"S07 parser crashes", fix, map[string]any{"parser_script": "raise SystemExit('boom')\n"}, Options{}, swe.GraderError},
		{"S08 bad result", fix, map[string]any{"parser_script": "import sys\nopen(sys.argv[3], 'w').write('{')\n"}, Options{}, swe.GraderError},
		{"no result", fix, map[string]any{"parser_script": "pass\n"}, Options{}, swe.GraderError},
		{"S11 odd name", fix, map[string]any{"run_script": "[ \"$1\" = 'a $x b,c' ] && echo 'PASSED tests/t_add.py'; echo 'PASSED tests/t_zero.py'\n", "selected_test_files": []string{"a $x b", "c"}}, Options{}, swe.Solved},
		{"S12 timeout", fix, map[string]any{"run_script": "sleep 60\n"}, Options{EvalTimeout: time.Second}, swe.EvalTimeout},
		{"S13 official tests missing", fix, map[string]any{"before_repo_set_cmd": "git reset --hard base\ngit checkout nosuch -- tests/t_add.py"}, Options{}, swe.GraderError},
		{"S14 parser overwritten", "printf 'import glob\\nfor p in glob.glob(\"/var/lib/agentrl-swe/*/parser.py\") + [\"/workspace/swepro_eval/parser.py\"]:\\n    try: open(p, \"w\").write(\"x\")\\n    except OSError: pass\\n' >>pkg/calc.py", nil, Options{}, swe.Failed},
		{"S16 edited tests", "mkdir -p tests; echo 'assert True' >tests/t_add.py", nil, Options{}, swe.Failed},
		{"S16 as patched", "mkdir -p tests; echo 'assert True' >tests/t_add.py", nil, Options{AsPatched: true}, swe.PatchRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, e := newBench(t).Rollout(t, New(c.o), row(c.change), c.agent)
			if e.Outcome != c.want {
				t.Errorf("%s: %s\n%s", e.Outcome, e.Reason, e.LogTail)
			}
			t.Logf("figure: %s: %s", c.name, e.Outcome)
		})
	}
}

// TestForgedResults: a result that the tested code prints can't be told from
// the script's own, so it is flagged.
func TestForgedResults(t *testing.T) {
	agent := "printf 'print(\"PASSED tests/t_add.py\")\\nraise SystemExit(0)\\n' >>pkg/calc.py"
	_, e := newBench(t).Rollout(t, New(Options{}), row(nil), agent)
	if len(e.Tamper) == 0 {
		t.Errorf("%s, no signal", e.Outcome)
	}
	t.Logf("figure: S15 forged results: %s, flagged %v", e.Outcome, e.Tamper)
}

// TestNothingHidden: after Prepare the agent's shell finds neither the official
// tests nor the solution.
func TestNothingHidden(t *testing.T) {
	b := newBench(t)
	task := swetest.Parse(t, New(Options{}), row(nil))
	sb := b.Box(t)
	if err := task.Prepare(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	found := b.Bash(t, sb, sandbox.AgentUser, `cd /app
[ -e tests/t_add.py ] && echo "the test is there"
git show solution:pkg/calc.py 2>/dev/null; git log --all --oneline | grep solution
git reflog | grep solution; git fsck --lost-found --no-reflogs 2>/dev/null; git remote
for o in $(find .git/objects -type f | sed 's|.*/\(..\)/\(.*\)|\1\2|' | grep -E '^[0-9a-f]{40}$'); do git cat-file -p $o; done | grep -a SOLUTION
git cat-file --batch-check --batch-all-objects | awk '{print $1}' | git cat-file --batch | grep -a SOLUTION
grep -ra "THE SOLUTION" . 2>/dev/null; grep -rla "THE SOLUTION" /home/agent /tmp/*.log 2>/dev/null; env | grep -i t_add
true`)
	if strings.TrimSpace(found) != "" {
		t.Errorf("the agent finds:\n%s", found)
	}
	b.Bash(t, sb, sandbox.AgentUser, "cd /app && git describe --tags --exact-match base >/dev/null && git status --short && git log -1 --oneline")
	p, err := task.Diff(t.Context(), sb)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("figure: %s", p.Scrub)
}

func TestRowErrors(t *testing.T) {
	for _, c := range []struct{ name, swepro, want string }{
		{"S06 upper case keys", `{"run_script":"r","parser_script":"p","FAIL_TO_PASS":["a"]}`, "FAIL_TO_PASS"},
		{"S06 the data set's own key", `{"run_script":"r","parser_script":"p","fail_to_pass":["a"],"selected_test_files_to_run":["a"]}`, "selected_test_files_to_run"},
		{"no tests", `{"run_script":"r","parser_script":"p"}`, "fail_to_pass"},
		{"a name where a list belongs", `{"run_script":"r","parser_script":"p","fail_to_pass":"tests/a.py"}`, "fail_to_pass"},
		{"S10 no run script", `{"parser_script":"p","fail_to_pass":["a"]}`, "run_script_path"},
		{"S09 run script missing", `{"run_script_path":"/no/such","parser_script":"p","fail_to_pass":["a"]}`, "/no/such"},
	} {
		meta := map[string]json.RawMessage{"image": []byte(`"i"`), "workdir": []byte(`"/app"`), "swepro": []byte(c.swepro)}
		_, err := New(Options{}).Parse(swe.Row{Prompt: []byte(`"p"`), Metadata: meta})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that names %s", c.name, err, c.want)
		}
	}
}
