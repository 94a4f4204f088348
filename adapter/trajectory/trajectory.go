// Package trajectory turns the turns of a session into token sequences to
// train on. It is a leaf: the adapter renders and encodes; the tree says from
// where, and proves afterwards that what is trained is what was conditioned on.
package trajectory

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// Policy says how a turn's prompt is made and how turns become segments.
type Policy int

// The policies. The zero value is Exact.
const (
	Exact     Policy = iota // continue from the very ids of the turn before
	Canonical               // render everything each time, repair on export
)

// How a segment names its policy.
const (
	policyExact     = "exact"
	policyCanonical = "canonical"
)

// defaultForkThreshold is what ForkThreshold 0 means, in tokens.
const defaultForkThreshold = 1024

// Options of a Tree.
type Options struct {
	Policy        Policy
	ForkThreshold int // tokens, of Canonical; 0 means 1024, negative switches merge and realign off

	TrainSideCalls bool // side calls are trainable; by default they are exported with Untrained "sidecall"
	SkipSubagents  bool // sub-agents are not trainable: exported with Untrained "subagent"
}

// A Turn is one recorded turn.
type Turn struct {
	ID        string         // unique in its tree; "" lets the tree number it
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
	From    int    `json:"from"` // half-open, within the turn's OutputIDs or the segment's Tokens
	To      int    `json:"to"`
	Version string `json:"version"`
}

// A Continuation says what the prompt of a request begins with.
type Continuation struct {
	IDs    []int32 // exact ids up to and including the generated turn that is continued, shared with the tree: append to them, never write into them; nil: render everything
	From   int     // index in the request's messages of the first that IDs does not cover
	Finish string  // how that turn ended
	Turn   string  // its id
}

// A Tree holds one session. Its messages are nodes; a node that the model
// generated has its turn; token ids are kept once for all turns that share
// them, so that a session costs memory for what its turns add, not for what
// each of them repeats. A Tree is safe for concurrent use: its methods take
// turns under one lock. What Record is given is copied and may be reused.
type Tree struct {
	mu        sync.Mutex
	opts      Options
	threshold int // tokens; 0 is off
	root      *node
	turns     []*turn // in the order recorded
	byID      map[string]*turn
	toolsets  [][]chat.Tool
	rewrites  map[string]int // normalisations met, by name
	merged    int            // canonical: answers that a client's version replaced
}

// New returns an empty tree.
func New(o Options) *Tree {
	if o.Policy != Canonical {
		o.Policy = Exact
	}
	t := &Tree{opts: o, threshold: o.ForkThreshold, root: &node{depth: -1}, byID: map[string]*turn{}, rewrites: map[string]int{}}
	if t.threshold == 0 {
		t.threshold = defaultForkThreshold
	}
	t.threshold = max(t.threshold, 0)
	return t
}

// Continue says which recorded turn the prompt continues, and so what ids the
// engine's prompt must begin with. The turn is the last generated one on the
// path of prompt whose request offered the same tools; under Canonical there
// is never one.
func (t *Tree) Continue(prompt []chat.Message, tools []chat.Tool) Continuation {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opts.Policy == Canonical {
		return Continuation{}
	}
	set := t.toolset(tools)
	if set < 0 {
		return Continuation{}
	}
	for n := t.match(prompt); n != t.root; n = n.parent {
		if n.turn != nil && n.turn.tools == set {
			return Continuation{IDs: n.turn.full().ids(), From: n.depth + 1, Finish: n.turn.finish, Turn: n.turn.id}
		}
	}
	return Continuation{}
}

// Record adds a turn that its client got. A turn that can't be right (numbers
// that disagree, an id twice, no prompt) is an error and changes nothing.
// Under Canonical a turn without prompt messages is ignored, as the seeds'
// system does.
func (t *Tree) Record(turn Turn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opts.Policy == Canonical && len(turn.Prompt) == 0 {
		return nil
	}
	if turn.ID == "" {
		turn.ID = "turn-" + strconv.Itoa(len(t.turns))
	}
	if err := t.admit(turn); err != nil {
		return fmt.Errorf("record turn %q: %w", turn.ID, err)
	}
	at := t.descend(turn.Prompt)
	rec := t.newTurn(turn, at)
	t.mount(at, turn.Prompt, turn.Echo, rec)
	return nil
}

