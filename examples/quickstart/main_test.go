package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/internal/cases"
)

// built is the demo's binary, as a user has it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agentrl-quickstart-test-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "quickstart")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	if err != nil {
		return "", &buildError{string(out)}
	}
	return bin, nil
})

type buildError struct{ out string }

func (e *buildError) Error() string { return e.out }

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// command is the demo with extra environment.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = &bytes.Buffer{}
	return cmd
}

// samples runs the demo and reads its JSON output.
func samples(t *testing.T, cmd *exec.Cmd) []agentrl.Sample {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, cmd.Stderr)
	}
	var s []agentrl.Sample
	if err := json.Unmarshal(out, &s); err != nil || len(s) == 0 {
		t.Fatalf("%v printed no samples: %v\n%s", cmd.Args, err, out)
	}
	return s
}

func TestDemoEndsWithRewardOne(t *testing.T) {
	t.Parallel()
	cmd := command(t, nil)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, cmd.Stderr)
	}
	for _, want := range []string{"outcome solved, reward 1", "+echo ", "exactly the", "✓ run (agent)", "✓ evaluate (grader)", green} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	last := strings.TrimSpace(string(out))
	t.Logf("figure: reward 1, %s", last[strings.LastIndex(last, "\n")+1:])
}

func TestMisreadIsRewardZeroAndNoAbort(t *testing.T) {
	t.Parallel()
	s := samples(t, command(t, nil, "-misread", "-json"))[0]
	if s.Status != agentrl.Completed || *s.Reward != 0 || s.RemoveSample || s.Metadata["outcome"] != "failed" {
		t.Errorf("sample: %s, reward %v, metadata %v", s.Status, *s.Reward, s.Metadata)
	}
	t.Logf("figure: status %s, reward %g, outcome %v", s.Status, *s.Reward, s.Metadata["outcome"])
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	s := samples(t, command(t, nil, "-evaluate", "-json"))
	if len(s) != 1 || s[0].Status != agentrl.Completed || *s[0].Reward != 1 || !s[0].RemoveSample || s[0].Metadata["is_solved"] != true {
		t.Errorf("Evaluate: %+v", s)
	}
	t.Logf("figure: Evaluate: reward %g in one sample", *s[0].Reward)
}

// fiveLines is an agent of five lines: run the test, ask the model for a
// command, run it, test again.
const fiveLines = `out=$(sh run_tests.sh 2>&1)
body="{\"messages\":[{\"role\":\"user\",\"content\":\"The test says: $out. Answer with one shell command that fixes token.sh.\"}]}"
reply=$(curl -sf "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" -H 'Content-Type: application/json' -d "$body")
eval "$(printf '%s' "$reply" | sed 's/.*"content": *"\([^"]*\)".*/\1/')"
sh run_tests.sh`

func TestShellAgentOfFiveLines(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	s := samples(t, command(t, []string{"SWE_AGENT=shell", "AGENTRL_SHELL_COMMAND=" + fiveLines}, "-json"))[0]
	if s.Status != agentrl.Completed || *s.Reward != 1 || s.Metadata["agent_exit_code"] != json.Number("0") {
		t.Errorf("sample: %s, reward %v, metadata %v", s.Status, *s.Reward, s.Metadata)
	}
	t.Logf("figure: harness shell, 5 lines: reward %g", *s.Reward)
}

