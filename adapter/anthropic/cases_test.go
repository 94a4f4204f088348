package anthropic_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/adapter/anthropic"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/cases"
)

// roles is a conversation in short: s, u, a and t.
func roles(m []chat.Message) string {
	var b []byte
	for _, msg := range m {
		b = append(b, msg.Role[0])
	}
	return string(b)
}

func TestRecordedRequests(t *testing.T) {
	dir := cases.Dir(t, "clients")
	for _, c := range []struct {
		name   string
		kind   chat.Kind
		tools  int
		roles  string
		stream bool
	}{
		{"cc197_turn1", chat.Main, 24, "suuu", true},
		{"cc332_turn1", chat.Main, 21, "suuuu", true},
		{"cc332_turn4", chat.Main, 21, "suuuuatatat", true},
		{"cc332_bare", chat.Main, 3, "su", true},
		{"cc332_min_tools", chat.Main, 4, "suuuu", true},
		{"cc332_nonstreaming_fallback", chat.Main, 21, "suuuu", false},
		{"cc197_default_env_title_side_request", chat.SideCall, 0, "su", true},
		{"cc332_websearch_side_request", chat.SideCall, 0, "su", true},
		{"cc332_subagent_explore", chat.Subagent, 10, "suuu", true},
		{"cc332_compaction_request", chat.Compaction, 21, "suuuuatatatu", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, body := adaptertest.Recorded(t, filepath.Join(dir, c.name+".json"))
			req, err := anthropic.Messages{}.Decode(r, body)
			if err != nil {
				t.Fatal(err)
			}
			if req.Kind != c.kind || len(req.Tools) != c.tools || roles(req.Messages) != c.roles || req.Stream != c.stream {
				t.Errorf("kind %q, %d tools, roles %s, stream %v; want %q, %d, %s, %v",
					req.Kind, len(req.Tools), roles(req.Messages), req.Stream, c.kind, c.tools, c.roles, c.stream)
			}
			if (req.Agent != "") != (c.kind == chat.Subagent) {
				t.Errorf("agent %q", req.Agent)
			}
			if token := (anthropic.Messages{}).Token(r); token != "sess-abc123" {
				t.Errorf("token %q", token)
			}
		})
	}
}

func TestRecordedResultsAreInTheOrderOfTheCalls(t *testing.T) {
	r, body := adaptertest.Recorded(t, filepath.Join(cases.Dir(t, "clients"), "cc332_echo_corner_cases.json"))
	req, err := anthropic.Messages{}.Decode(r, body)
	if err != nil {
		t.Fatal(err)
	}
	if n := countOf(req.Rewrites, chat.RewriteResultOrder); n < 2 {
		t.Errorf("%d groups of results were put into order, want at least 2", n)
	}
	i := slices.IndexFunc(req.Messages, func(m chat.Message) bool { return m.Content == "Parallel." })
	if i < 0 || len(req.Messages[i].ToolCalls) != 3 {
		t.Fatal("the parallel turn is not there")
	}
	for j, want := range []string{"1\tdef add", "On branch main", "1\tadd() sub"} {
		if got := req.Messages[i+1+j].Content; len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("result %d is %q, want %q…", j, got, want)
		}
	}
}

func countOf(list []string, name string) (n int) {
	for _, s := range list {
		if s == name {
			n++
		}
	}
	return n
}
