package adapter_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

// TestStopSequenceIsNamed where it is the client's, not where the trainer set it.
func TestStopSequenceIsNamed(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"the client's", "one STOP two", `"stop_reason":"stop_sequence","stop_sequence":"STOP"`},
		{"the trainer's", "one HALT two", `"stop_reason":"end_turn","stop_sequence":null`},
		{"none", "one two", `"stop_reason":"end_turn","stop_sequence":null`},
		{"a call before it", callText("bash", `{}`) + "STOP", `"stop_reason":"tool_use","stop_sequence":null`},
	} {
		for _, stream := range []bool{true, false} {
			r := newRig(t, sglangtest.Options{Policy: say(c.text)})
			ses := r.open("s", adapter.SessionOptions{Sampling: map[string]any{"stop": "HALT"}})
			status, body, err := r.postTo(context.Background(), "/v1/messages", ses.Token,
				map[string]any{"stream": stream, "messages": []any{user("x")}, "stop_sequences": []string{"STOP"}})
			if status != 200 || err != nil || !strings.Contains(string(body), c.want) || strings.Contains(string(body), "two") != (c.name == "none") {
				t.Errorf("%s, stream %v: status %d, %v, body %s; want %s", c.name, stream, status, err, body, c.want)
			}
		}
	}
}
