package trajectory_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A naive tree is the canonical policy once more, from its description: each
// turn holds all of its ids, and nothing is shared.
type naive struct {
	message  chat.Message
	turn     *trajectory.Turn // nil: not generated
	children []*naive
}

// same is equality by the values that Python would read; the random messages
// below hold no more than this tells apart.
func same(a, b chat.Message) bool {
	args := func(m chat.Message) (out []any) {
		for _, c := range m.ToolCalls {
			var v map[string]any
			if json.Unmarshal(c.Arguments, &v) != nil {
				out = append(out, string(c.Arguments))
				continue
			}
			if v["n"] == true {
				v["n"] = 1.0
			}
			out = append(out, v)
		}
		return out
	}
	return a.Role == b.Role && a.Content == b.Content && a.Reasoning == b.Reasoning && cmp.Equal(args(a), args(b))
}

func (n *naive) record(turn trajectory.Turn, threshold int) {
	rest := turn.Prompt
	if len(rest) == 0 {
		return
	}
walk:
	for len(rest) > 0 {
		for _, c := range n.children {
			if same(c.message, rest[0]) {
				n, rest = c, rest[1:]
				continue walk
			}
		}
		break
	}
	if threshold > 0 && len(rest) > 0 && rest[0].Role == chat.Assistant {
		var said []*naive
		for _, c := range n.children {
			if c.message.Role == chat.Assistant {
				said = append(said, c)
			}
		}
		if len(said) == 1 && said[0].turn != nil && len(said[0].children) == 0 && len(said[0].turn.OutputIDs) < threshold {
			said[0].message, said[0].turn = rest[0], nil
			n, rest = said[0], rest[1:]
		}
	}
	for _, m := range rest {
		c := &naive{message: m}
		n.children = append(n.children, c)
		n = c
	}
	n.children = append(n.children, &naive{message: turn.Echo, turn: &turn})
}

// A held is a sequence that the reference builds.
type held struct {
	tokens []int32
	mask   []int8
	lps    []float32
	prompt int
	newest int
}

func (h *held) add(ids []int32, mask int8, lps []float32) {
	for i, id := range ids {
		h.tokens, h.mask = append(h.tokens, id), append(h.mask, mask)
		lp := float32(0)
		if i < len(lps) {
			lp = lps[i]
		}
		h.lps = append(h.lps, lp)
	}
}

func (n *naive) export(path []*trajectory.Turn, seen map[*trajectory.Turn]bool, threshold, most int) (out []canonicalSample) {
	if n.turn != nil {
		path = append(slices.Clip(path), n.turn)
	}
	for _, c := range n.children {
		out = append(out, c.export(path, seen, threshold, most)...)
	}
	if len(n.children) > 0 || len(path) == 0 {
		return out
	}
	var builders []*held
	for _, t := range path {
		h := lastOf(builders)
		switch p := prefixOf(h, t.PromptIDs); {
		case h != nil && p == len(h.tokens):
			h.add(t.PromptIDs[p:], 0, nil)
		case h != nil && p >= h.newest && len(t.OutputIDs) < threshold:
			h.tokens, h.mask, h.lps = h.tokens[:h.newest], h.mask[:h.newest], h.lps[:h.newest]
			h.add(t.PromptIDs[h.newest:], 0, nil)
		default:
			h = &held{prompt: len(t.PromptIDs)}
			h.add(t.PromptIDs, 0, nil)
			builders = append(builders, h)
		}
		h.newest = len(h.tokens)
		if seen[t] {
			h.add(t.OutputIDs, 0, nil)
		} else {
			h.add(t.OutputIDs, 1, t.LogProbs)
		}
		seen[t] = true
	}
	for _, h := range builders {
		if slices.Contains(h.mask[h.prompt:], 1) {
			out = append(out, h.sample(path, most))
		}
	}
	return out
}

func lastOf(builders []*held) *held {
	if len(builders) == 0 {
		return nil
	}
	return builders[len(builders)-1]
}

func prefixOf(h *held, ids []int32) int {
	n := 0
	for h != nil && n < len(ids) && n < len(h.tokens) && ids[n] == h.tokens[n] {
		n++
	}
	return n
}

func (h *held) sample(path []*trajectory.Turn, most int) canonicalSample {
	tokens := h.tokens
	if most > 0 && len(tokens) > most {
		tokens = tokens[:most]
	}
	s := canonicalSample{Tokens: tokens, ResponseLength: len(tokens) - h.prompt, Truncated: path[len(path)-1].Finish == "length"}
	if s.ResponseLength > 0 {
		s.LossMask, s.LogProbs = h.mask[h.prompt:len(tokens)], h.lps[h.prompt:len(tokens)]
	}
	for _, t := range path {
		s.UseTool = s.UseTool || len(t.Echo.ToolCalls) > 0
		s.IllFormed = s.IllFormed || t.IllFormed
	}
	return s
}

