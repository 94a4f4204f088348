package trajectory

import (
	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A History is the tree of a session's messages, for people and for records:
// each message once, however many segments have it in common. A segment's
// conversation is the path to the message of its last turn. It shares nothing
// with the tree and may be kept.
type History struct {
	Messages []HistoryMessage // parents before their children
	Toolsets [][]chat.Tool    // the lists of tools that requests offered
}

// A HistoryMessage is one message and its place.
type HistoryMessage struct {
	chat.Message      // Turn is the turn that sampled it; "" when the client brought it
	Parent       int  // index in Messages; -1 for a first message
	Toolset      int  // index in Toolsets of the tools that its turn was offered; -1 without a turn
	Superseded   bool // the client asked again and used the other answer: no segment has it
}

// History returns the session's messages.
func (t *Tree) History() History {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := History{}
	for _, tools := range t.toolsets {
		h.Toolsets = append(h.Toolsets, cloneTools(tools))
	}
	index := map[*node]int{t.root: -1}
	t.root.each(func(n *node) {
		m := HistoryMessage{Message: cloneMessage(n.msg), Parent: index[n.parent], Toolset: -1}
		m.Turn = ""
		if n.turn != nil {
			m.Turn, m.Toolset = n.turn.id, n.turn.tools
			m.Superseded = t.opts.Policy == Exact && n.turn.superseded()
		}
		index[n] = len(h.Messages)
		h.Messages = append(h.Messages, m)
	})
	return h
}

// each calls f for every message below n, parents first, in order of creation.
func (n *node) each(f func(*node)) {
	for _, c := range n.children {
		f(c)
		c.each(f)
	}
}
