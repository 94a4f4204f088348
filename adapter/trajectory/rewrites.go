package trajectory

import (
	"slices"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// accepts reports whether m is n's message as a client sends it back.
func (n *node) accepts(m *chat.Message) bool {
	if n.msg.Role != m.Role {
		return false
	}
	if jsonEqual(&n.msg, m) {
		return true
	}
	if n.turn == nil {
		return false
	}
	for i := range n.variants {
		if jsonEqual(&n.variants[i], m) {
			return true
		}
	}
	_, ok := normalised(n, m)
	return ok
}

// normalised is replaced below.
func normalised(n *node, m *chat.Message) ([]string, bool) { return nil, false }

// noteRewrites counts the normalisations by which m is n's message.
func (t *Tree) noteRewrites(n *node, m *chat.Message) {
	if n.turn == nil || jsonEqual(&n.msg, m) {
		return
	}
	rules, _ := normalised(n, m)
	for _, r := range rules {
		if !slices.Contains(n.rules, r) {
			n.rules = append(n.rules, r)
			t.rewrites[r]++
		}
	}
}
