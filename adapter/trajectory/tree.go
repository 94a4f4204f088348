package trajectory

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A node is one message of the tree; the root is none.
type node struct {
	msg      chat.Message
	depth    int // index of the message in its conversation; -1 for the root
	parent   *node
	children []*node        // in order of creation
	turn     *turn          // what the model did here; nil when the client brought the message
	through  *turn          // the newest turn recorded here or below
	variants []chat.Message // exact: how clients sent the message back, other than as told
	rules    []string       // exact: the normalisations that took, each once
}

// A turn is what is kept of a Turn.
type turn struct {
	id     string
	seq    int // its place in the order of recording
	node   *node
	parent *turn // exact: the turn whose prompt and output this one's prompt begins with
	kids   []*turn

	tape           *tape // holds prompt and output as its first ids
	prompt, output int   // tokens
	logProbs       []float32
	promptSum      [sha256.Size]byte
	outputSum      [sha256.Size]byte

	finish             string
	illFormed, useTool bool
	kind               chat.Kind
	agent              string
	versions           []Span
	cached             int // tokens
	start, end         time.Time
	tools              int // index in Tree.toolsets
}

// full is the turn's prompt and output.
func (t *turn) full() mark { return mark{t.tape, t.prompt + t.output} }

// match walks down the tree along prompt and returns where the walk ends.
func (t *Tree) match(prompt []chat.Message) *node {
	if t.opts.Policy == Canonical {
		return firstMatch(t.root, prompt)
	}
	return deepest(t.root, prompt)
}

// firstMatch takes the first equal child at each step, as the seeds' system does.
func firstMatch(n *node, prompt []chat.Message) *node {
	for i := range prompt {
		at := slices.IndexFunc(n.children, func(c *node) bool { return pythonEqual(&c.msg, &prompt[i]) })
		if at < 0 {
			return n
		}
		n = n.children[at]
	}
	return n
}

// deepest returns the end of the longest path along prompt. Where several
// children match, because a prompt was answered twice alike, the one that the
// message names wins, else the one that leads deeper, else the newer.
func deepest(n *node, prompt []chat.Message) *node {
	for len(prompt) > 0 {
		c, alike := n.child(&prompt[0])
		if c == nil {
			return n
		}
		prompt = prompt[1:]
		if len(alike) > 0 {
			return deepestOf(alike, prompt)
		}
		n = c
	}
	return n
}

func deepestOf(from []*node, prompt []chat.Message) *node {
	var best *node
	for _, c := range from {
		if end := deepest(c, prompt); best == nil || end.depth >= best.depth {
			best = end
		}
	}
	return best
}

// child returns the child that m is. Where several are, and m names none of
// them, alike lists them, oldest first.
func (n *node) child(m *chat.Message) (one *node, alike []*node) {
	for _, c := range n.children {
		switch {
		case !c.accepts(m):
		case c.turn != nil && m.Turn != "" && c.turn.id == m.Turn:
			return c, nil
		case one == nil:
			one = c
		default:
			if alike == nil {
				alike = append(alike, one)
			}
			alike = append(alike, c)
		}
	}
	return one, alike
}

// descend walks down the tree along prompt as far as it is known. Under
// Canonical it then lets a client's version of the newest answer take its
// place; under Exact it counts the normalisations that the walk needed.
func (t *Tree) descend(prompt []chat.Message) *node {
	n := t.match(prompt)
	if t.opts.Policy == Canonical {
		return t.mergeRewrite(n, prompt[n.depth+1:])
	}
	for at := n; at != t.root; at = at.parent {
		t.noteRewrites(at, &prompt[at.depth])
	}
	return n
}

// mount hangs the rest of prompt and the answer below at.
func (t *Tree) mount(at *node, prompt []chat.Message, echo chat.Message, rec *turn) {
	for _, m := range prompt[at.depth+1:] {
		at = at.add(m)
	}
	rec.node = at.add(echo)
	rec.node.turn = rec
	for n := rec.node; n != nil; n = n.parent {
		n.through = rec
	}
}

// add appends a child that holds a copy of m: m's strings may lie in the body
// of a whole request, which must not live as long as one message does.
func (n *node) add(m chat.Message) *node {
	c := &node{msg: cloneMessage(m), depth: n.depth + 1, parent: n}
	n.children = append(n.children, c)
	return c
}

// path returns the nodes from the first message to n.
func (n *node) path() []*node {
	path := make([]*node, n.depth+1)
	for ; n.depth >= 0; n = n.parent {
		path[n.depth] = n
	}
	return path
}

// turnsTo returns the generated turns on the path to n, in order.
func turnsTo(n *node) []*turn {
	var turns []*turn
	for ; n != nil; n = n.parent {
		if n.turn != nil {
			turns = append(turns, n.turn)
		}
	}
	slices.Reverse(turns)
	return turns
}

func cloneMessage(m chat.Message) chat.Message {
	m.Role, m.Content, m.Reasoning = strings.Clone(m.Role), strings.Clone(m.Content), strings.Clone(m.Reasoning)
	m.Turn = strings.Clone(m.Turn)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i, c := range m.ToolCalls {
		m.ToolCalls[i] = chat.ToolCall{Name: strings.Clone(c.Name), Arguments: bytes.Clone(c.Arguments)}
	}
	return m
}

func cloneTools(tools []chat.Tool) []chat.Tool {
	tools = slices.Clone(tools)
	for i, t := range tools {
		tools[i] = chat.Tool{Name: strings.Clone(t.Name), Description: strings.Clone(t.Description), Parameters: bytes.Clone(t.Parameters)}
	}
	return tools
}

// equalTool is equality as a template would print it: the schema's spelling counts.
func equalTool(a, b chat.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
}
