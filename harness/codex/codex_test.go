package codex_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/codex"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local/localtest"
)

// run installs and runs a stand-in for codex.
func run(t *testing.T, script string, o codex.Options) harness.Report {
	t.Helper()
	sb := localtest.Boot(t, harnesstest.StandIn(t, "codex", script)+":/usr/local/bin:/usr/bin:/bin", sandbox.Spec{})
	h, err := codex.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Install(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	adapter := httptest.NewServer(nil)
	t.Cleanup(adapter.Close)
	report, err := h.Run(t.Context(), sb, harness.Job{
		Workdir: "/tmp", Prompt: "the prompt", BaseURL: adapter.URL, Token: "secret", Model: `a "quoted" model`, MaxContext: 96000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestConfiguration is what Codex is told, as a TOML reader takes it.
func TestConfiguration(t *testing.T) {
	report := run(t, `sed '/^\[/,$d' "$CODEX_HOME/config.toml"; echo "key=$OPENAI_API_KEY"`, codex.Options{})
	config, key, _ := strings.Cut(report.Log, "key=")
	var got map[string]any
	if err := toml.Unmarshal([]byte(config), &got); err != nil {
		t.Fatalf("%v:\n%s", err, config)
	}
	want := map[string]any{"model": `a "quoted" model`, "model_provider": "agentrl", "approval_policy": "never", "sandbox_mode": "danger-full-access",
		"web_search": "disabled", "check_for_update_on_startup": false, "project_doc_max_bytes": int64(0), "model_context_window": int64(96000)}
	for name, value := range want {
		if diff := cmp.Diff(value, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if key != "secret" {
		t.Errorf("OPENAI_API_KEY is %q", key)
	}
}

func TestArguments(t *testing.T) {
	report := run(t, `printf '%s\n' "$@"; cat`, codex.Options{ExtraArgs: `-c 'model_reasoning_effort="high"'`})
	if want := "exec\n--json\n--skip-git-repo-check\n-c\nmodel_reasoning_effort=\"high\"\n-\nthe prompt"; report.Log != want {
		t.Errorf("arguments and prompt:\n%s\nwant\n%s", report.Log, want)
	}
}

// TestOutcomes reads events as 0.171.0 prints them.
func TestOutcomes(t *testing.T) {
	const start = `{"type":"thread.started","thread_id":"t-1"}` + "\n" + `{"type":"turn.started"}` + "\n"
	failed := func(message string) string { return `{"type":"turn.failed","error":{"message":` + message + `}}` }
	for name, c := range map[string]struct {
		end, code string
		want      harness.Outcome
	}{
		"completed":     {`{"type":"turn.completed","usage":{"input_tokens":1}}`, "0", harness.Finished},
		"budget":        {failed(`"{\"error\":{\"message\":\"the session's budget of 2 turns is spent\"}}"`), "1", harness.MaxTurns},
		"no room":       {failed(`"Codex ran out of room in the model's context window. Start a new thread"`), "1", harness.ContextExhausted},
		"unknown token": {failed(`"{\"error\":{\"message\":\"no session has this token, or it is over\"}}"`), "1", harness.Refused},
		"no connection": {failed(`"stream disconnected before completion: error sending request for url (http://h:1/v1/responses)"`), "1", harness.Unreachable},
		"overloaded":    {failed(`"exceeded retry limit, last status: 503 Service Unavailable"`), "1", harness.Unreachable},
		"other":         {failed(`"the model is silly"`), "1", harness.GaveUp},
		"no end":        {`thread 'main' panicked`, "101", harness.Crashed},
	} {
		t.Run(name, func(t *testing.T) {
			report := run(t, "printf %s "+shell.Quote(start+c.end)+"; exit "+c.code, codex.Options{})
			if report.Outcome != c.want || cmp.Diff([]string{"t-1"}, report.Sessions) != "" || report.Version != "1.2.3 (stand-in)" {
				t.Errorf("Report %+v, want outcome %q", report, c.want)
			}
		})
	}
}
