package openai_test

import (
	"path/filepath"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/openai"
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
		name    string
		dialect chat.Dialect
		kind    chat.Kind
		tools   int
		roles   string
	}{
		{"pi_turn4", openai.Chat{}, chat.Main, 4, "suatatatt"},
		{"opencode_title_side_request", openai.Chat{}, chat.SideCall, 0, "suu"},
		{"codex_default_turn1", openai.Responses{}, chat.Main, 12, "suu"},
		{"codex_tiny_config", openai.Responses{}, chat.Main, 3, "suuatatatt"},
		{"codex_gpt55_custom_apply_patch", openai.Responses{}, chat.Main, 5, "suuatatatt"},
		{"codex_min_turn4", openai.Responses{}, chat.Main, 4, "suuatatatt"},
		{"codex_subagent_turn1", openai.Responses{}, chat.Subagent, 4, "suu"},
		{"codex_main_after_subagent", openai.Responses{}, chat.Main, 9, "suuatatu"},
		{"codex_compaction_request", openai.Responses{}, chat.Compaction, 0, ""},
		{"codex_echo_corner_cases", openai.Responses{}, chat.Main, 4, "suuatatttatattatatatatatatat"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, body := adaptertest.Recorded(t, filepath.Join(dir, c.name+".json"))
			req, err := c.dialect.Decode(r, body)
			if err != nil {
				t.Fatal(err)
			}
			if req.Kind != c.kind || len(req.Tools) != c.tools || c.roles != "" && roles(req.Messages) != c.roles || !req.Stream {
				t.Errorf("kind %q, %d tools, roles %s, stream %v; want %q, %d, %s, true", req.Kind, len(req.Tools), roles(req.Messages), req.Stream, c.kind, c.tools, c.roles)
			}
			if (req.Agent != "") != (c.kind == chat.Subagent) {
				t.Errorf("agent %q", req.Agent)
			}
			if token := c.dialect.Token(r); token != "sess-abc123" {
				t.Errorf("token %q", token)
			}
		})
	}
}