// engine starts the engine double as a process of its own and returns its URL.
func engine(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := command(t, nil, append([]string{"-serve-engine", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be dead already
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("engine: %v: %s", err, cmd.Stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return cmd, strings.TrimSpace(strings.TrimPrefix(line, "engine double at "))
}

func TestKilledEngineIsAnAbortOfClassEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	t.Parallel()
	proc, url := engine(t, "-per-token", "50ms")
	cmd := command(t, nil, "-sglang", url, "-json")
	time.AfterFunc(3*time.Second, func() { _ = proc.Process.Kill() }) // with the first request in flight: it has more tokens than that
	s := samples(t, cmd)[0]
	failure, _ := s.Metadata["failure"].(map[string]any)
	if s.Status != agentrl.Aborted || failure["class"] != "engine" {
		t.Errorf("sample: %s, %v", s.Status, s.Metadata)
	}
	t.Logf("figure: %v, class %v, stage %v", s.Metadata["abort_reason"], failure["class"], failure["stage"])
}

func TestSilentSandboxServerIsAWallClockTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			if _, err := l.Accept(); err != nil { // held open, never answered
				return
			}
		}
	}()
	s := samples(t, command(t, []string{"AGENTRL_SANDBOX=e2b", "E2B_API_KEY=e2b_0", "E2B_API_URL=http://" + l.Addr().String(),
		"SWE_AGENT_TIME_BUDGET_SEC=1", "SWE_EVAL_TIMEOUT_SEC=1", "SWE_ROLLOUT_GUARD_SEC=3"}, "-json"))[0]
	failure, _ := s.Metadata["failure"].(map[string]any)
	if s.Status != agentrl.Aborted || s.Metadata["abort_reason"] != "wall_clock_timeout" || failure["stage"] != "create" {
		t.Errorf("sample: %s, %v", s.Status, s.Metadata)
	}
	t.Logf("figure: %v at stage %v", s.Metadata["abort_reason"], failure["stage"])
}

func TestSeparateEngineWithAFullSizeTokenizer(t *testing.T) {
	t.Parallel()
	checkpoint := cases.Cache(t, "tokenizers/qwen3", "fetch-tokenizers")
	_, url := engine(t, "-checkpoint", checkpoint)
	s := samples(t, command(t, nil, "-sglang", url, "-checkpoint", checkpoint, "-json"))[0]
	if s.Status != agentrl.Completed || *s.Reward != 1 || !strings.Contains(s.Response, "token.sh prints the token") {
		t.Errorf("sample: %s, reward %v, response %q", s.Status, *s.Reward, s.Response)
	}
	t.Logf("figure: qwen3 tokenizer, engine in another process: reward %g, %d tokens", *s.Reward, len(s.Tokens))
}

func TestWrongSettingsAreExplained(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		args []string
		want []string
	}{
		"unknown agent":     {[]string{"SWE_AGENT=vim"}, nil, []string{"SWE_AGENT", "vim", "mini", "shell"}},
		"no public host":    {[]string{"SWE_AGENT=shell", "AGENTRL_SHELL_COMMAND=true", "AGENTRL_SANDBOX=e2b", "E2B_API_KEY=e2b_0"}, nil, []string{"ADAPTER_PUBLIC_HOST", "export"}},
		"no checkpoint":     {nil, []string{"-checkpoint", "/nowhere"}, []string{"/nowhere"}},
		"hub id":            {nil, []string{"-checkpoint", "Qwen/Qwen3-8B"}, []string{"Qwen/Qwen3-8B", "download"}},
		"unknown parser":    {nil, []string{"-tool-parser", "qwen3"}, []string{"qwen3", "qwen25", "hermes"}},
		"no chat template":  {nil, []string{"-checkpoint", noTemplate(t)}, []string{"chat_template"}},
		"several at a time": {[]string{"SWE_BOOT_RETRIES=0", "ADAPTER_PORT=high"}, nil, []string{"SWE_BOOT_RETRIES", "ADAPTER_PORT"}},
	} {
		cmd := command(t, c.env, c.args...)
		out, err := cmd.Output()
		text := cmd.Stderr.(*bytes.Buffer).String()
		if err == nil {
			t.Errorf("%s: the demo ran:\n%s", name, out)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the message does not say %q:\n%s", name, want, text)
			}
		}
	}
}

// noTemplate is a checkpoint whose configuration has no chat template.
func noTemplate(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tokenizer, err := os.ReadFile("../../testdata/tokenizer/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tokenizer.json": tokenizer, "tokenizer_config.json": []byte(`{"eos_token":"<|im_end|>"}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
