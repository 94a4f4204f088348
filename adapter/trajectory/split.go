package trajectory

import (
	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A splitter finds out why a segment is one of its own.
type splitter struct {
	tree    *Tree
	segment *Segment
	earlier []Segment
	held    map[*turn]int // the earlier segment that holds a turn first

	first  *turn // the first turn that only this segment holds
	before *turn // the one before it in the segment; nil for none
	said   *turn // the turn that first should have continued; nil for none
	after  *turn // the turn that the segment branched after; nil for none
}

// explain says where s, the segment of chain, branched from and why.
func (t *Tree) explain(s *Segment, earlier []Segment, chain []*turn, held map[*turn]int) {
	x := splitter{tree: t, segment: s, earlier: earlier, held: held}
	x.first, x.before = firstOwn(chain, held)
	x.said = lastSaid(x.first)
	x.after = t.predecessor(x.first, x.before, held)
	s.Split = &Split{Turn: x.first.id, Message: -1}
	if x.after != nil {
		s.Parent = held[x.after]
		s.Branch = commonPrefix(s.Tokens, earlier[s.Parent].Tokens)
		s.Split.After, s.Split.Token = x.after.id, s.Branch
		s.Split.Message, s.Split.Field = x.difference()
	}
	s.Split.Cause = x.cause()
	if s.Split.Cause == CauseDrift || s.Split.Cause == CauseTemplate {
		s.Split.Message, s.Split.Field = -1, ""
	}
}

// firstOwn returns the first turn of chain that no earlier segment holds, and
// the one before it. Where all are held it is the last.
func firstOwn(chain []*turn, held map[*turn]int) (first, before *turn) {
	for _, t := range chain {
		if _, ok := held[t]; !ok {
			return t, before
		}
		before = t
	}
	if len(chain) > 1 {
		before = chain[len(chain)-2]
	}
	return chain[len(chain)-1], before
}

// lastSaid returns the nearest turn above t that Continue would have named.
func lastSaid(t *turn) *turn {
	for n := t.node.parent; n != nil; n = n.parent {
		if n.turn != nil && n.turn.tools == t.tools {
			return n.turn
		}
	}
	return nil
}

// predecessor returns the turn that first came after: the one whose ids it
// should have continued, else the newest held turn of its kind of history,
// else of the history that it serves.
func (t *Tree) predecessor(first, before *turn, held map[*turn]int) *turn {
	if said := lastSaid(first); said != nil {
		if _, ok := held[said]; ok {
			return said
		}
	}
	if before != nil {
		return before
	}
	var own, served *turn
	for _, turn := range t.turns[:first.seq] {
		if _, ok := held[turn]; !ok {
			continue
		}
		if turn.kind == chat.Main || first.kind != chat.Subagent && turn.kind != chat.SideCall {
			served = turn
		}
		if turn.agent == first.agent && (turn.kind == first.kind || turn.kind == chat.Compaction) {
			own = turn
		}
	}
	if own != nil {
		return own
	}
	return served
}

// cause classifies the split.
func (x *splitter) cause() string {
	fresh := x.after == nil || x.after.agent != x.first.agent || x.after.kind != x.first.kind
	switch {
	case x.first.kind == chat.SideCall:
		return CauseSideCall
	case x.first.kind == chat.Compaction:
		return CauseCompaction
	case x.first.kind == chat.Subagent && fresh:
		return CauseSubagent
	case x.said != nil && x.said != x.before && x.drifted():
		return CauseDrift
	case x.said != nil && x.said != x.before:
		return CauseTemplate
	case x.before == nil && x.after != nil && x.after.kind == chat.Compaction:
		return CauseCompaction
	case x.answeredBefore():
		return CauseRetry
	default:
		return CauseClientEdit
	}
}

// drifted reports whether the first token that differs lies in what a turn
// above sampled. The first token of a turn that thought does not count: a
// template that leaves the thinking of earlier turns out departs there.
func (x *splitter) drifted() bool {
	at := x.segment.Split.Token
	for n := x.said.node; n != nil; n = n.parent {
		if n.turn != nil && at >= n.turn.prompt && at < n.turn.prompt+n.turn.output {
			return at > n.turn.prompt || n.msg.Reasoning == ""
		}
	}
	return false
}

// answeredBefore reports whether an exported turn answered the same prompt.
func (x *splitter) answeredBefore() bool {
	for _, n := range x.first.node.parent.children {
		if _, ok := x.held[n.turn]; ok && n.turn != x.first && n.turn.tools == x.first.tools {
			return true
		}
	}
	return false
}

// difference finds the first message in which first's prompt departs from the
// history that its parent segment ends with.
func (x *splitter) difference() (message int, field string) {
	turns := x.earlier[x.segment.Parent].Turns
	switch {
	case x.first.tools != x.after.tools:
		return -1, "tools"
	case len(turns) == 0: // all cut off
		return -1, ""
	}
	theirs, ours := x.tree.byID[turns[len(turns)-1].ID].node.path(), x.first.node.path()
	i := 0
	for i < len(theirs) && i < len(ours) && theirs[i] == ours[i] {
		i++
	}
	switch {
	case i == len(ours): // all of it is there
		return -1, ""
	case i == len(theirs):
		return i, "added"
	case i == len(ours)-1 && theirs[i].turn == nil: // the prompt ends where the parent's goes on
		return i, "missing"
	default:
		return i, differingField(&theirs[i].msg, &ours[i].msg)
	}
}

// differingField names the first field in which two messages differ; "" when
// only their place in the tree does.
func differingField(a, b *chat.Message) string {
	switch {
	case a.Role != b.Role:
		return "role"
	case a.Reasoning != b.Reasoning:
		return "reasoning"
	case a.Content != b.Content:
		return "content"
	case !equalCalls(a.ToolCalls, b.ToolCalls, strict):
		return "tool_calls"
	default:
		return ""
	}
}
