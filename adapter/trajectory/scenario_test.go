package trajectory_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

var update = flag.Bool("update", false, "write testdata/scenarios anew")

// A scenario plays a conversation. Its golden file shows prompts, segments and
// masks; trained and causes say what matters in them.
type scenario struct {
	name    string
	play    func(*player)
	trained int      // trainable segments
	causes  []string // of the segments after the first
}

var start = []chat.Message{sys("be helpful"), user("fix it")}

func plus(m []chat.Message, more ...chat.Message) []chat.Message {
	return append(slices.Clip(m), more...)
}

var scenarios = []scenario{
	{"two_turns", func(p *player) {
		h := p.ask(start, reply{think: "hm", text: "re-run", calls: bash(`{"command":"ls"}`)})
		p.ask(plus(h, tool("a b")), reply{text: "all-done"})
	}, 1, nil},
	{"cut_by_length", func(p *player) {
		h := p.ask(start, reply{text: "half a", finish: chat.FinishLength})
		p.ask(plus(h, user("go on")), reply{text: "sentence", finish: chat.FinishLength})
	}, 1, nil},
	{"cut_by_abort", func(p *player) {
		h := p.ask(start, reply{text: "half a", finish: chat.FinishAbort})
		p.ask(plus(h, user("go on")), reply{text: "sentence"})
	}, 1, nil},
	{"abort_at_the_end", func(p *player) {
		h := p.ask(start, reply{text: "one"})
		p.ask(plus(h, user("go on")), reply{text: "half a", finish: chat.FinishAbort})
	}, 1, nil},
	{"stop_string", func(p *player) {
		h := p.ask(start, reply{text: "one STOP", echo: &chat.Message{Role: chat.Assistant, Content: "one STOP"}})
		p.ask(plus(h, user("go on")), reply{text: "two"})
	}, 1, nil},
	{"empty_output", func(p *player) {
		h := p.ask(start, reply{finish: chat.FinishLength})
		p.ask(plus(h, user("go on")), reply{text: "two"})
	}, 1, nil},
	{"parallel_results", func(p *player) {
		h := p.ask(start, reply{text: "both", calls: append(bash(`{"command":"a"}`), bash(`{"command":"b"}`)...)})
		p.ask(plus(h, tool("of a"), tool("of b")), reply{text: "done"})
	}, 1, nil},
	{"retry_superseded", func(p *player) {
		p.ask(start, reply{text: "one"})
		h := p.ask(start, reply{text: "other"})
		p.ask(plus(h, user("go on")), reply{text: "two"})
	}, 1, nil},
	{"retry_alike", func(p *player) {
		p.ask(start, reply{text: "same"})
		h := p.ask(start, reply{text: "same"})
		p.ask(plus(h, user("go on")), reply{text: "two"})
	}, 1, nil},
	{"retry_alike_older_named", func(p *player) {
		h := p.ask(start, reply{text: "same", echo: &chat.Message{Role: chat.Assistant, Content: "same", Turn: "this"}})
		p.ask(start, reply{text: "same"})
		p.ask(plus(h, user("go on")), reply{text: "two"})
	}, 2, []string{trajectory.CauseRetry}},
	{"retry_after_use", func(p *player) {
		h := p.ask(start, reply{text: "one"})
		p.ask(plus(h, user("go on")), reply{text: "two"})
		h = p.ask(start, reply{text: "other"})
		p.ask(plus(h, user("go on")), reply{text: "three"})
	}, 2, []string{trajectory.CauseRetry}},
	{"edit_of_the_task", func(p *player) {
		h := p.ask(start, reply{text: "one"})
		p.ask(plus(h, user("go on")), reply{text: "two"})
		p.ask([]chat.Message{start[0], user("fix that"), h[2], user("go on")}, reply{text: "three"})
	}, 2, []string{trajectory.CauseClientEdit}},
	{"edit_of_an_answer", func(p *player) {
		h := p.ask(start, reply{text: "one"})
		h = p.ask(plus(h, user("go on")), reply{text: "two"})
		h[4].Content = "two and more"
		p.ask(plus(h, user("go on")), reply{text: "three"})
	}, 2, []string{trajectory.CauseClientEdit}},
	{"edit_of_arguments", func(p *player) {
		h := p.ask(start, reply{text: "one", calls: bash(`{"command":"ls"}`), echo: &chat.Message{Role: chat.Assistant, Content: "one", ToolCalls: bash(`{"command":"ls -la"}`), Turn: "this"}})
		p.ask(plus(h, tool("files")), reply{text: "two"})
	}, 2, []string{trajectory.CauseClientEdit}},
	{"branch", func(p *player) {
		h := p.ask(start, reply{text: "re-run"})
		p.ask(plus(h, user("left")), reply{text: "two"})
		p.ask(plus(h, user("right")), reply{text: "three"})
	}, 2, []string{trajectory.CauseClientEdit}},
	{"rollback", func(p *player) {
		h := p.ask(start, reply{text: "one"})
		h = p.ask(plus(h, user("go on")), reply{text: "two"})
		p.ask(plus(h, user("go on")), reply{text: "three"})
		p.ask(h[:len(h)-1], reply{text: "other"})
	}, 2, []string{trajectory.CauseRetry}},
	{"dropped_turn", func(p *player) {
		h := p.ask(start, reply{text: "one"})
		p.ask(plus(h, user("go on")), reply{think: "only this"})
		p.ask(plus(h, user("go on"), user("no visible output")), reply{text: "two"})
	}, 2, []string{trajectory.CauseClientEdit}},
	{"compaction", func(p *player) {
		h := p.ask(start, reply{text: "one"})
		kept := p.ask(plus(h, user("go on")), reply{text: "two"})
		p.ask(plus(kept, user("go on")), reply{text: "three"})
		p.ask(plus(kept, user("sum up")), reply{text: "sum-mary", kind: chat.Compaction})
		h = p.ask([]chat.Message{start[0], user("continued from sum-mary")}, reply{text: "four"})
		p.ask(plus(h, user("go on")), reply{text: "five"})
	}, 3, []string{trajectory.CauseCompaction, trajectory.CauseCompaction}},
	{"compaction_without_tools", func(p *player) {
		tools := []chat.Tool{{Name: "Bash"}}
		h := p.ask(start, reply{text: "one", tools: tools})
		p.ask(plus(h, user("sum up")), reply{text: "summary", kind: chat.Compaction})
		p.ask([]chat.Message{start[0], user("continued from summary")}, reply{text: "two", tools: tools})
	}, 3, []string{trajectory.CauseCompaction, trajectory.CauseCompaction}},
	{"subagents", func(p *player) {
		h := p.ask(start, reply{text: "dispatch", calls: []chat.ToolCall{{Name: "Agent", Arguments: []byte(`{"n":1}`)}, {Name: "Agent", Arguments: []byte(`{"n":2}`)}}})
		a := p.ask([]chat.Message{sys("an agent"), user("find bug")}, reply{text: "a-one", kind: chat.Subagent, agent: "a"})
		b := p.ask([]chat.Message{sys("an agent"), user("find tests")}, reply{text: "b-one", kind: chat.Subagent, agent: "b"})
		h = p.ask(plus(h, tool("launched"), tool("launched")), reply{text: "wait"})
		p.ask(plus(a, tool("x")), reply{text: "a-two", kind: chat.Subagent, agent: "a"})
		p.ask(plus(b, tool("x")), reply{text: "b-two", kind: chat.Subagent, agent: "b"})
		p.ask(plus(h, user("both are done")), reply{text: "done"})
	}, 3, []string{trajectory.CauseSubagent, trajectory.CauseSubagent}},
	{"side_call_first", func(p *player) {
		p.ask([]chat.Message{sys("a title"), user("fix it")}, reply{text: "Title", kind: chat.SideCall})
		p.ask(start, reply{text: "one"})
	}, 1, []string{trajectory.CauseSideCall}},
	{"side_call_that_continues", func(p *player) {
		h := p.ask(start, reply{text: "one"})
		p.ask(plus(h, user("a title")), reply{text: "Title", kind: chat.SideCall})
	}, 1, nil},
	{"think_stripping_client", func(p *player) {
		h := p.ask(start, reply{think: "deep-ly", text: "one", echo: &chat.Message{Role: chat.Assistant, Content: "one"}})
		h = p.ask(plus(h, user("go on")), reply{think: "again", text: "two ", echo: &chat.Message{Role: chat.Assistant, Content: "two"}})
		p.ask(plus(h, user("go on")), reply{text: "three"})
	}, 1, nil},
	{"rewriting_template", func(p *player) {
		p.strip = true
		h := p.ask(start, reply{think: "deep-ly", text: "one"})
		h = p.ask(plus(h, user("go on")), reply{think: "again", text: "two"})
		p.ask(plus(h, user("go on")), reply{text: "three"})
	}, 1, nil},
	{"drift_of_a_whole_rendering", func(p *player) {
		p.whole = true
		h := p.ask(start, reply{text: "a re-run"})
		p.ask(plus(h, user("go on")), reply{text: "two"})
	}, 2, []string{trajectory.CauseDrift}},
	{"template_of_a_whole_rendering", func(p *player) {
		p.whole, p.strip = true, true
		h := p.ask(start, reply{text: "one", tools: []chat.Tool{{Name: "Bash"}}})
		p.words["Bash"] = p.id("Shell") // the template prints the tools otherwise now
		p.ask(plus(h, user("go on")), reply{text: "two", tools: []chat.Tool{{Name: "Bash"}}})
	}, 2, []string{trajectory.CauseTemplate}},
	{"stripping_of_a_whole_rendering", func(p *player) {
		p.whole, p.strip = true, true
		h := p.ask(start, reply{think: "hm", text: "one"})
		p.ask(plus(h, user("go on")), reply{text: "two"})
	}, 2, []string{trajectory.CauseTemplate}},
	{"tools_changed", func(p *player) {
		h := p.ask(start, reply{text: "one", tools: []chat.Tool{{Name: "Bash"}}})
		p.ask(plus(h, user("go on")), reply{text: "two", tools: []chat.Tool{{Name: "Bash"}, {Name: "Edit"}}})
	}, 2, []string{trajectory.CauseClientEdit}},
	{"weight_update", func(p *player) {
		h := p.ask(start, reply{text: "one two", versions: []trajectory.Span{{From: 0, To: 1, Version: "1"}, {From: 1, To: 3, Version: "2"}}})
		p.ask(plus(h, user("go on")), reply{text: "three", versions: []trajectory.Span{{From: 0, To: 2, Version: "1"}}})
	}, 1, nil},
}

