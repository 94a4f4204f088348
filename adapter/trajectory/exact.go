package trajectory

import (
	"encoding/hex"
	"slices"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// exactSegments makes one segment of each chain of turns that continue each
// other id for id.
func (t *Tree) exactSegments(maxTokens int) []Segment {
	var segments []Segment
	held := map[*turn]int{} // the segment that holds a turn first
	for i, chain := range t.chains() {
		s := t.exactSegment(chain, held, maxTokens)
		if i > 0 {
			t.explain(&s, segments, chain, held)
		}
		holdAll(held, chain, i)
		segments = append(segments, s)
	}
	return segments
}

// chains returns the chains of turns in export order: the first that holds a
// turn of the main agent, then by the first turn that no earlier one holds.
func (t *Tree) chains() [][]*turn {
	var chains [][]*turn
	for _, turn := range t.turns {
		if turn.parent == nil && !turn.superseded() {
			chains = turn.appendChains(chains)
		}
	}
	first := map[*turn]int{} // number of the chain, depth first, that holds a turn first
	for i, chain := range chains {
		holdAll(first, chain, i)
	}
	born := func(i int) int {
		at := slices.IndexFunc(chains[i], func(turn *turn) bool { return first[turn] == i })
		return chains[i][at].seq
	}
	main := slices.IndexFunc(chains, func(chain []*turn) bool {
		return slices.ContainsFunc(chain, func(turn *turn) bool { return turn.kind == chat.Main })
	})
	order := make([]int, len(chains))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if a == main || b == main {
			return boolOrder(a == main, b == main)
		}
		return born(a) - born(b)
	})
	sorted := make([][]*turn, len(chains))
	for i, from := range order {
		sorted[i] = chains[from]
	}
	return sorted
}

// boolOrder puts true before false.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// appendChains appends the chains through t, depth first.
func (t *turn) appendChains(chains [][]*turn) [][]*turn {
	n := len(chains)
	for _, k := range t.kids {
		if !k.superseded() {
			chains = k.appendChains(chains)
		}
	}
	if len(chains) > n {
		return chains
	}
	var chain []*turn
	for ; t != nil; t = t.parent {
		chain = append(chain, t)
	}
	slices.Reverse(chain)
	return append(chains, chain)
}

// superseded reports whether the client asked the same again and nothing
// continues this answer: it was handed over whole, and not used.
func (t *turn) superseded() bool {
	if len(t.node.children) > 0 {
		return false
	}
	return slices.ContainsFunc(t.node.parent.children, func(n *node) bool {
		return n.turn != nil && n.turn.seq > t.seq && n.turn.tools == t.tools && n.turn.kind == t.kind && n.turn.agent == t.agent
	})
}

// dropped reports whether the client went on from the turn's prompt as if it
// had not been answered.
func (t *turn) dropped() bool {
	return len(t.node.children) == 0 && slices.ContainsFunc(t.node.parent.children, func(n *node) bool {
		return n.turn == nil && n.through.seq > t.seq
	})
}

// exactSegment lays a chain out; it trains what no earlier segment holds and
// may be trained at all.
func (t *Tree) exactSegment(chain []*turn, held map[*turn]int, maxTokens int) Segment {
	fit := len(chain)
	for maxTokens > 0 && fit > 1 && chain[fit-1].full().n > maxTokens {
		fit--
	}
	ids := chain[fit-1].full().ids()
	b := &builder{
		prompt: chain[0].prompt,
		tokens: make([]int32, 0, len(ids)), mask: make([]int8, 0, len(ids)), logProbs: make([]float32, 0, len(ids)),
	}
	for _, turn := range chain[:fit] {
		_, shared := held[turn]
		b.pad(ids[len(b.tokens):turn.prompt])
		b.answer(turn, ids[turn.prompt:turn.prompt+turn.output], !shared && t.trains(turn))
	}
	s := b.plain()
	s.Policy, s.Label, s.CutTurns = policyExact, labelOf(chain, held), len(chain)-fit
	for _, turn := range s.Turns {
		s.UseTool = s.UseTool || turn.UseTool
		s.IllFormed = s.IllFormed || turn.IllFormed
	}
	s.Truncated = s.Turns[fit-1].Finish != chat.FinishStop
	if maxTokens > 0 && (len(s.Tokens) > maxTokens || s.CutTurns > 0 && !b.trains()) {
		s.Untrained = string(ReasonTooLong)
	}
	s.Flags = flagsOf(&s, map[string]bool{FlagDropped: chain[len(chain)-1].dropped()})
	return s
}

// trains reports whether a turn may be trained: an abort was not the model's
// doing, and a side call is not its task.
func (t *Tree) trains(turn *turn) bool {
	return turn.finish != chat.FinishAbort && (turn.kind != chat.SideCall || t.opts.TrainSideCalls)
}

// labelOf is main where a turn of the main agent is held first by this chain,
// else the kind of the first turn that is.
func labelOf(chain []*turn, held map[*turn]int) chat.Kind {
	own := slices.DeleteFunc(slices.Clone(chain), func(t *turn) bool { _, shared := held[t]; return shared })
	if len(own) == 0 {
		return chain[len(chain)-1].kind
	}
	if slices.ContainsFunc(own, func(t *turn) bool { return t.kind == chat.Main }) {
		return chat.Main
	}
	return own[0].kind
}

// inSegment is the turn as a segment lists it.
func (t *turn) inSegment(owned bool) SegmentTurn {
	return SegmentTurn{
		ID: t.id, Kind: t.kind, Agent: t.agent, Prompt: t.prompt, Output: t.output,
		PromptHash: hex.EncodeToString(t.promptSum[:]), OutputHash: hex.EncodeToString(t.outputSum[:]),
		Owned: owned, Finish: t.finish, IllFormed: t.illFormed, UseTool: t.useTool,
		NoLogProbs: len(t.logProbs) < t.output, Cached: t.cached, Start: t.start, End: t.end,
	}
}

// flagsOf returns what a person should know of s; told says what s itself
// can't show.
func flagsOf(s *Segment, told map[string]bool) []string {
	mixed, returned := versionHistory(s.Versions)
	aborted := slices.ContainsFunc(s.Turns, func(t SegmentTurn) bool { return t.Finish == chat.FinishAbort })
	is := map[string]bool{
		FlagVersions: mixed, FlagVersionReturned: returned, FlagAborted: aborted, FlagCut: s.CutTurns > 0,
		FlagDropped: told[FlagDropped], FlagRealigned: told[FlagRealigned],
	}
	var flags []string
	for _, name := range []string{FlagVersions, FlagVersionReturned, FlagAborted, FlagCut, FlagDropped, FlagRealigned} {
		if is[name] {
			flags = append(flags, name)
		}
	}
	return flags
}

// versionHistory reports whether there is more than one weight version, and
// whether one came back after another.
func versionHistory(spans []Span) (mixed, returned bool) {
	seen := map[string]bool{}
	for i, s := range spans {
		if i > 0 && spans[i-1].Version == s.Version {
			continue
		}
		returned = returned || seen[s.Version]
		seen[s.Version] = true
	}
	return len(seen) > 1, returned
}
