package pi

import (
	"net/http/httptest"
	"testing"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local/localtest"
)

// TestLongConversation: pi's last event repeats all of it, and is longer than
// what is read of a log's end.
func TestLongConversation(t *testing.T) {
	const script = `for n in 1 2 3; do
	echo '{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"toolUse"}}'
	echo '{"type":"message_end","message":{"role":"toolResult","content":[]}}'
done
echo '{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"stop"}}'
printf '{"type":"agent_end","messages":[{"role":"user","content":"'; head -c 3000000 /dev/zero | tr '\0' x; echo '"}]}'`
	sb := localtest.Boot(t, harnesstest.StandIn(t, "pi", script)+":/usr/local/bin:/usr/bin:/bin", sandbox.Spec{})
	h, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Install(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	adapter := httptest.NewServer(nil)
	t.Cleanup(adapter.Close)
	report, err := h.Run(t.Context(), sb, harness.Job{Workdir: "/tmp", Prompt: "x", BaseURL: adapter.URL, Token: "secret", Model: "policy"})
	if err != nil || report.Outcome != harness.Finished || report.Turns != 4 {
		t.Errorf("Run: %v, outcome %s, %d turns; want finished after 4", err, report.Outcome, report.Turns)
	}
}
