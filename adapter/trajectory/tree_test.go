package trajectory_test

import (
	"encoding/json"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

func goodTurn() trajectory.Turn {
	return trajectory.Turn{
		ID: "a", Prompt: start, Echo: chat.Message{Role: chat.Assistant, Content: "one"},
		PromptIDs: []int32{1, 2}, OutputIDs: []int32{3, 4}, LogProbs: []float32{-1, -2}, Finish: chat.FinishStop,
	}
}

func TestRecordRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*trajectory.Turn)
		want  string // in the error
	}{
		{"a logprob less", func(t *trajectory.Turn) { t.LogProbs = t.LogProbs[1:] }, "1 logprobs for 2 output ids"},
		{"an echo of the user", func(t *trajectory.Turn) { t.Echo.Role = chat.User }, `role "user"`},
		{"no prompt", func(t *trajectory.Turn) { t.Prompt = nil }, "0 prompt messages"},
		{"no prompt ids", func(t *trajectory.Turn) { t.PromptIDs = nil }, "0 prompt ids"},
		{"versions with a gap", func(t *trajectory.Turn) { t.Versions = []trajectory.Span{{From: 1, To: 2, Version: "1"}} }, "leave the output at 0"},
		{"versions of a part", func(t *trajectory.Turn) { t.Versions = []trajectory.Span{{From: 0, To: 1, Version: "1"}} }, "cover 1 of 2"},
		{"an empty version", func(t *trajectory.Turn) { t.Versions = []trajectory.Span{{From: 0, To: 0, Version: "1"}} }, "leave the output at 0"},
		{"a taken id", func(t *trajectory.Turn) { t.ID = "taken" }, "the id is taken"},
	} {
		tree := trajectory.New(trajectory.Options{})
		taken := goodTurn()
		taken.ID = "taken"
		if err := tree.Record(taken); err != nil {
			t.Fatal(err)
		}
		turn := goodTurn()
		c.spoil(&turn)
		if err := tree.Record(turn); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Record: %v, want %q", c.name, err, c.want)
		}
		if n := tree.Report().Turns; n != 1 {
			t.Errorf("%s: %d turns afterwards", c.name, n)
		}
	}
}

func TestCanonicalIgnoresEmptyPrompt(t *testing.T) {
	tree := trajectory.New(trajectory.Options{Policy: trajectory.Canonical})
	turn := goodTurn()
	turn.Prompt = nil
	if err := tree.Record(turn); err != nil {
		t.Fatal(err)
	}
	if segments, err := tree.Segments(0); err != nil || len(segments) != 0 {
		t.Errorf("Segments: %v, %v", segments, err)
	}
}

func TestUntrained(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name  string
		opts  trajectory.Options
		spoil func(*trajectory.Turn)
		max   int
		want  trajectory.Reason
	}{
		{"a good turn", trajectory.Options{}, func(*trajectory.Turn) {}, 0, ""},
		{"no number", trajectory.Options{}, func(t *trajectory.Turn) { t.LogProbs[1] = nan }, 0, trajectory.ReasonLogProb},
		{"positive", trajectory.Options{}, func(t *trajectory.Turn) { t.LogProbs[1] = 0.5 }, 0, trajectory.ReasonLogProb},
		{"rounded above 0", trajectory.Options{}, func(t *trajectory.Turn) { t.LogProbs[1] = 5e-5 }, 0, ""},
		{"error value", trajectory.Options{}, func(t *trajectory.Turn) { t.LogProbs[1] = -9999 }, 0, trajectory.ReasonSentinel},
		{"no logprobs", trajectory.Options{}, func(t *trajectory.Turn) { t.LogProbs = nil }, 0, trajectory.ReasonNoLogProb},
		{"negative id", trajectory.Options{}, func(t *trajectory.Turn) { t.PromptIDs[0] = -1 }, 0, trajectory.ReasonToken},
		{"unknown finish", trajectory.Options{}, func(t *trajectory.Turn) { t.Finish = "tool_calls" }, 0, trajectory.ReasonShape},
		{"unknown kind", trajectory.Options{}, func(t *trajectory.Turn) { t.Kind = "other" }, 0, trajectory.ReasonShape},
		{"nothing sampled", trajectory.Options{}, func(t *trajectory.Turn) { t.OutputIDs, t.LogProbs = nil, nil }, 0, trajectory.ReasonNothing},
		{"aborted", trajectory.Options{}, func(t *trajectory.Turn) { t.Finish = chat.FinishAbort }, 0, trajectory.ReasonNothing},
		{"side call", trajectory.Options{}, func(t *trajectory.Turn) { t.Kind = chat.SideCall }, 0, trajectory.ReasonSideCall},
		{"trained side call", trajectory.Options{TrainSideCalls: true}, func(t *trajectory.Turn) { t.Kind = chat.SideCall }, 0, ""},
		{"sub-agent", trajectory.Options{}, func(t *trajectory.Turn) { t.Kind = chat.Subagent }, 0, ""},
		{"skipped sub-agent", trajectory.Options{SkipSubagents: true}, func(t *trajectory.Turn) { t.Kind = chat.Subagent }, 0, trajectory.ReasonSubagent},
		{"too long", trajectory.Options{}, func(*trajectory.Turn) {}, 3, trajectory.ReasonTooLong},
		{"as long as allowed", trajectory.Options{}, func(*trajectory.Turn) {}, 4, ""},
	} {
		tree := trajectory.New(c.opts)
		turn := goodTurn()
		c.spoil(&turn)
		if err := tree.Record(turn); err != nil {
			t.Fatal(err)
		}
		segments, err := tree.Segments(c.max)
		if err != nil || len(segments) != 1 || segments[0].Untrained != string(c.want) {
			t.Errorf("%s: Segments: %+v, %v, want untrained %q", c.name, segments, err, c.want)
			continue
		}
		if w := segments[0].Weight; (w == 1) != (c.want == "") {
			t.Errorf("%s: weight %g", c.name, w)
		}
		if text, err := json.Marshal(segments); err != nil {
			t.Errorf("%s: Marshal: %v, %s", c.name, err, text)
		}
	}
}

