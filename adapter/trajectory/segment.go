package trajectory

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A Segment is one token sequence to train on. Its JSON names are stable; all
// of it but Text is under its proof.
type Segment struct {
	Tokens    []int32   `json:"tokens"`
	LossMask  []int8    `json:"loss_mask"`           // of the response part: without the first prompt
	LogProbs  []float32 `json:"log_probs"`           // of the response part; 0 where nothing was sampled
	Text      string    `json:"text,omitempty"`      // the response part, decoded; filled by the adapter, not under the proof: nothing is trained on it
	Label     chat.Kind `json:"label"`               // "main" in JSON for chat.Main
	Untrained string    `json:"untrained,omitempty"` // why it must not be trained, a Reason; "" means trainable
	Verdict   string    `json:"verdict,omitempty"`   // what CheckSegment found at export, a Reason; under Canonical reported only

	Truncated bool          `json:"truncated"` // the last turn was cut: by length or by an abort
	UseTool   bool          `json:"use_tool"`
	IllFormed bool          `json:"ill_formed"`
	Turns     []SegmentTurn `json:"turns"`              // in order
	Versions  []Span        `json:"versions,omitempty"` // over Tokens; ranges that were sampled under a known version
	Flags     []string      `json:"flags,omitempty"`    // what a person should know: the Flag constants, each once, in their order
	CutTurns  int           `json:"cut_turns"`          // turns left out at the end for maxTokens

	Policy    string  `json:"policy"`          // "exact" or "canonical"
	PromptLen int     `json:"prompt_len"`      // tokens of the first prompt; len(Tokens)-PromptLen is negative where Canonical cut inside it
	Index     int     `json:"index"`           // of Count segments, in export order
	Count     int     `json:"count"`           // segments that the session has, untrained ones too
	Weight    float64 `json:"weight"`          // its share of the trained tokens: sums to 1 over a session's trainable segments, 0 in others
	Owned     int     `json:"owned"`           // sampled tokens with mask 1
	Shared    int     `json:"shared"`          // sampled tokens that are context here: an earlier segment owns them, or their turn was aborted
	Parent    int     `json:"parent"`          // index of the segment that it branched from; -1 for none
	Branch    int     `json:"branch"`          // leading tokens that it has in common with the parent
	Split     *Split  `json:"split,omitempty"` // why it is a segment of its own; nil for the first
	Digest    string  `json:"digest"`          // hash of all of the above but Text
}

// A SegmentTurn is one turn in a segment: where it lies, how it went, and the
// proof that the segment holds what the engine was given and gave. PromptHash
// is as of the function of that name. OutputHash is the SHA-256 of the ids
// sampled and of the bits of their logprobs, as little-endian 32 bits, and for
// each weight version of its range in the output likewise, its name and a
// zero byte.
type SegmentTurn struct {
	ID         string    `json:"id"`
	Kind       chat.Kind `json:"kind,omitempty"`
	Agent      string    `json:"agent,omitempty"`
	Prompt     int       `json:"prompt_tokens"` // the engine was given Tokens[:Prompt]
	Output     int       `json:"output_tokens"` // and sampled as many after them
	PromptHash string    `json:"prompt_hash"`   // of the ids that the engine was given
	OutputHash string    `json:"output_hash"`   // of what it sampled
	Owned      bool      `json:"owned"`         // it is trained in this segment
	Finish     string    `json:"finish"`        // chat.FinishStop, chat.FinishLength or chat.FinishAbort
	IllFormed  bool      `json:"ill_formed,omitempty"`
	UseTool    bool      `json:"use_tool,omitempty"`
	NoLogProbs bool      `json:"no_log_probs,omitempty"` // the engine gave none
	Cached     int       `json:"cached_tokens"`          // tokens of the prompt that the engine had cached
	Start      time.Time `json:"start"`
	End        time.Time `json:"end"`
}

// Cause classes of a Split.
const (
	CauseClientEdit = "client_edit" // the client sent another history than it got, or other tools
	CauseCompaction = "compaction"  // the client summed the history up
	CauseSubagent   = "subagent"    // another agent's conversation
	CauseSideCall   = "sidecall"    // a title, a probe
	CauseDrift      = "drift"       // the same messages came out as other ids within sampled text
	CauseTemplate   = "template"    // the same messages came out as other ids outside sampled text
	CauseRetry      = "retry"       // the same prompt was answered twice, and both answers count
)

// A Split says why a segment is one of its own: what its first own prompt has
// otherwise than its parent segment.
type Split struct {
	Cause   string `json:"cause"`           // one of the Cause constants
	Turn    string `json:"turn"`            // the first turn that is only here
	After   string `json:"after,omitempty"` // the last turn that both have, or that the parent had made by then
	Message int    `json:"message"`         // index of the first message that differs; -1 when none does
	Field   string `json:"field,omitempty"` // role, content, reasoning, tool_calls, tools; "missing" or "added" when one history ends there
	Token   int    `json:"token"`           // offset of the first token that differs
}

// Flags of a Segment.
const (
	FlagVersions        = "weight_versions_mixed"   // more than one weight version sampled it
	FlagVersionReturned = "weight_version_returned" // a weight version came back after another
	FlagAborted         = "aborted"                 // it holds a turn that the engine aborted; that turn is context, not trained
	FlagCut             = "cut"                     // turns were left out for the token limit
	FlagDropped         = "dropped"                 // the client went on without its last turn
	FlagRealigned       = "realigned"               // canonical: a response was replaced by what a later prompt made of it
)

// ResponseLength is the response part's length in tokens as slime counts it;
// negative where Canonical cut inside the first prompt.
func (s Segment) ResponseLength() int { return len(s.Tokens) - s.PromptLen }

// plainSegment is Segment without its methods.
type plainSegment Segment

type segmentJSON struct {
	plainSegment
	Label    string   `json:"label"`
	LogProbs logProbs `json:"log_probs"`
}

// MarshalJSON writes the label of the main agent as "main" and a logprob that
// is no number as null.
func (s Segment) MarshalJSON() ([]byte, error) {
	out := segmentJSON{plainSegment: plainSegment(s), Label: string(s.Label), LogProbs: s.LogProbs}
	if s.Label == chat.Main {
		out.Label = "main"
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Segment) UnmarshalJSON(data []byte) error {
	var in segmentJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*s = Segment(in.plainSegment)
	s.LogProbs, s.Label = in.LogProbs, chat.Kind(in.Label)
	if in.Label == "main" {
		s.Label = chat.Main
	}
	return nil
}

// logProbs are float32 in JSON, null for what JSON has no number for.
type logProbs []float32

func (l logProbs) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("null"), nil
	}
	out := []byte{'['}
	for i, f := range l {
		if i > 0 {
			out = append(out, ',')
		}
		if wide := float64(f); math.IsNaN(wide) || math.IsInf(wide, 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, wide, 'g', -1, 32)
		}
	}
	return append(out, ']'), nil
}
