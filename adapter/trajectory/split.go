package trajectory

import (
	"github.com/agentrl-go/agentrl/adapter/chat"
)

// explain says where s branched from and why. chain holds the turns of s, held
// the earlier segment that holds a turn first.
func (t *Tree) explain(s *Segment, earlier []Segment, chain []*turn, held map[*turn]int) {
	first, before := firstOwn(chain, held)
	split := Split{Turn: first.id, Message: -1}
	after := t.predecessor(first, before, held)
	if after != nil {
		split.After = after.id
		s.Parent = held[after]
		s.Branch = commonPrefix(s.Tokens, earlier[s.Parent].Tokens)
		split.Token = s.Branch
	}
	t.cause(&split, first, before, after, earlier, s)
	s.Split = &split
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

// lastSaid returns the nearest generated turn above t that a continuation of
// the same tools would have continued.
func lastSaid(t *turn) *turn {
	for n := t.node.parent; n != nil; n = n.parent {
		if n.turn != nil && n.turn.tools == t.tools {
			return n.turn
		}
	}
	return nil
}

// predecessor returns the turn that first came after: the one whose ids it
// should have continued, else the newest held turn of its kind of history.
func (t *Tree) predecessor(first, before *turn, held map[*turn]int) *turn {
	if said := lastSaid(first); said != nil {
		if _, ok := held[said]; ok {
			return said
		}
	}
	if before != nil {
		return before
	}
	own, any := (*turn)(nil), (*turn)(nil)
	for _, turn := range t.turns[:first.seq] {
		if _, ok := held[turn]; !ok {
			continue
		}
		if turn.kind == chat.Main || first.kind != chat.Subagent && turn.kind != chat.SideCall {
			any = turn
		}
		if turn.agent == first.agent && (turn.kind == first.kind || turn.kind == chat.Compaction) {
			own = turn
		}
	}
	if own != nil {
		return own
	}
	return any
}

// cause fills in the cause class and, where messages differ, which.
func (t *Tree) cause(split *Split, first, before, after *turn, earlier []Segment, s *Segment) {
	said := lastSaid(first)
	fresh := after == nil || after.agent != first.agent || after.kind != first.kind // the first of its kind of history
	t.difference(split, first, after, earlier, s)
	switch {
	case first.kind == chat.SideCall:
		split.Cause = CauseSideCall
	case first.kind == chat.Compaction:
		split.Cause = CauseCompaction
	case first.kind == chat.Subagent && fresh:
		split.Cause = CauseSubagent
	case said != nil && said != before:
		split.Cause, split.Message, split.Field = CauseTemplate, -1, ""
		if inOutput(said, split.Token) {
			split.Cause = CauseDrift
		}
	case after != nil && after.kind == chat.Compaction && before == nil:
		split.Cause = CauseCompaction
	case answeredBefore(first, held(earlier)):
		split.Cause = CauseRetry
	default:
		split.Cause = CauseClientEdit
	}
}

// held returns the ids of the turns in segments.
func held(segments []Segment) map[string]bool {
	ids := map[string]bool{}
	for i := range segments {
		for _, turn := range segments[i].Turns {
			ids[turn.ID] = true
		}
	}
	return ids
}

// answeredBefore reports whether an exported turn answered the same prompt.
func answeredBefore(t *turn, exported map[string]bool) bool {
	for _, n := range t.node.parent.children {
		if n.turn != nil && n.turn != t && n.turn.tools == t.tools && exported[n.turn.id] {
			return true
		}
	}
	return false
}

// inOutput reports whether token at lies in what last or a turn above it on
// its path sampled. The first token of a turn that thought does not count: a
// template that leaves the thinking of earlier turns out departs there.
func inOutput(last *turn, at int) bool {
	for n := last.node; n != nil; n = n.parent {
		if n.turn != nil && at >= n.turn.prompt && at < n.turn.prompt+n.turn.output {
			return at > n.turn.prompt || n.msg.Reasoning == ""
		}
	}
	return false
}

// difference finds the first message in which first's prompt departs from the
// history that its parent segment ends with.
func (t *Tree) difference(split *Split, first, after *turn, earlier []Segment, s *Segment) {
	if after == nil || len(earlier[s.Parent].Turns) == 0 {
		return
	}
	turns := earlier[s.Parent].Turns
	theirs, ours := t.byID[turns[len(turns)-1].ID].node.path(), first.node.path()
	i := 0
	for i < len(theirs) && i < len(ours) && theirs[i] == ours[i] {
		i++
	}
	switch {
	case first.tools != after.tools:
		split.Message, split.Field = -1, "tools"
	case i == len(theirs) && i == len(ours):
		return
	case i == len(theirs):
		split.Message, split.Field = i, "added"
	case i == len(ours)-1 && theirs[i].turn == nil:
		split.Message, split.Field = i, "missing" // the prompt ends where the parent's goes on
	default:
		split.Message, split.Field = i, differingField(&theirs[i].msg, &ours[i].msg)
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