func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			p := newPlayer(t, trajectory.Options{})
			sc.play(p)
			segments := p.segments(0)
			checkPlayed(t, p, segments)
			trained, causes := 0, []string(nil)
			for _, s := range segments {
				if s.Untrained == "" {
					trained++
				}
				if s.Split != nil {
					causes = append(causes, s.Split.Cause)
				}
			}
			if trained != sc.trained || !slices.Equal(causes, sc.causes) {
				t.Errorf("%d trainable segments, causes %v; want %d, %v\n%s", trained, causes, sc.trained, sc.causes, p.show(segments))
			}
			golden(t, sc.name, p.show(segments))
		})
	}
	t.Logf("figure: %d scenarios of clients and templates", len(scenarios))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "scenarios", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// checkPlayed holds the segments against the engine's log: what is trained is
// what was sampled, after what was given, once.
func checkPlayed(t *testing.T, p *player, segments []trajectory.Segment) {
	t.Helper()
	if err := trajectory.CheckSegments(segments); err != nil {
		t.Errorf("CheckSegments: %v", err)
	}
	owners := map[string]int{}
	for _, s := range segments {
		for _, turn := range s.Turns {
			c := p.calls[slices.IndexFunc(p.calls, func(c call) bool { return c.turn == turn.ID })]
			if !slices.Equal(c.prompt, s.Tokens[:turn.Prompt]) || !slices.Equal(c.output, s.Tokens[turn.Prompt:turn.Prompt+turn.Output]) {
				t.Errorf("segment %d: turn %s is not what the engine was given and gave", s.Index, turn.ID)
			}
			if !turn.Owned {
				continue
			}
			owners[turn.ID]++
			from := turn.Prompt - s.PromptLen
			if !slices.Equal(c.logProbs, s.LogProbs[from:from+turn.Output]) {
				t.Errorf("segment %d: turn %s has other logprobs than the engine gave", s.Index, turn.ID)
			}
		}
	}
	superseded := p.tree.Report().Superseded
	for _, c := range p.calls {
		if n := owners[c.turn]; n > 1 || n == 0 && !slices.Contains(superseded, c.turn) && !context(segments, c.turn) {
			t.Errorf("turn %s is trained %d times", c.turn, n)
		}
	}
}

// context reports whether a turn is one that is never trained.
func context(segments []trajectory.Segment, id string) bool {
	return slices.ContainsFunc(segments, func(s trajectory.Segment) bool {
		return slices.ContainsFunc(s.Turns, func(t trajectory.SegmentTurn) bool {
			return t.ID == id && (t.Finish == chat.FinishAbort || t.Kind == chat.SideCall)
		})
	})
}
