package harnesstest_test

import (
	"path/filepath"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/servertest"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/claudecode"
	"github.com/agentrl-go/agentrl/internal/cases"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local/localtest"
)

// TestSettingsOfTheRepository: what a repository sets for its own developers
// leads Claude Code to no other model.
func TestSettingsOfTheRepository(t *testing.T) {
	const settings = `mkdir -p /srv/repo/.claude && cd /srv/repo && git init -q && chown -R agent: . && cat >.claude/settings.json <<'EOF'
{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_AUTH_TOKEN": "theirs", "ANTHROPIC_MODEL": "theirs"}, "model": "opus"}
EOF`
	for _, version := range []string{"2.1.332", "2.1.197"} {
		t.Run(version, func(t *testing.T) {
			h, err := claudecode.New(claudecode.Options{Program: asset(t, "claude-"+version+"-linux-x64.tgz")})
			if err != nil {
				t.Fatal(err)
			}
			sb := localtest.Boot(t, "", sandbox.Spec{})
			if err := h.Install(t.Context(), sb); err != nil {
				t.Fatal(err)
			}
			if _, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: settings}); err != nil {
				t.Fatal(err)
			}
			r := servertest.New(t, servertest.Options{Checkpoint: filepath.Join(cases.Root(), "testdata/tokenizer"), Policy: func(string) string { return "Done." }})
			report, err := h.Run(t.Context(), sb, harness.Job{
				Workdir: "/srv/repo", Prompt: "Fix it.", BaseURL: "http://127.0.0.1:" + r.Port, Token: r.Session.Token, Model: "policy", MaxContext: 200_000,
			})
			if err != nil || report.Outcome != harness.Finished {
				t.Errorf("Run: %v, %s, %s", err, report.Outcome, report.Log)
			}
		})
	}
}
