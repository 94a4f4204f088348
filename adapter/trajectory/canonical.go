package trajectory

import (
	"slices"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// mergeRewrite lets the client's version of a young answer take its place:
// the next message is an assistant's, n has one assistant child, and that is
// a generated leaf of fewer ids than the threshold. The leaf's turn is
// forgotten. It returns where the walk ends then.
func (t *Tree) mergeRewrite(n *node, rest []chat.Message) *node {
	if t.threshold == 0 || len(rest) == 0 || rest[0].Role != chat.Assistant {
		return n
	}
	var only *node
	for _, c := range n.children {
		if c.msg.Role != chat.Assistant {
			continue
		}
		if only != nil {
			return n
		}
		only = c
	}
	if only == nil || only.turn == nil || len(only.children) > 0 || only.turn.output >= t.threshold {
		return n
	}
	only.msg, only.turn = cloneMessage(rest[0]), nil
	t.merged++
	return only
}

// A packer exports as the seeds' system does.
type packer struct {
	threshold int // tokens
	trained   map[*turn]bool
	counts    CanonicalCounts
}

// canonicalSegments exports the paths to the leaves, depth first.
func (t *Tree) canonicalSegments(maxTokens int) ([]Segment, CanonicalCounts) {
	p := packer{threshold: t.threshold, trained: map[*turn]bool{}, counts: CanonicalCounts{Merges: t.merged}}
	var segments []Segment
	held := map[*turn]int{} // the segment that holds a turn first
	t.root.leaves(func(leaf *node) {
		path := turnsTo(leaf)
		for _, b := range p.pack(path) {
			if !b.trains() {
				continue
			}
			s := b.segment(path, held, maxTokens)
			if len(segments) > 0 {
				t.explain(&s, segments, b.held, held)
			}
			holdAll(held, b.held, len(segments))
			segments = append(segments, s)
		}
	})
	return segments, p.counts
}

// holdAll notes the turns that segment i holds first.
func holdAll(held map[*turn]int, turns []*turn, i int) {
	for _, turn := range turns {
		if _, ok := held[turn]; !ok {
			held[turn] = i
		}
	}
}

// leaves calls visit with the leaves below n, depth first.
func (n *node) leaves(visit func(*node)) {
	if len(n.children) == 0 && n.depth >= 0 {
		visit(n)
	}
	for _, c := range n.children {
		c.leaves(visit)
	}
}

// A builder is a sequence under construction. Mask and logProbs are as long
// as tokens.
type builder struct {
	tokens   []int32
	mask     []int8
	logProbs []float32
	versions []Span
	turns    []SegmentTurn
	held     []*turn // beside turns
	prompt   int     // tokens of the first prompt
	newest   int     // where the newest response begins

	realigned bool // a response was replaced by what a later prompt made of it
}

// pack distributes the turns of a path over builders.
func (p *packer) pack(path []*turn) []*builder {
	var packed []*builder
	var b *builder
	for _, t := range path {
		all := t.full().ids()
		prompt, output := all[:t.prompt], all[t.prompt:]
		if b == nil || !p.take(b, prompt, t) {
			if b != nil {
				p.counts.Forks++
			}
			b = &builder{prompt: len(prompt)}
			b.pad(prompt)
			packed = append(packed, b)
		}
		b.answer(t, output, !p.trained[t])
		p.trained[t] = true
	}
	return packed
}

// take makes the builder hold t's prompt, or reports that it can't.
func (p *packer) take(b *builder, prompt []int32, t *turn) bool {
	shared := commonPrefix(b.tokens, prompt)
	if shared == len(b.tokens) {
		p.counts.Clean++
		b.pad(prompt[shared:])
		return true
	}
	if shared < b.newest || t.output >= p.threshold {
		return false
	}
	p.counts.Realigns++
	b.realign()
	b.pad(prompt[b.newest:])
	return true
}

// pad appends ids that were not sampled here.
func (b *builder) pad(ids []int32) {
	b.tokens = append(b.tokens, ids...)
	b.mask = appendZeros(b.mask, len(ids))
	b.logProbs = appendZeros(b.logProbs, len(ids))
}

func appendZeros[T int8 | float32](s []T, n int) []T {
	s = slices.Grow(s, n)[:len(s)+n]
	clear(s[len(s)-n:])
	return s
}

// realign drops the newest response: what replaces it was not sampled.
func (b *builder) realign() {
	n, last := b.newest, len(b.turns)-1
	b.tokens, b.mask, b.logProbs = b.tokens[:n], b.mask[:n], b.logProbs[:n]
	b.versions = cutSpans(b.versions, n)
	b.turns, b.held = b.turns[:last], b.held[:last]
	b.realigned = true
}

// answer appends a turn's output, trained or as context.
func (b *builder) answer(t *turn, output []int32, train bool) {
	from := len(b.tokens)
	b.newest = from
	b.pad(output)
	if train {
		copy(b.logProbs[from:], t.logProbs)
		for i := from; i < len(b.mask); i++ {
			b.mask[i] = 1
		}
	}
	for _, s := range t.versions {
		b.versions = append(b.versions, Span{From: from + s.From, To: from + s.To, Version: s.Version})
	}
	b.turns = append(b.turns, t.inSegment(train))
	b.held = append(b.held, t)
}

// trains reports whether anything is trained after the first prompt.
func (b *builder) trains() bool {
	return slices.Contains(b.mask[b.prompt:], 1)
}

// segment makes the segment of a path's builder; path says the flags.
func (b *builder) segment(path []*turn, held map[*turn]int, maxTokens int) Segment {
	s := b.plain()
	s.Policy = policyCanonical
	s.Truncated = path[len(path)-1].finish == chat.FinishLength
	for _, t := range path {
		s.UseTool = s.UseTool || t.useTool
		s.IllFormed = s.IllFormed || t.illFormed
	}
	s.Label = labelOf(b.held, held)
	if maxTokens > 0 && len(s.Tokens) > maxTokens {
		s.cut(maxTokens)
	}
	s.Flags = flagsOf(&s, map[string]bool{FlagRealigned: b.realigned, FlagDropped: path[len(path)-1].dropped()})
	return s
}

// cut ends s after n tokens, wherever that is; the turns that it lists are
// those that are there whole.
func (s *Segment) cut(n int) {
	s.Tokens = s.Tokens[:n]
	response := max(n-s.PromptLen, 0)
	s.LossMask, s.LogProbs = s.LossMask[:response], s.LogProbs[:response]
	s.Versions = cutSpans(s.Versions, n)
	for last := len(s.Turns) - 1; last >= 0 && s.Turns[last].Prompt+s.Turns[last].Output > n; last-- {
		s.Turns = s.Turns[:last]
		s.CutTurns++
	}
}

// plain is what every segment has of its builder.
func (b *builder) plain() Segment {
	return Segment{
		Tokens: b.tokens, LossMask: b.mask[b.prompt:], LogProbs: b.logProbs[b.prompt:],
		Versions: b.versions, Turns: b.turns, PromptLen: b.prompt, Parent: -1,
	}
}

// cutSpans keeps what lies before token n.
func cutSpans(spans []Span, n int) []Span {
	var kept []Span
	for _, s := range spans {
		if s.From < n {
			kept = append(kept, Span{s.From, min(s.To, n), s.Version})
		}
	}
	return kept
}
