package agentrl

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

func TestCommandSignals(t *testing.T) {
	tree := trajectory.New(trajectory.Options{})
	history := []chat.Message{{Role: chat.User, Content: "fix it"}}
	for i, args := range []string{`{"command":"git log --all -S fix"}`, `{"cmd":["bash","-lc","git log --all"]}`, `{"path":"a.py"}`} {
		echo := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "bash", Arguments: json.RawMessage(args)}}}
		ids := []int32{int32(i)}
		err := tree.Record(trajectory.Turn{ID: string(rune('a' + i)), Prompt: history, Echo: echo, PromptIDs: []int32{1, 2}, OutputIDs: ids, LogProbs: []float32{0}, Finish: chat.FinishStop})
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, echo, chat.Message{Role: chat.ToolRole, Content: "ok"})
	}
	got := commandSignals(tree)
	if len(got) == 0 || len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) {
		t.Errorf("commandSignals = %q, want those of reading the history, each once", got)
	}
	if got := commandSignals(nil); got != nil {
		t.Errorf("commandSignals(nil) = %q", got)
	}
}
