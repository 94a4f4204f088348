// Package sglang is a client of SGLang's native /generate endpoint and of the
// endpoints around it, directly or through a router. Facts about the protocol
// are those of sglang 0.5.15 and sgl-model-gateway 0.3.2.
package sglang

import (
	"encoding/json"
	"fmt"
)

// A Request is one generation. It is not changed, and nothing but Known is kept.
type Request struct {
	InputIDs   []int32
	Known      []int32        // what InputIDs begins with and an earlier request may have too, whose text Text then holds; kept by Text, must not change; nil for none
	Text       *Text          // of the session; nil: all ids are written anew
	Sampling   map[string]any // SGLang's own names, sent as they are
	RoutingKey string         // the same for all turns of a session, so that a router keeps them on one worker; "" for none
	DPRank     *int           // data-parallel rank that is to serve it; nil lets the engine choose; routers drop it

	// Extra holds further top-level fields, such as "return_routed_experts".
	Extra map[string]any
	// Want names fields of meta_info that must be in the answer. A router or a
	// server without the feature leaves them out silently; that is an error here.
	Want []string
	// Interrupt, when closed, ends the generation in the engine. Generate then
	// returns what was sampled so far, finished by "abort".
	Interrupt <-chan struct{}
}

// A Response is the engine's whole answer.
type Response struct {
	OutputIDs     []int32   // from output_token_logprobs: what was really sampled, stop token included
	LogProbs      []float32 // of OutputIDs
	Finish        Finish
	WeightVersion string // of the weights when the answer was built
	PromptTokens  int    // 0 when the engine did not say
	CachedTokens  int
	DPRank        *int            // data-parallel rank that served it; nil when the engine did not say
	Meta          json.RawMessage // meta_info as it came; big, not to be kept
}

// A Finish says why a generation ended.
type Finish struct {
	Type    string          // "stop", "length" or "abort"
	Matched json.RawMessage // stop token id or stop string; nil when there is none
	Message string          // of an abort
}

// StopID returns the id of the stop token that ended the generation.
func (f Finish) StopID() (id int32, ok bool) {
	if f.Type != "stop" || len(f.Matched) == 0 {
		return 0, false
	}
	err := json.Unmarshal(f.Matched, &id)
	return id, err == nil && string(f.Matched) != "null"
}

// StopString returns the stop string that ended the generation.
func (f Finish) StopString() (s string, ok bool) {
	if f.Type != "stop" || len(f.Matched) == 0 {
		return "", false
	}
	err := json.Unmarshal(f.Matched, &s)
	return s, err == nil && string(f.Matched) != "null"
}

// Kind says what went wrong, and so whose fault it is.
type Kind int

const (
	Unavailable  Kind = iota // no answer, or one that says "later", after all attempts
	Rejected                 // the engine refused the request: it is wrong, and trying again is too
	TooLong                  // the prompt exceeds what the engine can take
	Failed                   // the engine broke on the request
	BadOutput                // the answer contradicts itself or lacks what was asked for
	Unauthorized             // credentials are missing or wrong
	Aborted                  // the engine keeps aborting what it is given
)

func (k Kind) String() string {
	return [...]string{"unavailable", "rejected", "too long", "failed", "bad output", "unauthorized", "aborted"}[k]
}

// An Error is what Generate returns when the engine gave no usable answer.
type Error struct {
	Kind     Kind
	Status   int    // HTTP status; 0 when there was no HTTP response
	Message  string // the engine's own words, or what contradicts
	Limit    int    // of TooLong: the model's context length in tokens, when the engine names it
	Attempts int    // how many times the request was posted
	Err      error  // the transport's error; nil when there was a response
}

func (e *Error) Error() string {
	text := "engine " + e.Kind.String()
	if e.Status != 0 {
		text += fmt.Sprintf(": status %d", e.Status)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Attempts > 1 {
		text += fmt.Sprintf(" (%d attempts)", e.Attempts)
	}
	return text
}

// Unwrap returns the transport's error.
func (e *Error) Unwrap() error { return e.Err }
