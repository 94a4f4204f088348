package adapter_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
)

// A session is opened, used by the agent, sealed when the agent is dead,
// finished and dropped. A Server goes in place of the fake.
func ExampleAdapter() {
	fake := &adaptertest.Fake{}
	var a adapter.Adapter = fake
	ctx := context.Background()
	session, err := a.OpenSession(ctx, "rollout-7", adapter.SessionOptions{
		Sampling:   map[string]any{"temperature": 1.0, "max_new_tokens": 8192},
		MaxContext: 65536,
		OnTurn:     func(t adapter.TurnInfo) { fmt.Println("turn:", t.Prompt, "tokens in,", t.Output, "out") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.DropSession(session.ID)

	if err := fake.Turn(session.ID, adapter.TurnInfo{Prompt: 900, Output: 40}); err != nil { // the agent asks
		fmt.Println(err)
	}
	_, err = a.OpenSession(ctx, "rollout-7", adapter.SessionOptions{})
	fmt.Println("live already:", errors.Is(err, adapter.ErrSessionLive))
	if err := a.SealSession(ctx, session.ID); err != nil {
		fmt.Println(err)
	}
	record, err := a.FinishSession(ctx, session.ID)
	fmt.Println(err, len(record.Segments) > 0)
	// Output:
	// turn: 900 tokens in, 40 out
	// live already: true
	// <nil> true
}
