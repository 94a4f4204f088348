package scaleswe

import (
	"fmt"
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
	b := newBench(t)
	row := flat("eval_cmd", "echo run >>/home/agent/runs; python3 -m unittest -q tests.test_calc && [ $(wc -l </home/agent/runs) = 1 ]")
	row["pre_commands"] = []string{"echo x >>pre.txt"}
	task := swetest.Parse(t, New(Options{}), row)

	plan := &swetest.Severed{}
	want, e := severedRollout(t, b, task, plan, &swetest.Severed{})
	if e.Outcome != swe.Solved {
		t.Fatalf("%+v", e)
	}
	solve := int(plan.Calls.Load())
	plan = &swetest.Severed{}
	severedRollout(t, b, task, &swetest.Severed{}, plan)
	grade := int(plan.Calls.Load())

	var group sync.WaitGroup
	slots := make(chan struct{}, 4)
	for k := range solve + grade + 1 {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			a, g := &swetest.Severed{At: int64(k + 1)}, &swetest.Severed{At: int64(k + 1 - solve)}
			if k == solve+grade {
				a.At, g.At = -1, -1
			}
			p, e := severedRollout(t, b, task, a, g)
			if string(p.Bytes) != string(want.Bytes) || p.ResultTree != want.ResultTree || e.Outcome != swe.Solved {
				t.Errorf("cut at %d: %s %s, %d bytes", k+1, e.Outcome, e.Reason, len(p.Bytes))
			}
		})
	}
	group.Wait()
	t.Logf("figure: cut at each of %d calls, and at all of them: the same patch and outcome", solve+grade)
}

// severedRollout is a rollout over two breaking connections.
func severedRollout(t *testing.T, b *swetest.Bench, task swe.Task, agent, grader *swetest.Severed) (swe.Patch, swe.Evaluation) {
	t.Helper()
	agent.Sandbox, grader.Sandbox = b.Box(t), b.Box(t)
	defer agent.Close()
	defer grader.Close()
	fail := func(err error) (swe.Patch, swe.Evaluation) {
		return swe.Patch{}, swe.Evaluation{Reason: fmt.Sprint(err)}
	}
	if err := task.Prepare(t.Context(), agent); err != nil {
		return fail(err)
	}
	b.Bash(t, agent.Sandbox, sandbox.AgentUser, "cd /srv/repo\n"+fix)
	p, err := task.Diff(t.Context(), agent)
	if err != nil {
		return fail(err)
	}
	e, err := task.Evaluate(t.Context(), grader, p)
	if err != nil {
		return fail(err)
	}
	return p, e
}
