package harness

import "strings"

// OutcomeOf reads what a CLI says of the request that ended its run: the words
// of the adapter, passed on, or the CLI's own for a request that got no answer.
// GaveUp is what none of them is known to mean.
func OutcomeOf(message string) Outcome {
	text := strings.ToLower(message)
	for _, known := range words {
		for _, w := range known.words {
			if strings.Contains(text, w) {
				return known.outcome
			}
		}
	}
	return GaveUp
}

// words are looked for in this order: the adapter's own come first, since a
// status beside them says less.
var words = []struct {
	outcome Outcome
	words   []string
}{
	{MaxTurns, []string{"session's budget of"}},
	{ContextExhausted, []string{"too long", "context length", "context_length_exceeded", "ran out of room", "context window"}},
	{Refused, []string{"no session has this token", "the session has failed", "content_filter", "safety classifier"}},
	{Unreachable, []string{
		"unable to connect", "connection error", "connection refused", "connection failed", "connection reset", "connectionrefused", "econnre", "etimedout",
		"enotfound", "eai_again", "socket", "fetch failed", "error sending request", "stream disconnected", "exceeded retry limit", "timed out",
		"status 5", "api error: 5", "api error: 429", "http 5", "503", "502", "504", "the engine is not available",
	}},
	{Refused, []string{"status 40", "api error: 40", "http 40", "400", "401", "403", "invalid_request", "bad request"}},
}
