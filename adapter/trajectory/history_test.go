package trajectory_test

import (
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// TestHistory: each message once, in a tree whose paths are the segments' conversations.
func TestHistory(t *testing.T) {
	tree := trajectory.New(trajectory.Options{})
	user := func(s string) chat.Message { return chat.Message{Role: chat.User, Content: s} }
	said := func(s string) chat.Message { return chat.Message{Role: chat.Assistant, Content: s} }
	tools := []chat.Tool{{Name: "bash"}}
	record := func(id string, echo chat.Message, ids []int32, prompt ...chat.Message) {
		t.Helper()
		if err := tree.Record(trajectory.Turn{ID: id, Prompt: prompt, Tools: tools, Echo: echo, PromptIDs: ids, OutputIDs: []int32{9}, LogProbs: []float32{-1}, Finish: chat.FinishStop}); err != nil {
			t.Fatal(err)
		}
	}
	record("a", said("one"), []int32{1, 2}, user("task"))
	record("b", said("two"), []int32{1, 2, 9, 3}, user("task"), said("one"), user("go on"))
	record("c", said("three"), []int32{1, 2, 9, 4}, user("task"), said("one"), user("or else"))
	h := tree.History()
	segments, err := tree.Segments(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Messages) != 6 || len(segments) != 2 || len(h.Toolsets) != 1 {
		t.Fatalf("%d messages, %d segments, %d toolsets, want 6, 2, 1", len(h.Messages), len(segments), len(h.Toolsets))
	}
	for _, s := range segments {
		last := s.Turns[len(s.Turns)-1].ID
		var words []string
		for at := find(h, last); at >= 0; at = h.Messages[at].Parent {
			words = append(words, h.Messages[at].Content)
		}
		if len(words) != 4 || words[3] != "task" || words[2] != "one" {
			t.Errorf("the conversation of turn %s is, from its end, %q", last, words)
		}
	}
	if m := h.Messages[find(h, "a")]; m.Toolset != 0 || h.Messages[0].Toolset != -1 || h.Messages[0].Parent != -1 {
		t.Errorf("history %+v", h.Messages)
	}
}

func find(h trajectory.History, turn string) int {
	for i, m := range h.Messages {
		if m.Turn == turn {
			return i
		}
	}
	return -1
}
