//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/token"
)

// An ending is how an agent's work ends.
type ending string

const (
	right   ending = "right answer"
	wrong   ending = "wrong answer"
	nothing ending = "no answer"
	crash   ending = "crash"
	vanish  ending = "client vanishes" // in the middle of its last turn
	killed  ending = "sandbox killed"
	budget  ending = "budget spent"
)

// A plan is what one rollout's agent will do.
type plan struct {
	image  string
	want   string
	turns  int
	stream bool
	leave  bool // a client leaves in the middle of a turn and asks again
	end    ending
}

// newPlan draws a plan. One in a hundred has a machine of its own, in which the
// agent is a real process.
func newPlan(i int) *plan {
	p := &plan{image: light, want: fmt.Sprintf("answer %d", i), turns: 2 + rand.IntN(3), stream: rand.IntN(2) == 0, leave: rand.IntN(20) == 0, end: right}
	if rand.IntN(100) == 0 {
		p.image = whole
	}
	switch n := rand.IntN(1000); {
	case n < 200:
		p.end = wrong
	case n < 230:
		p.end = nothing
	case n < 260:
		p.end = crash
	case n < 290:
		p.end = vanish
	case n < 310:
		p.end = killed
	case n < 312:
		p.end = budget
	}
	return p
}

// slowTurn is the length of an answer that the policy takes its time for.
const slowTurn = 77

// policy is the model: one of a few answers, and now and then a fault.
func policy(tok *token.Tokenizer) sglangtest.Policy {
	answers := [][]int32{
		tok.Encode("<think>\nI look.\n</think>\n\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call><|im_end|>"),
		tok.Encode("<think>\nOn I go.\n</think>\n\nThere are files, and none says the number.<|im_end|>"),
		tok.Encode("That is it.<|im_end|>"),
	}
	return func(c sglangtest.Call) sglangtest.Output {
		out := sglangtest.Output{IDs: answers[c.N%len(answers)]}
		if n, _ := c.Sampling["max_new_tokens"].(float64); n == slowTurn {
			out.PerToken = 50e6 // 50 ms
		}
		if rand.IntN(100) < 3 {
			out.Fault = engineFault()
		}
		return out
	}
}

func engineFault() *sglangtest.Fault {
	faults := []sglangtest.Fault{
		{Status: 503, Body: `{"error": {"message": "the queue is full"}}`}, {Status: 500, Body: "Internal Server Error"}, {Status: 502, Body: "bad gateway"},
		{Reset: true}, {CutBody: true}, {Abort: 3}, {Abort: 1}, {Null: true}, {NaN: true},
	}
	return &faults[rand.IntN(len(faults))]
}

// A tally counts how the rollouts ended. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	n      int
	counts map[string]int
	errs   []error
}

func (t *tally) done() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// add counts a rollout and checks what came out of it.
func (t *tally) add(p *plan, samples []agentrl.Sample, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	name, err := verdict(p, samples, err)
	t.counts[name]++
	if err != nil && len(t.errs) < 10 {
		t.errs = append(t.errs, err)
	}
}

// verdict names how a rollout ended; the error says what is wrong with that.
func verdict(p *plan, samples []agentrl.Sample, err error) (string, error) {
	if err != nil || len(samples) == 0 {
		return "refused", fmt.Errorf("%s: %d samples, %w", p.want, len(samples), cmp.Or(err, errors.New("no error")))
	}
	s := samples[0]
	reason, _ := s.Metadata["abort_reason"].(string)
	switch {
	case s.Status == agentrl.Aborted && (reason == "" || reason == "exception:invariant"):
		return "aborted: " + reason, fmt.Errorf("%s: %w", p.want, s.Err)
	case s.Status == agentrl.Aborted:
		return "aborted: " + reason, nil
	case s.Reward == nil || (*s.Reward == 1) != (p.end == right):
		return "wrong reward", fmt.Errorf("%s: %s ended with reward %v", p.want, p.end, s.Reward)
	case s.Segment == nil || s.Segment.Untrained != "" || len(s.LossMask) != s.ResponseLength:
		return "broken sample", fmt.Errorf("%s: %+v", p.want, s)
	}
	return fmt.Sprintf("%s: %s, reward %v", s.Status, p.end, *s.Reward), nil
}

func (t *tally) print(out io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(out, "%7d  %s\n", t.counts[name], name)
	}
}

// wrong is what came out wrong, the first few of it.
func (t *tally) wrong() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.errs...)
}
