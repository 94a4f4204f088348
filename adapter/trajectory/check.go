package trajectory

import (
	"errors"
	"fmt"
	"math"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A Reason is a code that says why a segment must not be trained.
type Reason string

// Reasons of invariants, in the order in which they are checked.
const (
	ReasonShape        Reason = "shape"             // no tokens, no turns, an unknown policy, label or finish
	ReasonLength       Reason = "length"            // mask or logprobs are not as long as the response part
	ReasonToken        Reason = "token"             // a token id is negative
	ReasonTurns        Reason = "turns"             // turns overlap, leave the tokens, come twice
	ReasonMask         Reason = "mask"              // a mask value that is neither 0 nor 1
	ReasonOwner        Reason = "owner"             // an output is trained in part, or not as its owner says
	ReasonUnsampled    Reason = "mask_unsampled"    // mask 1 on a token that was not sampled
	ReasonCounts       Reason = "counts"            // owned and shared are not what mask and turns say
	ReasonNothing      Reason = "nothing_trained"   // no token is trained
	ReasonStrayLogProb Reason = "logprob_unsampled" // a logprob on a token that is not trained
	ReasonLogProb      Reason = "logprob"           // not finite, or more than 1e-4 above 0
	ReasonSentinel     Reason = "logprob_sentinel"  // an engine's error value instead of a logprob
	ReasonNoLogProb    Reason = "logprob_missing"   // a trained turn for which the engine gave no logprobs
	ReasonPrompt       Reason = "prompt_mismatch"   // the tokens before an output are not what the engine was given
	ReasonOutput       Reason = "output_mismatch"   // an output, its logprobs or versions are not what the engine gave
	ReasonVersions     Reason = "version_spans"     // weight versions overlap or leave what was sampled
	ReasonAbort        Reason = "abort_as_finished" // an abort is trained, or not shown as one
	ReasonFlags        Reason = "flags"             // truncated, use_tool, ill_formed or flags are not what the turns say
	ReasonPlace        Reason = "place"             // index, count, parent, branch, split or weight out of range
	ReasonDigest       Reason = "digest"            // something was changed after export
	ReasonTwice        Reason = "trained_twice"     // two segments of a session own one turn
)

// Reasons of segments that are right and still not to be trained.
const (
	ReasonTooLong  Reason = "over_max_tokens" // the first turn, or all that is its own, lies beyond the limit
	ReasonSideCall Reason = "sidecall"
	ReasonSubagent Reason = "subagent"
)

// A CheckError says which invariant a segment breaks, and where.
type CheckError struct {
	Reason Reason
	Turn   string // id; "" when it is not one turn's
	Token  int    // offset in the segment's Tokens; -1 when it is not one token's
	Detail string
}

func (e *CheckError) Error() string {
	s := "segment: " + string(e.Reason)
	if e.Turn != "" {
		s += fmt.Sprintf(": turn %q", e.Turn)
	}
	if e.Token >= 0 {
		s += fmt.Sprintf(": token %d", e.Token)
	}
	return s + ": " + e.Detail
}

func broken(r Reason, turn string, token int, format string, args ...any) error {
	return &CheckError{Reason: r, Turn: turn, Token: token, Detail: fmt.Sprintf(format, args...)}
}

// CheckSegment verifies every invariant of an exported segment, in the order
// of the Reason constants, and returns a *CheckError for the first that it
// breaks. What it needs is in the segment alone, so that a trainer can check
// what it has read from a file. It is always run at export; a segment that
// fails there carries the reason in Untrained (under Canonical in Verdict only).
func CheckSegment(s Segment) error {
	if err := checkContents(&s); err != nil {
		return err
	}
	if got := digest(&s); s.Digest != got || got == "" {
		return broken(ReasonDigest, "", -1, "%s, and the contents have %s", s.Digest, got)
	}
	return nil
}

// CheckSegments verifies each segment of one session, and that no turn is
// trained in two of them and the weights sum to 1 (or are all 0).
func CheckSegments(segments []Segment) error {
	owner := map[string]int{}
	sum := 0.0
	for i := range segments {
		s := &segments[i]
		if err := CheckSegment(*s); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
		if s.Index != i || s.Count != len(segments) {
			return broken(ReasonPlace, "", -1, "segment %d of %d says %d of %d", i, len(segments), s.Index, s.Count)
		}
		for _, t := range s.Turns {
			if first, ok := owner[t.ID]; ok && t.Owned {
				return broken(ReasonTwice, t.ID, -1, "segments %d and %d own it", first, i)
			}
			if t.Owned {
				owner[t.ID] = i
			}
		}
		sum += s.Weight
	}
	if sum != 0 && math.Abs(sum-1) > 1e-9 {
		return broken(ReasonPlace, "", -1, "the weights sum to %g", sum)
	}
	return nil
}

// seal checks, weighs, numbers and signs what a session exports.
func (t *Tree) seal(segments []Segment) {
	total := 0
	for i := range segments {
		s := &segments[i]
		s.Index, s.Count = i, len(segments)
		s.Owned, s.Shared = ownership(s)
		t.exclude(s)
		if s.Untrained == "" {
			total += s.Owned
		}
	}
	for i := range segments {
		s := &segments[i]
		if s.Untrained == "" && total > 0 {
			s.Weight = float64(s.Owned) / float64(total)
		}
		s.Digest = digest(s)
	}
}

// exclude says why s must not be trained, if so.
func (t *Tree) exclude(s *Segment) {
	switch {
	case s.Untrained != "":
	case s.Label == chat.SideCall && !t.opts.TrainSideCalls:
		s.Untrained = string(ReasonSideCall)
	case s.Label == chat.Subagent && t.opts.SkipSubagents:
		s.Untrained = string(ReasonSubagent)
	}
	var failed *CheckError
	if !errors.As(checkContents(s), &failed) {
		return
	}
	s.Verdict = string(failed.Reason)
	if t.opts.Policy == Exact {
		s.Untrained = s.Verdict
	}
}

// ownership counts the sampled tokens with mask 1 and with mask 0.
func ownership(s *Segment) (owned, shared int) {
	for _, m := range s.LossMask {
		if m == 1 {
			owned++
		}
	}
	for _, t := range s.Turns {
		if !t.Owned {
			shared += t.Output
		}
	}
	return owned, shared
}
