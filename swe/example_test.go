package swe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// A protocol reads a row; its task prepares the agent's sandbox, takes the
// patch out of it, and grades that in another.
func ExampleProtocol() {
	var p swe.Protocol = &swetest.Protocol{}
	row := swe.Row{Metadata: map[string]json.RawMessage{
		"instance_id": json.RawMessage(`"sum"`), "image": json.RawMessage(`"any"`), "workdir": json.RawMessage(`"/repo"`), "want": json.RawMessage(`"42"`),
	}}
	task, err := p.Parse(row)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, boxes := context.Background(), &sandboxtest.Fake{}
	work, err := boxes.Create(ctx, task.Spec().Agent)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer work.Close()
	err = errors.Join(task.Prepare(ctx, work),
		work.WriteFile(ctx, "/repo/"+swetest.AnswerFile, sandbox.AgentUser, strings.NewReader("42"))) // what the agent does
	patch, diffErr := task.Diff(ctx, work)
	if err = errors.Join(err, diffErr); err != nil {
		fmt.Println(err)
		return
	}
	fresh, err := boxes.Create(ctx, task.Spec().Grader)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fresh.Close()
	eval, err := task.Evaluate(ctx, fresh, patch)
	fmt.Println(err, eval.Outcome, eval.Reward)

	_, err = p.Parse(swe.Row{})
	fmt.Println(errors.Is(err, swe.ErrNoImage))
	// Output:
	// <nil> solved 1
	// true
}
