package harness_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// A harness is installed in a sandbox and run on a job. How the agent ended is
// in its report; an error would be the sandbox's or the harness's own.
func ExampleHarness() {
	var agent harness.Harness = &harnesstest.Fake{OnRun: func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
		err := sb.WriteFile(ctx, job.Workdir+"/ANSWER", sandbox.AgentUser, strings.NewReader("42"))
		return harness.Report{Outcome: harness.GaveUp, Turns: 3}, err
	}}
	ctx := context.Background()
	sb, err := (&sandboxtest.Fake{}).Create(ctx, sandbox.Spec{Image: "any", Workdir: "/repo"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close()
	if err := agent.Install(ctx, sb); err != nil {
		fmt.Println(err)
		return
	}
	stop := make(chan struct{}) // closed when the time budget is spent
	report, err := agent.Run(ctx, sb, harness.Job{
		Workdir: "/repo", Prompt: "Fix the bug.", BaseURL: "http://10.0.0.1:18001", Token: "a session's secret", Model: "policy", Stop: stop,
	})
	fmt.Println(err, report.Outcome, report.Turns)
	// Output: <nil> gave_up 3
}
