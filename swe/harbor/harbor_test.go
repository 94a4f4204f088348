package harbor

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

const repo = `set -e
mkdir -p /app /logs/verifier && cd /app && echo a >in.txt && echo '{"reward": 1}' >/logs/verifier/reward.json
`

func TestGrade(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("sandboxes with users need root")
	}
	provider := sync.OnceValue(func() *local.Provider { return &local.Provider{} })
	const check = "grep -q b /app/out.txt && r=1 || r=0\n"
	for _, c := range []struct {
		name, agent, test string
		change            map[string]any
		want              swe.Outcome
		reward            float64
	}{
		{"gold", "echo b >out.txt", check + "echo $r >/logs/verifier/reward.txt", nil, swe.Solved, 1},
		{"wrong", "echo c >out.txt", check + "echo $r >/logs/verifier/reward.txt", nil, swe.Failed, 0},
		{"empty", ":", "exit 1", nil, swe.EmptyPatch, 0},
		{"json first", "echo b >out.txt", "cd /logs/verifier; echo 0 >reward.txt; echo '{\"reward\": 0.5}' >reward.json", nil, swe.Partial, 0.5},
		{"no reward file", "echo b >out.txt", "exit 0", nil, swe.GraderError, 0},
		{"not a number", "echo b >out.txt", "echo nan >/logs/verifier/reward.txt", nil, swe.GraderError, 0},
		{"helper file, as the agent's user", "echo b >out.txt", "sh /tests/lib/h.sh; [ $(id -un) = agent ]", map[string]any{"user": "agent"}, swe.Solved, 1},
		{"timeout", "echo b >out.txt", "sleep 60", map[string]any{"timeout_sec": 1}, swe.EvalTimeout, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			harbor := map[string]any{"tests": map[string]string{"test.sh": c.test, "lib/h.sh": "echo 1 >/logs/verifier/reward.txt"}}
			for k, v := range c.change {
				harbor[k] = v
			}
			row := map[string]any{"image": "host", "workdir": "/app", "harbor": harbor}
			_, e := (&swetest.Bench{Boxes: provider(), Setup: repo}).Rollout(t, New(Options{}), row, c.agent)
			if e.Outcome != c.want || e.Reward != c.reward {
				t.Errorf("%s %g: %s\n%s", e.Outcome, e.Reward, e.Reason, e.LogTail)
			}
		})
	}
}

func TestRows(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "test.sh"), []byte("exit 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	good := map[string]any{"image": "i", "workdir": "/app", "harbor": map[string]any{"tests_path": dir, "timeout_sec": 1.5}}
	swetest.Parse(t, New(Options{}), good)
	for _, bad := range []map[string]any{
		{},
		{"tests_path": dir + "/none"},
		{"tests": map[string]string{"a.sh": "x"}},
		{"tests": map[string]string{"test.sh": "x", "../x": "y"}},
		{"tests_path": dir, "timeout_sec": -1},
		{"tests_path": dir, "user": "nobody"},
		{"test_path": dir},
	} {
		row := map[string]any{"image": "i", "workdir": "/app", "harbor": bad}
		if _, err := New(Options{}).Parse(swetest.Row(t, row)); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

func FuzzReward(f *testing.F) {
	for _, s := range []string{"1", "0.5\n", `{"reward": 1}`, `{"x": 0.25}`, "NaN", "{", "1e999"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, ok := parseReward(data); ok && !(r >= 0 && r <= 1) {
			t.Errorf("%q is %g", data, r)
		}
	})
}
