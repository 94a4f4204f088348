package claudecode_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/claudecode"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local/localtest"
)

// box is a sandbox in whose PATH the stand-in is claude.
func box(t *testing.T, script string) sandbox.Sandbox {
	t.Helper()
	return localtest.Boot(t, harnesstest.StandIn(t, "claude", script)+":/usr/local/bin:/usr/bin:/bin", sandbox.Spec{Env: map[string]string{
		"ANTHROPIC_API_KEY": "of the image", "CLAUDE_CODE_USE_BEDROCK": "1", "NO_PROXY": "internal.example", "HTTP_PROXY": "http://proxy.example",
	}})
}

// run installs and runs the stand-in.
func run(t *testing.T, sb sandbox.Sandbox, o claudecode.Options, tweak ...func(*harness.Job)) harness.Report {
	t.Helper()
	h, err := claudecode.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Install(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	adapter := httptest.NewServer(nil)
	t.Cleanup(adapter.Close)
	job := harness.Job{Workdir: "/tmp", Prompt: "the prompt", BaseURL: adapter.URL, Token: "secret", Model: "policy"}
	for _, f := range tweak {
		f(&job)
	}
	report, err := h.Run(t.Context(), sb, job)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestExtraArgsAreShellText: what a launcher exports arrives as it was meant,
// quoted JSON and all.
func TestExtraArgsAreShellText(t *testing.T) {
	const extra = `--settings '{"env": {"A": "it'\''s $HOME"}, "permissions": {"deny": ["Read(./x y)"]}}' --append-system-prompt "say \"no\" to \$x" --max-turns 50`
	report := run(t, box(t, `for a; do printf '%s\n' "arg:$a"; done; cat`), claudecode.Options{ExtraArgs: extra})
	_, after, ok := strings.Cut(report.Log, "arg:--settings\n")
	want := "arg:{\"env\": {\"A\": \"it's $HOME\"}, \"permissions\": {\"deny\": [\"Read(./x y)\"]}}\n" +
		"arg:--append-system-prompt\narg:say \"no\" to $x\narg:--max-turns\narg:50\nthe prompt"
	if !ok || after != want {
		t.Errorf("the arguments end in\n%s\nwant\n%s", after, want)
	}
	t.Logf("figure: the launcher's shell text arrives as 6 arguments, unchanged")
}

func TestEnvironment(t *testing.T) {
	report := run(t, box(t, `env | sort | grep -E '^(ANTHROPIC|CLAUDE|NO_PROXY|HTTP_PROXY|EXTRA)' >"$CLAUDE_CONFIG_DIR.env"; cut -c1-70 "$CLAUDE_CONFIG_DIR.env" | sed 's/:[0-9]*$/:PORT/' | grep -E 'AUTO|BASE_URL|API_KEY|BEDROCK|PROXY|EXTRA|CONTEXT|OUTPUT|TOKEN'`),
		claudecode.Options{ExtraEnvs: map[string]string{"EXTRA": "a 'b' \"c\"", "ANTHROPIC_MODEL": "other", "ANTHROPIC_API_KEY": "mine"}},
		func(j *harness.Job) { j.MaxContext, j.MaxTurn = 65536, 4096 })
	want := `ANTHROPIC_API_KEY=mine
ANTHROPIC_AUTH_TOKEN=secret
ANTHROPIC_BASE_URL=http://127.0.0.1:PORT
CLAUDE_CODE_AUTO_COMPACT_WINDOW=100000
CLAUDE_CODE_MAX_CONTEXT_TOKENS=65536
CLAUDE_CODE_MAX_OUTPUT_TOKENS=4096
EXTRA=a 'b' "c"
HTTP_PROXY=http://proxy.example
NO_PROXY=localhost,127.0.0.1,::1,internal.example`
	if diff := cmp.Diff(want, report.Log); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// TestLongPrompt: longer than any argument may be.
func TestLongPrompt(t *testing.T) {
	report := run(t, box(t, `cksum; wc -c </dev/stdin`), claudecode.Options{}, func(j *harness.Job) { j.Prompt = strings.Repeat("word ' ", 100_000) })
	if !strings.Contains(report.Log, " 700000") {
		t.Errorf("the prompt arrived as %q, want 700000 bytes", report.Log)
	}
}

// TestOutcomes reads result lines as the versions named print them.
func TestOutcomes(t *testing.T) {
	const init = `{"type":"system","subtype":"init","session_id":"s-1","claude_code_version":"2.1.332"}` + "\n"
	for name, c := range map[string]struct {
		result string
		code   string
		want   harness.Outcome
	}{
		"finished":           {`{"type":"result","subtype":"success","is_error":false,"num_turns":4,"result":"Fixed.","terminal_reason":"completed"}`, "0", harness.Finished},
		"keys in disorder":   {`{"duration_api_ms": 282, "is_error": false, "result": "Fixed.", "num_turns": 4, "type": "result"}`, "0", harness.Finished},
		"max turns":          {`{"type":"result","subtype":"error_max_turns","is_error":true,"num_turns":3,"terminal_reason":"max_turns"}`, "1", harness.MaxTurns},
		"turns of a session": {`{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400 the session's budget of 2 turns is spent"}`, "1", harness.MaxTurns},
		"prompt too long":    {`{"type":"result","subtype":"success","is_error":true,"result":"Prompt is too long","terminal_reason":"prompt_too_long"}`, "1", harness.ContextExhausted},
		"blocking limit":     {`{"type":"result","subtype":"success","is_error":true,"result":"Prompt is too long","terminal_reason":"blocking_limit"}`, "1", harness.ContextExhausted},
		"no session":         {`{"type":"result","subtype":"success","is_error":true,"result":"API Error: 403 no session has this token, or it is over"}`, "1", harness.Refused},
		"refusal":            {`{"type":"result","subtype":"success","is_error":true,"stop_reason":"refusal","result":"API Error: refused"}`, "1", harness.Refused},
		"no connection":      {`{"type":"result","subtype":"success","is_error":true,"result":"API Error: Unable to connect to API (ConnectionRefused)"}`, "1", harness.Unreachable},
		"no engine":          {`{"type":"result","subtype":"success","is_error":true,"result":"API Error: 503 the engine is not available"}`, "1", harness.Unreachable},
		"cut without end":    {`{"type":"result","subtype":"success","is_error":true,"result":"API Error: Claude's response exceeded the 32000 output token maximum."}`, "1", harness.GaveUp},
		"no result line":     {`Segmentation fault`, "139", harness.Crashed},
		"text like a result": {`{"type":"assistant","message":{"content":"{\"type\":\"result\"}"}}`, "0", harness.Crashed},
	} {
		t.Run(name, func(t *testing.T) {
			report := run(t, box(t, "printf %s "+shell.Quote(init+c.result)+"; exit "+c.code), claudecode.Options{})
			if report.Outcome != c.want || report.Version != "2.1.332" || len(report.Sessions) != 1 {
				t.Errorf("Report %+v, want outcome %q", report, c.want)
			}
		})
	}
}

// TestOddLogs: whatever stands around the result line, and in whatever length.
func TestOddLogs(t *testing.T) {
	const result = `{"type":"result","subtype":"success","is_error":false,"num_turns":4,"result":"Fixed.","terminal_reason":"completed"}`
	echo := "echo " + shell.Quote(result)
	for name, c := range map[string]struct {
		script string
		want   harness.Outcome
	}{
		"a failure after":     {echo + "; echo " + shell.Quote(strings.Replace(result, "false", "true", 1)), harness.GaveUp},
		"megabytes after":     {echo + "; head -c 3000000 /dev/zero | tr '\\0' x", harness.Finished},
		"binary after":        {echo + "; head -c 3000000 /dev/urandom", harness.Finished},
		"a long result":       {`printf '{"type":"result","num_turns":4,"result":"'; head -c 3000000 /dev/zero | tr '\0' x; echo '"}'`, harness.Finished},
		"behind half a line":  {`printf '{"type":"assistant","mess'; ` + echo, harness.Finished},
		"behind a warning":    {"printf 'warning: no {end}'; " + echo, harness.Finished},
		"without an end":      {"printf %s " + shell.Quote(result), harness.Finished},
		"broken off":          {"printf %s " + shell.Quote(result[:len(result)-9]), harness.Crashed},
		"CRLF":                {`printf '%s\r\n' ` + shell.Quote(result), harness.Finished},
		"its folder removed":  {`rm -rf "${CLAUDE_CONFIG_DIR%/*}"; ` + echo, harness.Finished},
		"half of another one": {echo + "; printf '{\"type\":\"result\",\"is_err'", harness.Finished},
		"nothing":             {"exit 0", harness.Crashed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if report := run(t, box(t, c.script), claudecode.Options{}); report.Outcome != c.want || (c.want == harness.Crashed) != (report.Turns == 0) {
				t.Errorf("%s, %d turns, %+v; want %s", report.Outcome, report.Turns, report.Exit, c.want)
			}
		})
	}
}

// TestPromptIsText: what no agent could read is replaced.
func TestPromptIsText(t *testing.T) {
	report := run(t, box(t, "cat; echo .; exit 1"), claudecode.Options{}, func(j *harness.Job) { j.Prompt = "-p a\xffb\x00c\r\n" })
	if want := "-p a\uFFFDb\uFFFDc\r\n."; report.Log != want {
		t.Errorf("the prompt arrived as %q, want %q", report.Log, want)
	}
}

func TestImageWithoutBash(t *testing.T) {
	h, err := claudecode.New(claudecode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sb := localtest.Boot(t, "/nowhere", sandbox.Spec{})
	if err := h.Install(t.Context(), sb); err == nil || !strings.Contains(err.Error(), "neither bash nor zsh") {
		t.Errorf("Install without bash: %v", err)
	}
}

func TestFilesAreCheckedFirst(t *testing.T) {
	_, err := claudecode.New(claudecode.Options{Program: harness.Asset{Path: "/nowhere/claude.tgz"}})
	if err == nil || !strings.Contains(err.Error(), "SLIME_AGENT_CC_TARBALL") || !strings.Contains(err.Error(), "make harness-assets") {
		t.Errorf("New with a missing file: %v", err)
	}
}

func TestArgumentsAreCheckedFirst(t *testing.T) {
	if _, err := claudecode.New(claudecode.Options{ExtraArgs: "--append-system-prompt it's"}); err == nil || !strings.Contains(err.Error(), "SLIME_AGENT_CC_EXTRA_ARGS") {
		t.Errorf("New: %v, want an error that names SLIME_AGENT_CC_EXTRA_ARGS", err)
	}
}
