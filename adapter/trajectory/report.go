package trajectory

import (
	"maps"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A Report counts what a session's clients did to its history.
type Report struct {
	Turns      int             // recorded, side calls not counted
	SideCalls  int             // recorded
	Superseded []string        // ids of turns that were asked for again and that nothing continues: not exported
	Rewrites   map[string]int  // recorded messages that came back otherwise, by the Rewrite constants; the caller's to keep
	Canonical  CanonicalCounts // under Canonical what its export had to repair, else zero
}

// CanonicalCounts says how often the canonical policy had to repair.
type CanonicalCounts struct {
	Clean    int // prompts that extended what was held
	Realigns int // prompts that differed within the newest response
	Forks    int // prompts that differed before it
	Merges   int // answers that a client's version replaced
}

// Report returns the session's counts.
func (t *Tree) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{Rewrites: maps.Clone(t.rewrites)}
	for _, turn := range t.turns {
		if turn.kind == chat.SideCall {
			r.SideCalls++
		} else {
			r.Turns++
		}
		if t.opts.Policy == Exact && turn.superseded() {
			r.Superseded = append(r.Superseded, turn.id)
		}
	}
	if t.opts.Policy == Canonical {
		_, r.Canonical = t.canonicalSegments(0)
	}
	return r
}
