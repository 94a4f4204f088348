package claudecode

import (
	"testing"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// FuzzRead: a log is whatever the agent wrote there; it leads to one of the
// outcomes.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"type":"result","is_error":true,"result":"API Error: 400 x","num_turns":2}`), 1)
	f.Add([]byte("{\"type\":\n\x00\xff{}"), 139)
	f.Fuzz(func(t *testing.T, log []byte, code int) {
		r := harness.Report{Outcome: harness.Crashed}
		read(harness.Log{Head: log, Tail: log, Said: log}, sandbox.Exit{Code: code}, &r)
		switch r.Outcome {
		case harness.Finished, harness.GaveUp, harness.MaxTurns, harness.ContextExhausted, harness.Refused, harness.Crashed, harness.Unreachable:
		default:
			t.Errorf("outcome %q of %q", r.Outcome, log)
		}
	})
}