// admit refuses what no engine and no client can have meant.
func (t *Tree) admit(turn Turn) error {
	if n, m := len(turn.LogProbs), len(turn.OutputIDs); n != 0 && n != m {
		return fmt.Errorf("%d logprobs for %d output ids: give one for each, or none", n, m)
	}
	if t.opts.Policy == Exact && turn.Echo.Role != chat.Assistant {
		return fmt.Errorf("the echo has role %q: it must be %q", turn.Echo.Role, chat.Assistant)
	}
	if _, live := t.byID[turn.ID]; live {
		return fmt.Errorf("the id is taken: a turn is recorded once, under an id of its own")
	}
	if t.opts.Policy == Exact && (len(turn.Prompt) == 0 || len(turn.PromptIDs) == 0) {
		return fmt.Errorf("%d prompt messages, %d prompt ids: a turn answers something", len(turn.Prompt), len(turn.PromptIDs))
	}
	return admitVersions(turn.Versions, len(turn.OutputIDs))
}

// admitVersions refuses spans that don't cover all of n ids, or none.
func admitVersions(spans []Span, n int) error {
	at := 0
	for _, s := range spans {
		if s.From != at || s.To <= s.From {
			return fmt.Errorf("weight versions leave the output at %d: spans must follow each other without gaps", at)
		}
		at = s.To
	}
	if len(spans) > 0 && at != n {
		return fmt.Errorf("weight versions cover %d of %d output ids: they must cover all, or be empty", at, n)
	}
	return nil
}

// newTurn keeps the turn's ids beside those of the turns that it shares a
// prefix with, and finds the turn that it continues, id for id.
func (t *Tree) newTurn(in Turn, at *node) *turn {
	rec := &turn{
		id: in.ID, seq: len(t.turns), prompt: len(in.PromptIDs), output: len(in.OutputIDs),
		logProbs: slices.Clone(in.LogProbs), finish: in.Finish, illFormed: in.IllFormed, useTool: len(in.Echo.ToolCalls) > 0,
		kind: in.Kind, agent: in.Agent, versions: slices.Clone(in.Versions), cached: in.Cached, start: in.Start, end: in.End,
		tools: t.internTools(in.Tools),
	}
	base, shared := t.base(in.PromptIDs, at, rec)
	tp := base.grow(shared, in.PromptIDs[shared:])
	rec.promptSum = tp.sum()
	tp.append(in.OutputIDs)
	rec.tape = tp
	rec.outputSum = outputSum(in.OutputIDs, in.LogProbs, in.Versions)
	t.turns = append(t.turns, rec)
	t.byID[rec.id] = rec
	return rec
}

// base returns recorded ids that prompt shares a prefix with, and its length.
// Under Exact it sets the turn that rec continues on the way.
func (t *Tree) base(prompt []int32, at *node, rec *turn) (mark, int) {
	if t.opts.Policy == Exact {
		for n := at; n != t.root; n = n.parent {
			if n.turn == nil {
				continue
			}
			if full := n.turn.full(); full.commonPrefix(prompt) == full.n {
				rec.parent = n.turn
				n.turn.kids = append(n.turn.kids, rec)
				return full, full.n
			}
		}
	}
	if at.through == nil {
		return mark{}, 0
	}
	full := at.through.full()
	return full, full.commonPrefix(prompt)
}

// toolset returns the number of an equal list of tools, or -1.
func (t *Tree) toolset(tools []chat.Tool) int {
	return slices.IndexFunc(t.toolsets, func(have []chat.Tool) bool { return slices.EqualFunc(have, tools, equalTool) })
}

func (t *Tree) internTools(tools []chat.Tool) int {
	if i := t.toolset(tools); i >= 0 {
		return i
	}
	t.toolsets = append(t.toolsets, cloneTools(tools))
	return len(t.toolsets) - 1
}

// Segments returns the session as token sequences, in export order. Under
// Exact a segment longer than maxTokens ends with the last turn that fits;
// under Canonical it is cut as the seeds' system cuts, wherever that is.
// maxTokens 0 is no limit. The segments share nothing with the tree.
func (t *Tree) Segments(maxTokens int) ([]Segment, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if maxTokens < 0 {
		return nil, fmt.Errorf("segments of at most %d tokens: the limit is 0 (none) or positive", maxTokens)
	}
	var segments []Segment
	if t.opts.Policy == Canonical {
		segments, _ = t.canonicalSegments(maxTokens)
	} else {
		segments = t.exactSegments(maxTokens)
	}
	t.seal(segments)
	return segments, nil
}