func TestMaxTokensCutsAtATurn(t *testing.T) {
	p := newPlayer(t, trajectory.Options{})
	h := p.ask(start, reply{text: "one"})
	h = p.ask(plus(h, user("go on")), reply{text: "two"})
	p.ask(plus(h, user("left")), reply{text: "three", finish: chat.FinishLength})
	p.ask(plus(h, user("right")), reply{text: "four"})
	for _, c := range []struct {
		max       int
		tokens    []int // of each segment
		untrained []string
		cut       []int
	}{
		{0, []int{23, 24}, []string{"", ""}, []int{0, 0}},
		{24, []int{23, 24}, []string{"", ""}, []int{0, 0}},
		{23, []int{23, 18}, []string{"", "over_max_tokens"}, []int{0, 1}},
		{22, []int{18, 18}, []string{"", "over_max_tokens"}, []int{1, 1}},
		{11, []int{11, 11}, []string{"", "over_max_tokens"}, []int{2, 2}},
		{10, []int{11, 11}, []string{"over_max_tokens", "over_max_tokens"}, []int{2, 2}},
	} {
		var tokens, cut []int
		var untrained []string
		segments := p.segments(c.max)
		for _, s := range segments {
			tokens, untrained, cut = append(tokens, len(s.Tokens)), append(untrained, s.Untrained), append(cut, s.CutTurns)
		}
		if !cmp.Equal(tokens, c.tokens) || !cmp.Equal(untrained, c.untrained) || !cmp.Equal(cut, c.cut) {
			t.Errorf("Segments(%d): tokens %v, untrained %q, cut %v\n%s", c.max, tokens, untrained, cut, p.show(segments))
		}
		if err := trajectory.CheckSegments(segments); err != nil {
			t.Errorf("Segments(%d): %v", c.max, err)
		}
	}
	if _, err := p.tree.Segments(-1); err == nil {
		t.Error("Segments(-1): no error")
	}
}

func TestSegmentsShareNothing(t *testing.T) {
	p := newPlayer(t, trajectory.Options{})
	h := p.ask(start, reply{text: "one", versions: []trajectory.Span{{From: 0, To: 2, Version: "1"}}})
	p.ask(plus(h, user("go on")), reply{text: "two"})
	first := p.segments(0)
	want := p.show(first)
	spoiled := p.segments(0)
	for i := range spoiled[0].Tokens {
		spoiled[0].Tokens[i] = -1
	}
	spoiled[0].LogProbs[0], spoiled[0].Versions[0].Version, spoiled[0].Turns[0].ID = 7, "9", "x"
	if got := p.show(p.segments(0)); got != want {
		t.Errorf("a changed segment changed the tree:\n%s\nwas\n%s", got, want)
	}
}

func TestSegmentJSON(t *testing.T) {
	s := richSegments(t)[1]
	s.Text = "decoded"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "segment_json", string(text)+"\n")
	if diff := cmp.Diff(s, copyOf(t, s)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// TestConcurrentUse lets agents of one session record, ask and export at once.
func TestConcurrentUse(t *testing.T) {
	tree := trajectory.New(trajectory.Options{})
	var agents sync.WaitGroup
	for _, name := range []string{"", "a", "b", "c"} {
		agents.Go(func() {
			h := []chat.Message{sys(name), user("fix it")}
			for i := range int32(25) {
				ids := append(tree.Continue(h, nil).IDs, 7, i)
				echo := chat.Message{Role: chat.Assistant, Content: name}
				err := tree.Record(trajectory.Turn{Prompt: h, Echo: echo, PromptIDs: ids, OutputIDs: []int32{8}, LogProbs: []float32{-1}, Finish: chat.FinishStop, Agent: name})
				if err != nil {
					t.Error(err)
				}
				h = append(h, echo, user("go on"))
				if _, err := tree.Segments(0); err != nil {
					t.Error(err)
				}
				tree.Report()
			}
		})
	}
	agents.Wait()
	segments, err := tree.Segments(0)
	if err != nil || len(segments) != 4 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	if err := trajectory.CheckSegments(segments); err != nil {
		t.Error(err)
	}
}
