package adapter_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/internal/cases"
)

const repo = "/home/USER/repo"

// sampledClaude is what the model said in the recording of Claude Code's
// corner cases where the client sent it back otherwise, by turn.
var sampledClaude = []string{
	2:  "<think>order</think>" + callText("Bash", `{ "description": "odd order",  "timeout": 5000, "command": "echo \u00e9 \"q\" | cat" }`),
	3:  callText("Read", `{"file_path": "`+repo+`/calc.py", "offset": "1", "limit": "5"}`) + callText("Bash", `{"command": "echo hi", "foo": "bar"}`),
	4:  callText("Edit", `{"file_path": "`+repo+`/calc.py", "old_string": "return a - b", "new_string": "return a + b"}`),
	5:  callText("Write", `{"file_path": "`+repo+`/new.py", "content": "x = 1   \n\n\n"}`),
	8:  callText("Bash", `{"command": "echo trunc`),
	9:  callText("Bash", `{"command": "cd `+repo+` && false", "description": "fail"}`),
	12: "\n\n" + callText("Bash", `{"command": "echo c", "timeout": 1e3}`),
	13: "你好 \u2028 tab\there" + callText("Bash", `{"command": "echo \"你好\"; printf \"a\\tb\"", "timeout": 12345678901234567890, "run_in_background": false}`),
}

// played are the recorded conversations without compaction or sub-agents: each
// is one segment, however the client writes its history.
var played = []struct {
	file     string
	client   wireClient
	texts    []string
	turns    int
	rewrites map[string]int // of the trajectory
}{
	{"cc332_echo_corner_cases.json", claudeCode{}, sampledClaude, 15, map[string]int{
		trajectory.RewriteReadNumber: 1, trajectory.RewriteEditDefault: 1, trajectory.RewriteBlanks: 1,
		trajectory.RewriteBashCD: 1, trajectory.RewriteNumbers: 1,
	}},
	{"cc332_turn4.json", claudeCode{}, nil, 4, nil},
	{"cc332_after_empty_reply.json", claudeCode{}, nil, 2, nil},
	{"cc332_after_max_tokens.json", claudeCode{}, nil, 3, nil},
	{"cc332_main_after_sync_subagents.json", claudeCode{}, nil, 2, nil},
	{"codex_echo_corner_cases.json", codex{}, nil, 12, nil},
	{"codex_min_turn4.json", codex{}, nil, 4, nil},
	{"codex_tiny_config.json", codex{}, nil, 4, nil},
	{"codex_gpt55_custom_apply_patch.json", codex{}, nil, 4, nil},
	{"codex_main_after_subagent.json", codex{}, nil, 3, nil},
	{"pi_turn4.json", chatClient{}, nil, 4, nil},
}

// TestTrajectoryOfRecordedClients plays what real clients sent, with the ids
// that this adapter gives out, under both policies.
func TestTrajectoryOfRecordedClients(t *testing.T) {
	cases.Dir(t, "clients")
	turns, trained, trainedToo := 0, 0, 0
	var canonical trajectory.CanonicalCounts
	for _, c := range played {
		t.Run(c.file, func(t *testing.T) {
			record := func(policy trajectory.Policy) (adapter.Record, string) {
				p := &play{client: c.client, rec: readRecording(t, c.file), ids: map[string]string{}, texts: c.texts}
				r, log := newLogged(t, &model{texts: p.script("All done.")}, func(o *adapter.Options) { o.Trajectory.Policy = policy })
				ses := r.open("s", adapter.SessionOptions{})
				p.all(r, ses.Token)
				return r.finish("s"), log.lines.String()
			}
			rec, log := record(trajectory.Exact)
			if len(rec.Segments) != 1 || rec.Segments[0].Untrained != "" || rec.Turns != c.turns {
				t.Fatalf("%d segments of %d turns, want 1 of %d: %+v", len(rec.Segments), rec.Turns, c.turns, splits(rec.Segments))
			}
			if out, err := prooflog(t, log, rec.Segments); err != nil {
				t.Errorf("prooflog: %s", out)
			}
			if got := rewritesOf(rec); len(got) != len(c.rewrites) || len(got) > 0 && !cmp.Equal(got, c.rewrites) {
				t.Errorf("rewrites %v, want %v", got, c.rewrites)
			}
			turns += rec.Turns
			trained += rec.Segments[0].Owned
			rec, _ = record(trajectory.Canonical)
			for _, s := range rec.Segments {
				trainedToo += s.Owned
			}
			counts := rec.Tree.Report().Canonical
			canonical.Clean += counts.Clean
			canonical.Merges += counts.Merges
			canonical.Realigns += counts.Realigns
			canonical.Forks += counts.Forks
		})
	}
	t.Logf("figure: %d recorded conversations, %d turns: a segment each, as the engine's log has it, %d tokens trained; canonical: %d of them, %+v", len(played), turns, trained, trainedToo, canonical)
}

