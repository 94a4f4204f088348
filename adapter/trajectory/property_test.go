package trajectory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A branch is one history that a client keeps.
type branch struct {
	history []chat.Message
	said    []int // indices in history of what the model said
	kind    chat.Kind
	agent   string
	tokens  int // of the last prompt and its output: what a segment of this branch costs at least
}

// A client is a random one. It counts how often it leaves a history behind for
// another: that is how many segments there must be after the first.
type client struct {
	*player
	rng      *rand.Rand
	branches []*branch
	changes  int
	retries  int
	cuts     int
	agents   int
	words    int
}

// word is one that nobody said before; half of them drift when rendered again.
func (c *client) word() string {
	c.words++
	if c.rng.IntN(2) == 0 {
		return fmt.Sprintf("w%d-x", c.words)
	}
	return fmt.Sprintf("w%d", c.words)
}

// turn asks for the answer to prompt in b, now and then more than once, and
// keeps the history as this client does.
func (c *client) turn(b *branch, prompt []chat.Message) {
	for c.rng.IntN(8) == 0 { // delivered, and asked for again
		c.ask(prompt, c.reply(b, false))
		c.retries++
	}
	cut := c.rng.IntN(8) == 0
	r := c.reply(b, cut)
	if cut {
		c.cuts++
	}
	b.history = c.ask(prompt, r)
	last := c.calls[len(c.calls)-1]
	b.tokens = len(last.prompt) + len(last.output)
	b.said = append(b.said, len(b.history)-1)
}

// reply invents an answer and the way in which the client sends it back.
func (c *client) reply(b *branch, cut bool) reply {
	r := reply{text: c.word(), kind: b.kind, agent: b.agent}
	if c.rng.IntN(2) == 0 {
		r.think = c.word()
	}
	if c.rng.IntN(2) == 0 {
		r.calls = bash(fmt.Sprintf(`{"command":%q,"n":1e3}`, c.word()))
	}
	if cut {
		r.finish = chat.FinishLength
		if c.rng.IntN(4) == 0 {
			r.text, r.think, r.calls = "", "", nil
		}
	}
	echo := chat.Message{Role: chat.Assistant, Content: r.text, Reasoning: r.think, ToolCalls: r.calls}
	if c.rng.IntN(3) == 0 {
		echo.Turn = "this"
	}
	switch c.rng.IntN(4) {
	case 0:
		echo.Reasoning = ""
	case 1:
		echo.Content = " " + echo.Content + "\n"
	}
	r.echo = &echo
	return r
}

// goOn continues a branch: no change.
func (c *client) goOn(b *branch) {
	next := []chat.Message{user(c.word())}
	if calls := b.history[len(b.history)-1].ToolCalls; len(calls) > 0 {
		next = []chat.Message{tool(c.word()), user(c.word())}
	}
	c.turn(b, plus(b.history, next...))
}

// fork sends a history that departs from b's at some message that is the
// client's own, or at one that the model said and the client edits.
func (c *client) fork(b *branch) {
	at := 1 + c.rng.IntN(len(b.history)-1)
	next := &branch{kind: b.kind, agent: b.agent}
	for _, i := range b.said {
		if i < at {
			next.said = append(next.said, i)
		}
	}
	prompt := slices.Clone(b.history[:at])
	if slices.Contains(b.said, at) {
		prompt = append(prompt, chat.Message{Role: chat.Assistant, Content: "edited " + c.word(), Turn: b.history[at].Turn})
	}
	c.turn(next, append(prompt, user(c.word())))
	c.branches = append(c.branches, next)
	c.changes++
}

// begin starts a conversation of its own: the task, a sub-agent, or what
// follows a compaction.
func (c *client) begin(kind chat.Kind, agent string) {
	b := &branch{kind: kind, agent: agent}
	c.turn(b, []chat.Message{sys("be helpful " + agent), user(c.word())})
	c.branches = append(c.branches, b)
}

// compact asks for a summary, which continues b, and begins anew with it.
func (c *client) compact(b *branch) {
	kind := b.kind
	b.kind = chat.Compaction
	c.goOn(b)
	b.kind = kind
	c.begin(kind, b.agent)
	c.changes++
}

