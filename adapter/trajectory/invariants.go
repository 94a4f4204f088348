package trajectory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

const (
	maxLogProb      = 1e-4  // rounding in the engine may lift a logprob of 0 this far
	sentinelLogProb = -1000 // engines mark an error with -9999 and the like; no sampled token comes near
)

// checkContents verifies all but the digest. Each check may rely on those
// before it.
func checkContents(s *Segment) error {
	for _, check := range []func(*Segment) error{
		checkShape, checkTokens, checkTurns, checkMask, checkLogProbs,
		checkPrompts, checkOutputs, checkVersions, checkAborts, checkFlags, checkPlace,
	} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func checkShape(s *Segment) error {
	switch {
	case len(s.Tokens) == 0 || len(s.Turns) == 0:
		return broken(ReasonShape, "", -1, "%d tokens, %d turns", len(s.Tokens), len(s.Turns))
	case s.Policy != policyExact && s.Policy != policyCanonical:
		return broken(ReasonShape, "", -1, "policy %q", s.Policy)
	case !slices.Contains([]chat.Kind{chat.Main, chat.Subagent, chat.Compaction, chat.SideCall}, s.Label):
		return broken(ReasonShape, "", -1, "label %q", s.Label)
	case s.PromptLen <= 0 || s.PromptLen > len(s.Tokens) || s.PromptLen > s.Turns[0].Prompt ||
		s.PromptLen < s.Turns[0].Prompt && !slices.Contains(s.Flags, FlagRealigned):
		return broken(ReasonLength, "", -1, "a first prompt of %d tokens, its turn says %d, of %d in all", s.PromptLen, s.Turns[0].Prompt, len(s.Tokens))
	case len(s.LossMask) != len(s.Tokens)-s.PromptLen:
		return broken(ReasonLength, "", -1, "%d mask values for %d response tokens", len(s.LossMask), len(s.Tokens)-s.PromptLen)
	case len(s.LogProbs) != len(s.LossMask):
		return broken(ReasonLength, "", -1, "%d logprobs for %d response tokens", len(s.LogProbs), len(s.LossMask))
	}
	return nil
}

func checkTokens(s *Segment) error {
	if at := slices.IndexFunc(s.Tokens, func(id int32) bool { return id < 0 }); at >= 0 {
		return broken(ReasonToken, "", at, "id %d", s.Tokens[at])
	}
	return nil
}

func checkTurns(s *Segment) error {
	seen := map[string]bool{}
	end := 0
	for _, t := range s.Turns {
		switch {
		case t.ID == "" || seen[t.ID]:
			return broken(ReasonTurns, t.ID, -1, "an id is there once, and not empty")
		case t.Prompt < end || t.Output < 0 || t.Output > len(s.Tokens)-t.Prompt:
			return broken(ReasonTurns, t.ID, t.Prompt, "%d prompt and %d output ids, after %d, of %d", t.Prompt, t.Output, end, len(s.Tokens))
		case t.Finish != chat.FinishStop && t.Finish != chat.FinishLength && t.Finish != chat.FinishAbort:
			return broken(ReasonShape, t.ID, -1, "finish %q", t.Finish)
		}
		seen[t.ID] = true
		end = t.Prompt + t.Output
	}
	if end != len(s.Tokens) {
		return broken(ReasonTurns, "", end, "the last turn ends here, the tokens at %d", len(s.Tokens))
	}
	return nil
}

// outputOf returns the part of v, which runs beside the response, that is t's output.
func outputOf[T any](s *Segment, v []T, t *SegmentTurn) []T {
	from := t.Prompt - s.PromptLen
	return v[from : from+t.Output]
}

func checkMask(s *Segment) error {
	for i, m := range s.LossMask {
		if m != 0 && m != 1 {
			return broken(ReasonMask, "", s.PromptLen+i, "mask %d", m)
		}
	}
	trained := 0
	for i := range s.Turns {
		t := &s.Turns[i]
		for j, m := range outputOf(s, s.LossMask, t) {
			if (m == 1) != t.Owned {
				return broken(ReasonOwner, t.ID, t.Prompt+j, "mask %d, and owned is %v", m, t.Owned)
			}
			trained += int(m)
		}
	}
	owned, shared := ownership(s)
	if trained != owned {
		return broken(ReasonUnsampled, "", -1, "%d tokens with mask 1, %d of them sampled", owned, trained)
	}
	if s.Owned != owned || s.Shared != shared {
		return broken(ReasonCounts, "", -1, "owned %d and shared %d, counted %d and %d", s.Owned, s.Shared, owned, shared)
	}
	if s.Untrained == "" && owned == 0 {
		return broken(ReasonNothing, "", -1, "no token has mask 1")
	}
	return nil
}

func checkLogProbs(s *Segment) error {
	for i, f := range s.LogProbs {
		at, v := s.PromptLen+i, float64(f)
		switch {
		case s.LossMask[i] == 0 && f != 0:
			return broken(ReasonStrayLogProb, "", at, "logprob %g on a token that is not trained", v)
		case math.IsNaN(v) || math.IsInf(v, 0) || v > maxLogProb:
			return broken(ReasonLogProb, "", at, "logprob %g", v)
		case v <= sentinelLogProb:
			return broken(ReasonSentinel, "", at, "logprob %g", v)
		}
	}
	for _, t := range s.Turns {
		if t.Owned && t.NoLogProbs && t.Output > 0 {
			return broken(ReasonNoLogProb, t.ID, t.Prompt, "the engine gave none for %d trained tokens", t.Output)
		}
	}
	return nil
}

// checkPrompts is the proof: what the engine was given for each turn is what
// the segment holds before the turn's output.
func checkPrompts(s *Segment) error {
	h := sha256.New()
	done := 0
	for _, t := range s.Turns {
		writeIDs(h, s.Tokens[done:t.Prompt])
		done = t.Prompt
		if got := hex.EncodeToString(h.Sum(nil)); got != t.PromptHash {
			return broken(ReasonPrompt, t.ID, t.Prompt, "the tokens before it hash to %s, the engine's prompt to %s", got, t.PromptHash)
		}
	}
	return nil
}

// checkOutputs compares what each trained turn sampled. A turn that is not
// trained here has no logprobs here; its ids are part of the next prompt.
func checkOutputs(s *Segment) error {
	for i := range s.Turns {
		t := &s.Turns[i]
		if !t.Owned {
			continue
		}
		logProbs := outputOf(s, s.LogProbs, t)
		if t.NoLogProbs {
			logProbs = nil
		}
		sum := outputSum(s.Tokens[t.Prompt:t.Prompt+t.Output], logProbs, spansOf(s.Versions, t))
		if got := hex.EncodeToString(sum[:]); got != t.OutputHash {
			return broken(ReasonOutput, t.ID, t.Prompt, "ids, logprobs and versions hash to %s, the engine's to %s", got, t.OutputHash)
		}
	}
	return nil
}

// spansOf returns the spans within t's output, counted from its begin.
func spansOf(spans []Span, t *SegmentTurn) []Span {
	var own []Span
	for _, s := range spans {
		if s.From >= t.Prompt && s.To <= t.Prompt+t.Output {
			own = append(own, Span{s.From - t.Prompt, s.To - t.Prompt, s.Version})
		}
	}
	return own
}

// checkVersions verifies that spans lie in order, each within one output, and
// cover an output wholly or not at all.
func checkVersions(s *Segment) error {
	spans := s.Versions
	for _, t := range s.Turns {
		at, end := t.Prompt, t.Prompt+t.Output
		for len(spans) > 0 && spans[0].From == at && spans[0].To > at && spans[0].To <= end {
			at = spans[0].To
			spans = spans[1:]
		}
		if at != t.Prompt && at != end {
			return broken(ReasonVersions, t.ID, at, "versions are known up to here only")
		}
	}
	if len(spans) > 0 {
		return broken(ReasonVersions, "", spans[0].From, "span %d to %d does not follow the one before it within one output", spans[0].From, spans[0].To)
	}
	return nil
}

func checkAborts(s *Segment) error {
	for i, t := range s.Turns {
		if t.Finish != chat.FinishAbort {
			continue
		}
		last := i == len(s.Turns)-1
		if t.Owned || last && !s.Truncated || !slices.Contains(s.Flags, FlagAborted) {
			return broken(ReasonAbort, t.ID, t.Prompt, "an aborted turn is context, shown by flag and, at the end, by truncated")
		}
	}
	return nil
}

func checkFlags(s *Segment) error {
	useTool, illFormed := false, false
	for _, t := range s.Turns {
		useTool, illFormed = useTool || t.UseTool, illFormed || t.IllFormed
	}
	truncated := s.Turns[len(s.Turns)-1].Finish != chat.FinishStop
	if s.Policy == policyCanonical { // the reference's are those of the whole path
		useTool, illFormed, truncated = useTool || s.UseTool, illFormed || s.IllFormed, s.Truncated
	}
	if s.UseTool != useTool || s.IllFormed != illFormed || s.Truncated != truncated {
		return broken(ReasonFlags, "", -1, "use_tool %v, ill_formed %v, truncated %v; the turns say %v, %v, %v",
			s.UseTool, s.IllFormed, s.Truncated, useTool, illFormed, truncated)
	}
	if s.CutTurns < 0 {
		return broken(ReasonFlags, "", -1, "%d turns cut", s.CutTurns)
	}
	told := map[string]bool{FlagDropped: slices.Contains(s.Flags, FlagDropped), FlagRealigned: slices.Contains(s.Flags, FlagRealigned)}
	if want := flagsOf(s, told); !slices.Equal(s.Flags, want) {
		return broken(ReasonFlags, "", -1, "flags %v, the turns say %v", s.Flags, want)
	}
	return nil
}

func checkPlace(s *Segment) error {
	switch {
	case s.Index < 0 || s.Index >= s.Count:
		return broken(ReasonPlace, "", -1, "segment %d of %d", s.Index, s.Count)
	case s.Parent < -1 || s.Parent >= s.Index:
		return broken(ReasonPlace, "", -1, "parent %d of segment %d", s.Parent, s.Index)
	case s.Branch < 0 || s.Branch > len(s.Tokens) || s.Parent == -1 && s.Branch != 0:
		return broken(ReasonPlace, "", s.Branch, "branch point of %d tokens, parent %d", len(s.Tokens), s.Parent)
	case (s.Split == nil) != (s.Index == 0):
		return broken(ReasonPlace, "", -1, "segment %d: the first has no reason to be split, all others have one", s.Index)
	case math.IsNaN(s.Weight) || s.Weight < 0 || s.Weight > 1 || s.Untrained != "" && s.Weight != 0:
		return broken(ReasonPlace, "", -1, "weight %g", s.Weight)
	}
	return nil
}

// digest hashes all of s but its text and the digest itself. It is empty,
// which no check lets pass, where JSON has no form for a time or the weight.
func digest(s *Segment) string {
	h := sha256.New()
	writeIDs(h, s.Tokens)
	for chunk := range slices.Chunk(s.LossMask, 4096) {
		b := make([]byte, len(chunk))
		for i, m := range chunk {
			b[i] = byte(m)
		}
		h.Write(b)
	}
	writeFloats(h, s.LogProbs)
	rest := *s
	rest.Tokens, rest.LossMask, rest.LogProbs, rest.Text, rest.Digest = nil, nil, nil, "", ""
	text, err := json.Marshal(rest)
	if err != nil {
		return ""
	}
	h.Write([]byte(lengths(s)))
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// lengths keeps the parts of the digest's input apart.
func lengths(s *Segment) string {
	text, _ := json.Marshal([]int{len(s.Tokens), len(s.LossMask), len(s.LogProbs)}) // ints always marshal
	return string(text)
}