// rewritesOf picks the normalisations of the trajectory.
func rewritesOf(rec adapter.Record) map[string]int {
	return rec.Tree.Report().Rewrites
}

// splits says why there are segments, for messages of tests.
func splits(segments []trajectory.Segment) (out []trajectory.Split) {
	for _, s := range segments {
		if s.Split != nil {
			out = append(out, *s.Split)
		}
	}
	return out
}

// labels lists what segments are.
func labels(segments []trajectory.Segment) (out []chat.Kind) {
	for _, s := range segments {
		out = append(out, s.Label)
	}
	return out
}

// TestTrajectoryOfCompaction plays Claude Code's compaction: the main chain, the
// summary, and what follows it, which keeps the newest round.
func TestTrajectoryOfCompaction(t *testing.T) {
	before := &play{client: claudeCode{}, rec: readRecording(t, "cc332_compaction_request.json"), ids: map[string]string{}}
	after := &play{client: claudeCode{}, rec: readRecording(t, "cc332_after_compaction.json"), ids: before.ids}
	entries := before.client.entries(before.rec.Body)
	kept := after.client.entries(after.rec.Body)[2:4] // the newest round
	main := *before
	main.rec.Body = main.client.with(before.rec.Body, append(entries[:len(entries)-1:len(entries)-1], kept...))
	texts := append(main.script("step 5"), "the summary", "step 6")
	r, log := newLogged(t, &model{texts: texts})
	ses := r.open("s", adapter.SessionOptions{})
	main.all(r, ses.Token)
	summed := append(main.history[:len(main.history)-2:len(main.history)-2], entries[len(entries)-1])
	r.send(ses.Token, before.rec, before.client.with(before.rec.Body, summed))
	later := append(after.client.entries(after.rec.Body)[:2:2], main.history[len(main.history)-2:]...)
	r.send(ses.Token, after.rec, after.client.with(after.rec.Body, later))
	rec := r.finish("s")
	if want := []chat.Kind{chat.Main, chat.Compaction, chat.Main}; !cmp.Equal(labels(rec.Segments), want) {
		t.Fatalf("labels %q, want %q: %+v", labels(rec.Segments), want, splits(rec.Segments))
	}
	for i, s := range splits(rec.Segments) {
		if s.Cause != trajectory.CauseCompaction || rec.Segments[i+1].Parent != i {
			t.Errorf("segment %d: %+v, parent %d", i+1, s, rec.Segments[i+1].Parent)
		}
	}
	out, err := prooflog(t, log.lines.String(), rec.Segments)
	if err != nil {
		t.Errorf("prooflog: %s", out)
	}
	t.Logf("figure: compaction: %s", out)
}

// TestTrajectoryOfSubagents plays Claude Code's sub-agent between two turns of
// the agent that started it, and Codex's compaction, which drops the tools.
func TestTrajectoryOfSubagents(t *testing.T) {
	cases.Dir(t, "clients")
	for _, c := range []struct {
		name          string
		client        wireClient
		first, second string // recordings
		want          chat.Kind
		cause         string
	}{
		{"Claude Code's sub-agent", claudeCode{}, "cc332_main_after_sync_subagents.json", "cc332_subagent_explore.json", chat.Subagent, trajectory.CauseSubagent},
		{"Codex's sub-agent", codex{}, "codex_main_after_subagent.json", "codex_subagent_turn1.json", chat.Subagent, trajectory.CauseSubagent},
		{"Codex's compaction", codex{}, "codex_min_turn4.json", "codex_compaction_request.json", chat.Compaction, trajectory.CauseCompaction},
		{"Claude Code's title", claudeCode{}, "cc197_turn1.json", "cc197_default_env_title_side_request.json", chat.SideCall, trajectory.CauseSideCall},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := &play{client: c.client, rec: readRecording(t, c.first), ids: map[string]string{}}
			second := readRecording(t, c.second)
			r, log := newLogged(t, &model{texts: append(first.script("main is done"), "the other is done")})
			ses := r.open("s", adapter.SessionOptions{})
			first.all(r, ses.Token)
			if c.want == chat.Compaction { // of this very history
				ask := c.client.entries(second.Body)
				second.Body = c.client.with(second.Body, append(first.history, ask[len(ask)-1]))
			}
			r.send(ses.Token, second, second.Body)
			rec := r.finish("s")
			if want := []chat.Kind{chat.Main, c.want}; !cmp.Equal(labels(rec.Segments), want) {
				t.Fatalf("labels %q, want %q: %+v", labels(rec.Segments), want, splits(rec.Segments))
			}
			if s := splits(rec.Segments)[0]; s.Cause != c.cause || rec.Segments[1].Parent != 0 {
				t.Errorf("%+v, parent %d; want %s, 0", s, rec.Segments[1].Parent, c.cause)
			}
			if out, err := prooflog(t, log.lines.String(), rec.Segments); err != nil {
				t.Errorf("prooflog: %s", out)
			}
		})
	}
}
