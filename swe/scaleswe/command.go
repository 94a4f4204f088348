package scaleswe

import (
	"context"
	"fmt"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// runCommand grades by the exit status of eval_cmd. A command that can't be
// found is run again on the base: if it is not there either, the image is at
// fault and not the patch.
func (t *task) runCommand(ctx context.Context, g *swe.Grading) (swe.Evaluation, error) {
	script := swe.Script{Name: "eval", Body: t.evalCmd + "\n", User: sandbox.AgentUser, Limit: t.o.EvalTimeout}
	if t.o.StrictShell {
		script.Shell = "bash -eo pipefail"
	}
	run, err := g.Run(ctx, script)
	if err != nil {
		return swe.Evaluation{}, err
	}
	e, err := exitVerdict(run)
	if err != nil || (e.ExitCode != 126 && e.ExitCode != 127) {
		return e, err
	}
	if err := g.Reset(ctx); err != nil {
		return swe.Evaluation{}, err
	}
	script.Name = "eval-base"
	base, err := g.Run(ctx, script)
	if err != nil {
		return swe.Evaluation{}, err
	}
	if base.Exit == run.Exit {
		return run.Verdict(swe.GraderError, fmt.Sprintf("eval_cmd exits with %d (not found or not executable) on the base too", e.ExitCode)), nil
	}
	return e, nil
}

// exitVerdict reads a run whose exit status is its verdict.
func exitVerdict(run swe.TestRun) (swe.Evaluation, error) {
	switch {
	case run.Exit.State == sandbox.TimedOut:
		return run.Verdict(swe.EvalTimeout, fmt.Sprintf("the tests ran longer than %v", run.Duration.Round(1e9))), nil
	case run.Exit.State == sandbox.Lost:
		return swe.Evaluation{}, fmt.Errorf("the tests vanished: killed from outside, or out of memory")
	case run.Exit.Code == 0:
		return run.Verdict(swe.Solved, "the tests passed"), nil
	}
	return run.Verdict(swe.Failed, fmt.Sprintf("the tests exited with %d", run.Exit.Code)), nil
}
