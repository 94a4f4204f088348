package agentrl

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/parse"
)

// A twin parses as a replay's parser does, and keeps the first output that the
// recording's parser reads otherwise: of the last turn nothing else tells, since
// no prompt follows it.
type twin struct {
	adapter.Parser
	recorded adapter.Parser

	mu    sync.Mutex
	first *parse.Input
}

// Parse implements adapter.Parser.
func (t *twin) Parse(in parse.Input) parse.Result {
	now := t.Parser.Parse(in)
	if !same(now, t.recorded.Parse(in)) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.first == nil {
			in.IDs = slices.Clone(in.IDs)
			t.first = &in
		}
	}
	return now
}

// same reports whether a client is told the same.
func same(a, b parse.Result) bool {
	return a.Reasoning == b.Reasoning && a.Text == b.Text && reflect.DeepEqual(a.Calls, b.Calls) && reflect.DeepEqual(a.Withheld, b.Withheld)
}

// locate names in d the turn that is read otherwise, and the first token with
// which it is.
func (t *twin) locate(d *Difference, turns []*engineTape) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil {
		return
	}
	in := *t.first
	turn := slices.IndexFunc(turns, func(e *engineTape) bool { return common(e.Response.OutputIDs, in.IDs) == len(in.IDs) })
	if turn < 0 {
		return
	}
	ids := in.IDs
	at := 1
	for ; at < len(ids); at++ {
		in.IDs, in.Cut = ids[:at], true
		in.Text = in.Decode(in.IDs)
		if !same(t.Parser.Parse(in), t.recorded.Parse(in)) {
			break
		}
	}
	d.Turn, d.Token = turn, len(turns[turn].Input)+at-1
	d.What = strings.TrimSuffix(fmt.Sprintf("what turn %d sampled is read otherwise from token %d on, %q; %s", turn, d.Token, in.Decode(ids[max(at-1, 0):at]), d.What), "; ")
}
