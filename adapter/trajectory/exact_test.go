package trajectory_test

import (
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

func TestExactSmoke(t *testing.T) {
	tree := trajectory.New(trajectory.Options{})
	user := chat.Message{Role: "user", Content: "fix it"}
	a := chat.Message{Role: "assistant", Content: "on it"}
	if err := tree.Record(trajectory.Turn{ID: "a", Prompt: []chat.Message{user}, Echo: a, PromptIDs: []int32{1, 2, 3}, OutputIDs: []int32{4, 5}, LogProbs: []float32{-1, -2}, Finish: "stop"}); err != nil {
		t.Fatal(err)
	}
	prompt := []chat.Message{user, a, user}
	c := tree.Continue(prompt, nil)
	if len(c.IDs) != 5 || c.From != 2 || c.Turn != "a" {
		t.Fatalf("Continue: %+v", c)
	}
	if err := tree.Record(trajectory.Turn{ID: "b", Prompt: prompt, Echo: a, PromptIDs: append(c.IDs, 7, 8), OutputIDs: []int32{9}, LogProbs: []float32{-1}, Finish: "stop"}); err != nil {
		t.Fatal(err)
	}
	segments, err := tree.Segments(0)
	if err != nil || len(segments) != 1 || segments[0].Untrained != "" {
		t.Fatalf("Segments: %+v, %v", segments, err)
	}
	if err := trajectory.CheckSegments(segments); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", segments[0])
}
