package harness

import (
	"regexp"
	"strings"
)

// OutcomeOf reads what a CLI says of the request that ended its run: the words
// of the adapter, passed on, or the CLI's own for a request that got no answer.
// GaveUp is what none of them is known to mean.
func OutcomeOf(message string) Outcome {
	text := strings.ToLower(message)
	if o := saidBy(text, answers); o != "" {
		return o
	}
	if m := status.FindStringSubmatch(text); m != nil {
		if m[1][0] == '5' || m[1] == "429" || m[1] == "408" {
			return Unreachable
		}
		return Refused
	}
	if o := saidBy(text, noAnswers); o != "" {
		return o
	}
	switch code := bareStatus.FindString(text); {
	case code == "":
		return GaveUp
	case code[0] == '5':
		return Unreachable
	}
	return Refused
}

// meaning are words and what they mean for a run.
type meaning struct {
	outcome Outcome
	words   []string
}

func saidBy(text string, meanings []meaning) Outcome {
	for _, m := range meanings {
		for _, w := range m.words {
			if strings.Contains(text, w) {
				return m.outcome
			}
		}
	}
	return ""
}

// answers are words of the adapter's, and the CLIs' own for its answers. They
// come before a status, which says less, and in this order.
var answers = []meaning{
	{MaxTurns, []string{"session's budget of"}},
	{ContextExhausted, []string{"too long", "context length", "context_length_exceeded", "ran out of room", "context window"}},
	{Refused, []string{"no session has this token", "the session has failed", "content_filter", "safety classifier", "too large", "body is larger than"}},
	{Unreachable, []string{"the engine is not available"}},
}

// A status is one that a CLI calls so, or that its message begins with: what an
// answer says of sockets and times does not make it a lost connection. A bare
// one may stand anywhere, as a word of its own.
var (
	status     = regexp.MustCompile(`(?:status(?: code)?:? |api error: |http |^)([45]\d\d)\b`)
	bareStatus = regexp.MustCompile(`\b(?:40[013]|50[234])\b`)
)

// noAnswers are what CLIs say of requests without a status.
var noAnswers = []meaning{
	{Refused, []string{"invalid_request", "bad request", "permission_error"}},
	{Unreachable, []string{
		"unable to connect", "connection error", "connection refused", "connection failed", "connection reset", "connectionrefused", "econnre", "etimedout",
		"enotfound", "eai_again", "socket", "fetch failed", "error sending request", "stream disconnected", "exceeded retry limit", "timed out",
	}},
}
