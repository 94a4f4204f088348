// Package sglang is a client of SGLang's native /generate endpoint and of the
// endpoints around it, directly or through a router.
package sglang

import "encoding/json"

// A Request is one generation.
type Request struct {
	InputIDs   []int32
	Sampling   map[string]any // SGLang's own names, sent as they are
	RoutingKey string         // the same for all turns of a session, so that a router keeps them on one worker
}

// A Response is the engine's whole answer.
type Response struct {
	OutputIDs     []int32   // from output_token_logprobs: what was really sampled, stop token included
	LogProbs      []float32 // of OutputIDs
	Finish        Finish
	WeightVersion string
	PromptTokens  int
	CachedTokens  int
	Meta          json.RawMessage // meta_info as it came
}

// A Finish says why a generation ended.
type Finish struct {
	Type    string          // "stop", "length" or "abort"
	Matched json.RawMessage // stop token id or stop string; nil when there is none
	Message string          // of an abort
}
