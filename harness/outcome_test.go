package harness_test

import (
	"testing"

	"github.com/agentrl-go/agentrl/harness"
)

func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		message string
		want    harness.Outcome
	}{
		{"API Error: 400 the session's budget of 503 turns is spent", harness.MaxTurns},
		{"400 This model's maximum context length is 99 tokens. However, your messages resulted in 2088 tokens.", harness.ContextExhausted},
		{"Codex ran out of room in the model's context window.", harness.ContextExhausted},
		{"Failed to authenticate. API Error: 403 no session has this token, or it is over", harness.Refused},
		{`{"error":{"code":"session_unknown","message":"no session has this token, or it is over"}}`, harness.Refused},
		{`API Error: 400 {"error":{"message":"tool \"websocket\" timed out"},"request_id":"req_503"}`, harness.Refused},
		{"API Error: 400 max_tokens: 503 is less than 504", harness.Refused},
		{`unexpected status 400 Bad Request: messages.502 has no content`, harness.Refused},
		{`{"error":{"message":"the schema of open_socket is wrong","type":"invalid_request_error"}}`, harness.Refused},
		{"Request too large (max 32MB). Double press esc to go back and try with a smaller file.", harness.Refused},
		{"413 the body is larger than 33554432 bytes", harness.Refused},
		{"404 no such path: /v1/files", harness.Refused},
		{"API Error: 529 overloaded", harness.Unreachable},
		{"API Error: 503 the engine is not available", harness.Unreachable},
		{"exceeded retry limit, last status: 429 Too Many Requests", harness.Unreachable},
		{"429 slow down", harness.Unreachable},
		{"HTTP 500: oops", harness.Unreachable},
		{"APIError: Bad Gateway (502)", harness.Unreachable},
		{"Connection error.", harness.Unreachable},
		{"stream disconnected before completion: error sending request for url (http://h:1/v1/responses)", harness.Unreachable},
		{"read 14003 of 45031 lines, request 1a503b", harness.GaveUp},
		{"Claude's response exceeded the 8192 output token maximum.", harness.GaveUp},
		{"", harness.GaveUp},
	} {
		if got := harness.OutcomeOf(c.message); got != c.want {
			t.Errorf("OutcomeOf(%q) = %s, want %s", c.message, got, c.want)
		}
	}
}
