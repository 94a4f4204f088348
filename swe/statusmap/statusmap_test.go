package statusmap

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

const repo = `set -e
mkdir -p /testbed/pkg /r2e_tests && cd /testbed && git init -q -b main .
printf 'def add(a, b):\n    return a - b\n' >pkg/calc.py; : >pkg/__init__.py
git add -A; git -c user.name=b -c user.email=b@b commit -qm base
printf 'echo "=== short test summary info ==="\nPYTHONPATH=. python3 r2e_tests/t.py\n' >run_tests.sh
cat >/r2e_tests/t.py <<'EOF'
from pkg.calc import add
print("PASSED" if add(1, 2) == 3 else "FAILED", "r2e_tests/t.py::T::test_add" + ("" if add(1, 2) == 3 else " - wrong"))
print("FAILED r2e_tests/t.py::T::test_never - x")
EOF
ln -s /r2e_tests /testbed/r2e_tests
`

func TestGrade(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("sandboxes with users need root")
	}
	provider := sync.OnceValue(func() *local.Provider { return &local.Provider{} })
	const fix = `sed -i 's/a - b/a + b/' pkg/calc.py`
	want := `{"T.test_add": "PASSED", "T.test_never - y": "FAILED"}`
	for _, c := range []struct {
		name, agent string
		expected    any
		change      map[string]any
		o           Options
		want        swe.Outcome
	}{
		{"gold", fix, want, nil, Options{}, swe.Solved},
		{"expected as an object", fix, map[string]string{"T.test_add": "PASSED", "T.test_never": "FAILED"}, nil, Options{}, swe.Solved},
		{"no fix", "touch x", want, nil, Options{}, swe.Failed},
		{"empty", ":", want, nil, Options{}, swe.EmptyPatch},
		{"a test that is not expected", fix, `{"T.test_add": "PASSED"}`, nil, Options{}, swe.Failed},
		{"run script rewritten", "printf 'echo short test summary info; echo PASSED a::T::test_add; echo FAILED a::T::test_never\\n' >run_tests.sh", want, nil, Options{}, swe.Failed},
		{"no summary", fix, want, map[string]any{"test_command": "true"}, Options{}, swe.NoEvidence},
		{"command missing", fix, want, map[string]any{"test_command": "no-such"}, Options{}, swe.GraderError},
		{"timeout", fix, want, map[string]any{"test_command": "sleep 60"}, Options{EvalTimeout: time.Second}, swe.EvalTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			row := map[string]any{"docker_image": "host", "expected_output_json": c.expected}
			for k, v := range c.change {
				row[k] = v
			}
			b := &swetest.Bench{Boxes: provider(), Setup: repo}
			_, e := b.Rollout(t, New(c.o), row, "[ ! -e r2e_tests ] && ! cat /r2e_tests/t.py 2>/dev/null || exit 9\n"+c.agent)
			if e.Outcome != c.want {
				t.Errorf("%s: %s\n%s", e.Outcome, e.Reason, e.LogTail)
			}
		})
	}
}

func TestRowErrors(t *testing.T) {
	for _, row := range []map[string]any{
		{"docker_image": "i"},
		{"docker_image": "i", "expected_output_json": "{}"},
		{"docker_image": "i", "expected_output_json": []string{"a"}},
		{"docker_image": "i", "expected_outputs_json": "{}"},
		{"expected_output_json": `{"a":"PASSED"}`},
	} {
		if _, err := New(Options{}).Parse(swetest.Row(t, row)); err == nil {
			t.Errorf("%v is taken", row)
		}
	}
}

func FuzzSummary(f *testing.F) {
	f.Add("short test summary info\nPASSED a::b - c\nFAILED \x1b[1mx")
	f.Fuzz(func(t *testing.T, log string) {
		for key := range parseSummary(log) {
			if key == "" {
				t.Error("an empty key")
			}
		}
	})
}
