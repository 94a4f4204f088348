// Package parse reads what a model wrote: reasoning, text and tool calls, in
// the formats of SGLang's parsers, flagged and without loss.
package parse

import (
	"encoding/json"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// Mode says what becomes of malformed calls.
type Mode int

const (
	Strict Mode = iota // withhold what is malformed, keep every byte
	Compat             // return exactly the calls that SGLang returns
)

// A Flag names something about a call or a result that a trainer should know.
type Flag string

// A Call is one tool call.
type Call struct {
	Name  string
	Args  json.RawMessage // key order and number spelling kept
	Raw   string          // the call as the model wrote it
	Flags []Flag
}

// An Input is one sampled text.
type Input struct {
	Text       string
	Tools      []chat.Tool
	PromptTail string           // the end of the rendered prompt: says whether a thought is open
	Cut        bool             // the generation ended by length or abort
	IDs        []int32          // the sampled ids, for formats that are read token by token
	Specials   map[int32]string // the special tokens among them
}

// A Result is what an Input says.
type Result struct {
	Reasoning string
	Text      string
	Calls     []Call // in strict mode without those that hard flags withhold
	Withheld  []Call // strict mode: malformed calls, in order
	Flags     []Flag
	Residue   string // what is none of the above
}

// IllFormed reports whether the output breaks its format.
func (r Result) IllFormed() bool { panic("sketch") }
