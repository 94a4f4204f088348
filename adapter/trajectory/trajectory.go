// Package trajectory turns the turns of a session into token sequences to
// train on. It is a leaf: the adapter renders and encodes; the tree says from
// where, and proves afterwards that what is trained is what was conditioned on.
package trajectory

import (
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// Policy says how a turn's prompt is made and how turns become segments.
type Policy int

const (
	Exact     Policy = iota // continue from the very ids of the turn before
	Canonical               // render everything each time, repair on export
)

// Options of a Tree.
type Options struct {
	Policy        Policy
	ForkThreshold int // tokens, of Canonical; 0 means 1024, negative switches merge and realign off
}

// A Turn is one recorded turn.
type Turn struct {
	ID        string
	Prompt    []chat.Message // as the client sent it, decoded
	Tools     []chat.Tool
	Echo      chat.Message // as this client will send the answer back
	PromptIDs []int32      // exactly what the engine was given
	OutputIDs []int32      // exactly what the engine sampled, stop token included
	LogProbs  []float32    // of OutputIDs; empty when the engine gave none
	Finish    string       // chat.FinishStop, chat.FinishLength or chat.FinishAbort
	IllFormed bool         // the output held a malformed call or thought
	Kind      chat.Kind
	Agent     string
	Versions  []Span // weight versions of OutputIDs
	Cached    int    // prompt tokens that the engine had cached
	Start     time.Time
	End       time.Time
}

// A Span says which weights sampled a range of tokens.
type Span struct {
	From, To int // half-open, within the turn's OutputIDs or the segment's Tokens
	Version  string
}

// A Continuation says what the prompt of a request begins with.
type Continuation struct {
	IDs    []int32 // exact ids up to and including the generated turn that is continued; nil: render everything
	From   int     // index in the request's messages of the first that IDs does not cover
	Finish string  // how that turn ended
	Turn   string  // its id
}

// A Segment is one token sequence to train on.
type Segment struct {
	Tokens    []int32
	LossMask  []int8    // of the response part: without the first prompt
	LogProbs  []float32 // of the response part
	Text      string    // the response part, decoded; filled by the adapter
	Label     chat.Kind
	Untrained string // why it must not be trained; "" means trainable

	Truncated bool // the last turn was cut by length
	UseTool   bool
	IllFormed bool
	Turns     []string // ids of the turns in it, in order
	Versions  []Span   // over Tokens
}