// randomTurns are so few different messages and ids that everything happens:
// equal siblings, empty prompts and outputs, prompts shorter than what is held.
func randomTurns(rng *rand.Rand) []trajectory.Turn {
	args := []string{`{"n":1}`, `{"n":1.0}`, `{"n":true}`, `{"n":2}`, `{"n":`, `{"n":1,"m":[]}`}
	message := func(role string) chat.Message {
		m := chat.Message{Role: role, Content: []string{"", "a"}[rng.IntN(2)]}
		if role == chat.Assistant && rng.IntN(2) == 0 {
			m.ToolCalls = bash(args[rng.IntN(len(args))])
		}
		if role == chat.Assistant && rng.IntN(4) == 0 {
			m.Reasoning = "r"
		}
		return m
	}
	ids := func(n int) []int32 {
		out := make([]int32, n)
		for i := range out {
			out[i] = int32(rng.IntN(2))
		}
		return out
	}
	var turns []trajectory.Turn
	for range 1 + rng.IntN(8) {
		t := trajectory.Turn{Echo: message(chat.Assistant), OutputIDs: ids(rng.IntN(4)), Finish: []string{"stop", "length"}[rng.IntN(2)], IllFormed: rng.IntN(5) == 0}
		if len(turns) > 0 && rng.IntN(4) > 0 {
			before := turns[rng.IntN(len(turns))]
			t.Prompt = append(slices.Clip(before.Prompt), before.Echo)
			t.PromptIDs = slices.Concat(before.PromptIDs, before.OutputIDs)
			t.PromptIDs = t.PromptIDs[:len(t.PromptIDs)-rng.IntN(min(3, len(t.PromptIDs)+1))]
			if rng.IntN(3) == 0 {
				t.Prompt[len(t.Prompt)-1] = message(chat.Assistant)
			}
		}
		for range rng.IntN(3) {
			t.Prompt = append(t.Prompt, message([]string{chat.User, chat.Assistant}[rng.IntN(2)]))
		}
		t.PromptIDs = append(slices.Clip(t.PromptIDs), ids(1+rng.IntN(3))...)
		if rng.IntN(4) > 0 {
			for range t.OutputIDs {
				t.LogProbs = append(t.LogProbs, -rng.Float32())
			}
		}
		turns = append(turns, t)
	}
	return turns
}

func TestCanonicalAgreesWithItsDescription(t *testing.T) {
	samples, forks := 0, trajectory.CanonicalCounts{}
	const conversations = 1500
	for seed := range uint64(conversations) {
		rng := rand.New(rand.NewPCG(seed, 3))
		threshold := []int{0, -1, 1, 2, 3, 1024}[rng.IntN(6)] // of Options
		effective := map[int]int{0: 1024, -1: 0}[threshold]
		if threshold > 0 {
			effective = threshold
		}
		most := rng.IntN(3) * rng.IntN(20)
		tree, root := trajectory.New(trajectory.Options{Policy: trajectory.Canonical, ForkThreshold: threshold}), &naive{}
		for _, turn := range randomTurns(rng) {
			if err := tree.Record(turn); err != nil {
				t.Fatal(err)
			}
			root.record(turn, effective)
		}
		want := root.export(nil, map[*trajectory.Turn]bool{}, effective, most)
		segments, err := tree.Segments(most)
		if err != nil {
			t.Fatal(err)
		}
		var got []canonicalSample
		for _, s := range segments {
			got = append(got, canonicalSample{s.Tokens, s.ResponseLength(), s.LossMask, s.LogProbs, s.Truncated, s.UseTool, s.IllFormed})
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d, threshold %d (-want +got):\n%s", seed, threshold, diff)
		}
		counts := tree.Report().Canonical
		forks.Forks += counts.Forks
		forks.Realigns += counts.Realigns
		forks.Merges += counts.Merges
		samples += len(got)
	}
	t.Logf("figure: %d random conversations agree with the policy written out plainly: %d samples, %d realigned, %d forked, %d merged",
		conversations, samples, forks.Realigns, forks.Forks, forks.Merges)
}

// TestExactOfArbitraryPrompts records prompts that no Continue has made: what
// is exported is still what was given, each turn once.
func TestExactOfArbitraryPrompts(t *testing.T) {
	segments, causes := 0, map[string]int{}
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 4))
		p := newPlayer(t, trajectory.Options{})
		for i, turn := range randomTurns(rng) {
			if len(turn.Prompt) == 0 {
				turn.Prompt = start
			}
			turn.ID = string(rune('A' + i))
			turn.LogProbs = make([]float32, len(turn.OutputIDs))
			if err := p.tree.Record(turn); err != nil {
				t.Fatal(err)
			}
			p.calls = append(p.calls, call{turn: turn.ID, prompt: turn.PromptIDs, output: turn.OutputIDs, logProbs: turn.LogProbs})
		}
		all := p.segments(rng.IntN(2) * rng.IntN(20))
		for _, s := range all {
			if err := trajectory.CheckSegment(s); err != nil {
				t.Errorf("seed %d: segment %d: %v", seed, s.Index, err)
			}
			if s.Split != nil {
				causes[s.Split.Cause]++
			}
		}
		checkPlayed(t, p, p.segments(0))
		if _, err := p.tree.ATIF(atifOptions); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		segments += len(all)
	}
	t.Logf("figure: 500 sessions of arbitrary prompts: %d segments proven, causes %v", segments, causes)
}
