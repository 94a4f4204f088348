package shell_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/shell"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local/localtest"
)

// TestPrompts: of any length and any bytes.
func TestPrompts(t *testing.T) {
	sb := localtest.Boot(t, "", sandbox.Spec{})
	h, err := shell.New(`printf '%s' "${AGENTRL_PROMPT-none}" | cut -c1-20; cat "$AGENTRL_PROMPT_FILE" | wc -c`, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Install(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	adapter := httptest.NewServer(nil)
	t.Cleanup(adapter.Close)
	for prompt, want := range map[string]string{
		"-n 'it'":                   "-n 'it'\n7",
		"a\x00b\xff":                "a\uFFFDb\uFFFD\n8",
		strings.Repeat("x", 200000): "none\n200000",
	} {
		report, err := h.Run(t.Context(), sb, harness.Job{Workdir: "/tmp", Prompt: prompt, BaseURL: adapter.URL, Token: "secret", Model: "policy"})
		if err != nil || report.Outcome != harness.Finished || report.Log != want {
			t.Errorf("Run of a prompt %.20q: %v, %s, log %q; want %q", prompt, err, report.Outcome, report.Log, want)
		}
	}
}
