package scaleswe

import (
	"sync"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// TestSevered: the same rollout with a connection that breaks at each call in
// turn gives the same patch and the same outcome. The tests count their runs:
// they never run twice.
func TestSevered(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	b := newBench(t)
	row := flat("eval_cmd", "echo run >>/home/agent/runs; python3 -m unittest -q tests.test_calc && [ $(wc -l </home/agent/runs) = 1 ]")
	row["pre_commands"] = []string{"echo x >>pre.txt"}
	task := swetest.Parse(t, New(Options{}), row)

	whole := &swetest.Severed{}
	want, err := severedSolve(t, b, task, whole)
	if err != nil {
		t.Fatal(err)
	}
	solve := whole.Calls.Load()
	whole = &swetest.Severed{}
	if e, err := severedGrade(t, b, task, want, whole); err != nil || e.Outcome != swe.Solved {
		t.Fatalf("%+v, %v", e, err)
	}
	grade := whole.Calls.Load()

	each(solve, func(at int64) {
		p, err := severedSolve(t, b, task, &swetest.Severed{At: at})
		if err != nil || string(p.Bytes) != string(want.Bytes) || p.ResultTree != want.ResultTree {
			t.Errorf("the agent's side, cut at %d: %d bytes, %v", at, len(p.Bytes), err)
		}
	})
	each(grade, func(at int64) {
		e, err := severedGrade(t, b, task, want, &swetest.Severed{At: at})
		if err != nil || e.Outcome != swe.Solved {
			t.Errorf("the graders' side, cut at %d: %s %s, %v", at, e.Outcome, e.Reason, err)
		}
	})
	t.Logf("figure: cut at each of %d calls before and %d calls after the patch, and at all of them: the same patch and outcome", solve, grade)
}

// each tries every call, and all at once, six at a time.
func each(calls int64, try func(at int64)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, 6)
	for k := range calls + 1 {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if k == 0 {
				k = -1
			}
			try(k)
		})
	}
	group.Wait()
}

func severedSolve(t *testing.T, b *swetest.Bench, task swe.Task, sb *swetest.Severed) (swe.Patch, error) {
	sb.Sandbox = b.Box(t)
	defer sb.Close()
	if err := task.Prepare(t.Context(), sb); err != nil {
		return swe.Patch{}, err
	}
	b.Bash(t, sb.Sandbox, sandbox.AgentUser, "cd /srv/repo\n"+fix)
	return task.Diff(t.Context(), sb)
}

func severedGrade(t *testing.T, b *swetest.Bench, task swe.Task, p swe.Patch, sb *swetest.Severed) (swe.Evaluation, error) {
	sb.Sandbox = b.Box(t)
	defer sb.Close()
	return task.Evaluate(t.Context(), sb, p)
}