func (c *client) step() {
	b := c.branches[c.rng.IntN(len(c.branches))]
	switch n := c.rng.IntN(100); {
	case n < 80:
		c.goOn(b)
	case n < 90:
		c.fork(b)
	case n < 95:
		c.agents++
		c.begin(chat.Subagent, fmt.Sprint("agent", c.agents))
		c.changes++
	default:
		c.compact(b)
	}
}

// figures are sums over conversations.
type figures struct {
	turns, changes, segments, retries, cuts, tokens, minimum, trained int
}

func TestExactOverRandomConversations(t *testing.T) {
	var all figures
	const conversations = 150
	for seed := range uint64(conversations) {
		c := &client{player: newPlayer(t, trajectory.Options{}), rng: rand.New(rand.NewPCG(seed, 7))}
		c.begin(chat.Main, "")
		for range c.rng.IntN(40) {
			c.step()
		}
		segments := c.segments(0)
		checkPlayed(t, c.player, segments)
		if len(segments) != 1+c.changes {
			t.Errorf("seed %d: %d segments after %d changes\n%s", seed, len(segments), c.changes, c.show(segments))
		}
		all.add(t, c, segments, seed)
		if t.Failed() {
			return
		}
	}
	t.Logf("figure: %d random conversations, %d turns, %d retries, %d cuts, %d changes of history: %d segments; %d tokens exported, %d at least (%.3f); %d sampled tokens trained once",
		conversations, all.turns, all.retries, all.cuts, all.changes, all.segments, all.tokens, all.minimum, float64(all.tokens)/float64(all.minimum), all.trained)
}

// add sums up and compares with what the generator knows.
func (f *figures) add(t *testing.T, c *client, segments []trajectory.Segment, seed uint64) {
	tokens, minimum, owned, sampled := 0, 0, 0, 0
	for _, s := range segments {
		tokens += len(s.Tokens)
		owned += s.Owned
		if s.Untrained != "" && s.Owned > 0 {
			t.Errorf("seed %d: segment %d is untrained: %s", seed, s.Index, s.Untrained)
		}
	}
	for _, b := range c.branches {
		minimum += b.tokens
	}
	superseded := c.tree.Report().Superseded
	for _, call := range c.calls {
		if !slices.Contains(superseded, call.turn) {
			sampled += len(call.output)
		}
	}
	if len(superseded) != c.retries {
		t.Errorf("seed %d: %d turns superseded after %d retries", seed, len(superseded), c.retries)
	}
	if owned != sampled || float64(tokens) > 1.05*float64(minimum) {
		t.Errorf("seed %d: %d tokens trained of %d sampled; %d exported, %d at least", seed, owned, sampled, tokens, minimum)
	}
	f.turns += len(c.calls)
	f.changes += c.changes
	f.segments += len(segments)
	f.retries += c.retries
	f.cuts += c.cuts
	f.tokens += tokens
	f.minimum += minimum
	f.trained += owned
}

// TestCanonicalOverRandomConversations plays the same conversations with
// everything rendered at each turn, to count what exact continuation spares.
func TestCanonicalOverRandomConversations(t *testing.T) {
	var counts trajectory.CanonicalCounts
	turns, changes, segments, verdicts := 0, 0, 0, 0
	for seed := range uint64(150) {
		c := &client{player: newPlayer(t, trajectory.Options{Policy: trajectory.Canonical, ForkThreshold: 3}), rng: rand.New(rand.NewPCG(seed, 7))}
		c.begin(chat.Main, "")
		for range c.rng.IntN(40) {
			c.step()
		}
		r := c.tree.Report().Canonical
		counts.Clean += r.Clean
		counts.Realigns += r.Realigns
		counts.Forks += r.Forks
		counts.Merges += r.Merges
		turns += len(c.calls)
		changes += c.changes
		first := c.segments(0)
		segments += len(first)
		for _, s := range first {
			if s.Verdict != "" {
				verdicts++
			}
		}
		if seed%25 == 0 {
			if diff := cmp.Diff(first, c.segments(0)); diff != "" {
				t.Errorf("seed %d: Segments twice differs: %s", seed, diff)
			}
		}
	}
	if counts.Forks == 0 || counts.Realigns == 0 {
		t.Errorf("nothing drifted: %+v", counts)
	}
	t.Logf("figure: canonical on the same %d turns, %d changes: %d segments, %d clean, %d realigned, %d forked, %d merged; %d segments with a verdict",
		turns, changes, segments, counts.Clean, counts.Realigns, counts.Forks, counts.Merges, verdicts)
}
