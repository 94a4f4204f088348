//go:build linux

package adapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/internal/cases"
)

// nobody is the user that CLIs run as when the tests run as root: Claude Code
// refuses to work without asking as root.
const nobody = 65534

// patience is how long one CLI may take on a busy machine.
const patience = 8 * time.Minute

const task = "Read PROBLEM_STATEMENT.md in the current directory and resolve the issue."

// A cliRig is a rig with a real tokenizer and template, and a small repository
// for a CLI to work in.
type cliRig struct {
	*rig
	tok  *token.Tokenizer
	dir  string // the repository
	home string
}

// cli returns the path of a program that testdata/fetch/clis.sh brings. Tests of
// real CLIs take minutes: they run where AGENTRL_CLIS is set.
func cli(t *testing.T, name string) string {
	t.Helper()
	if os.Getenv("AGENTRL_CLIS") == "" {
		t.Skip("AGENTRL_CLIS is not set: the real CLIs are not run")
	}
	return cases.Cache(t, "clis/"+name, "clis")
}

// A cliSetup is what a test may want otherwise.
type cliSetup struct {
	engine     sglangtest.Options
	maxContext int // tokens
	routed     bool
}

// newCLIRig makes a rig whose model speaks texts in the manner of Qwen3, found
// by what a prompt says.
func newCLIRig(t *testing.T, policy func(prompt string) string, tweak ...func(*cliSetup)) *cliRig {
	t.Helper()
	checkpoint := cases.Cache(t, "tokenizers/qwen3", "tokenizers")
	tok, err := token.Load(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := template.Load(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	parser, err := parse.New("qwen25", "qwen3", parse.Strict)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.ID("<|im_end|>")
	setup := cliSetup{engine: sglangtest.Options{EOS: []int32{end}, Decode: tok.Decode, Policy: func(c sglangtest.Call) sglangtest.Output {
		text := policy(tok.Decode(c.Prompt))
		text, cut := strings.CutSuffix(text, "⏎CUT")
		return sglangtest.Output{IDs: tok.AppendEncode(nil, text), Cut: cut}
	}}}
	for _, f := range tweak {
		f(&setup)
	}
	make := newRig
	if setup.routed {
		make = newRoutedRig
	}
	c := &cliRig{tok: tok, rig: make(t, setup.engine, func(o *adapter.Options) {
		o.Tokenizer, o.Template, o.Parser, o.MaxContext = tok, tmpl, parser, setup.maxContext
	})}
	c.workplace(t)
	return c
}

// workplace makes the repository and a home folder, owned by the CLI's user.
func (c *cliRig) workplace(t *testing.T) {
	t.Helper()
	base, err := os.MkdirTemp("", "agentrl-cli")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	c.dir, c.home = filepath.Join(base, "repo"), filepath.Join(base, "home")
	for _, dir := range []string{c.dir, c.home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "PROBLEM_STATEMENT.md": "add() subtracts. Make it add.\n"} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "start"}} {
		if out, err := exec.Command("git", append([]string{"-C", c.dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if os.Getuid() != 0 {
		return
	}
	os.Chmod(base, 0o755)
	err = filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// command prepares a program in the repository, as an ordinary user, with
// nothing of this process's environment but the path.
func (c *cliRig) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	cmd.Env = append([]string{"HOME=" + c.home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "LANG=C.UTF-8"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// claude prepares Claude Code.
func (c *cliRig) claude(ctx context.Context, path, token, prompt string, env ...string) *exec.Cmd {
	env = append([]string{
		"ANTHROPIC_BASE_URL=" + c.url, "ANTHROPIC_AUTH_TOKEN=" + token, "ANTHROPIC_MODEL=policy",
		"ANTHROPIC_DEFAULT_HAIKU_MODEL=policy", "CLAUDE_CODE_SUBAGENT_MODEL=policy",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=1",
		"CLAUDE_CODE_ATTRIBUTION_HEADER=0", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
		"CLAUDE_CODE_MAX_CONTEXT_TOKENS=200000", "CLAUDE_CODE_AUTO_COMPACT_WINDOW=200000",
	}, env...)
	return c.command(ctx, env, path, "-p", prompt, "--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose",
		"--disable-slash-commands", "--strict-mcp-config")
}

// codex prepares Codex. Of the lines of configuration those with max_retries are
// the provider's, whole tables come last, and all others first.
func (c *cliRig) codex(ctx context.Context, path, token, prompt string, lines ...string) *exec.Cmd {
	var top, provider, tables []string
	for _, line := range lines {
		switch {
		case strings.Contains(line, "max_retries"):
			provider = append(provider, line)
		case strings.HasPrefix(line, "["):
			tables = append(tables, line)
		default:
			top = append(top, line)
		}
	}
	config := strings.Join(append(top, []string{
		`model = "policy"`, `model_provider = "policy"`, `approval_policy = "never"`, `sandbox_mode = "danger-full-access"`,
		`web_search = "disabled"`, `check_for_update_on_startup = false`, `project_doc_max_bytes = 0`,
		"[analytics]\nenabled = false",
		"[features]\ngoals = false\nplugins = false\napps = false\nremote_plugin = false\nunbounded_connection_retries = false",
		fmt.Sprintf("[model_providers.policy]\nname = \"policy\"\nbase_url = %q\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\nstream_idle_timeout_ms = 3600000\n", c.url+"/v1"),
		strings.Join(append(provider, tables...), "\n"),
	}...), "\n")
	dir := filepath.Join(c.home, ".codex")
	os.MkdirAll(dir, 0o755)
	os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o644)
	if os.Getuid() == 0 {
		os.Chown(dir, nobody, nobody)
	}
	return c.command(ctx, []string{"OPENAI_API_KEY=" + token, "CODEX_HOME=" + dir}, path, "exec", "--json", "--skip-git-repo-check", prompt)
}

// pi prepares pi.
func (c *cliRig) pi(ctx context.Context, path, token, prompt string, env ...string) *exec.Cmd {
	dir := filepath.Join(c.home, ".pi", "agent")
	os.MkdirAll(dir, 0o755)
	models := map[string]any{"providers": map[string]any{"policy": map[string]any{
		"baseUrl": c.url + "/v1", "api": "openai-completions", "apiKey": token,
		"models": []any{map[string]any{"id": "policy", "name": "policy", "reasoning": true, "input": []string{"text"},
			"contextWindow": 100000, "maxTokens": 8192, "cost": map[string]any{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}},
	}}}
	data, _ := json.Marshal(models)
	os.WriteFile(filepath.Join(dir, "models.json"), data, 0o644)
	if os.Getuid() == 0 {
		os.Chown(filepath.Join(c.home, ".pi"), nobody, nobody)
		os.Chown(dir, nobody, nobody)
	}
	return c.command(ctx, append(env, "PI_OFFLINE=1"), "node", path, "-p", "--provider", "policy", "--model", "policy", "--no-session", prompt)
}

// opencode prepares opencode.
func (c *cliRig) opencode(ctx context.Context, path, token, prompt string, env ...string) *exec.Cmd {
	config, _ := json.Marshal(map[string]any{
		"model": "policy/policy", "small_model": "policy/policy", "share": "disabled", "autoupdate": false, "snapshot": false,
		"permission": map[string]any{"edit": "allow", "bash": "allow", "webfetch": "deny", "external_directory": "allow", "doom_loop": "allow"},
		"provider": map[string]any{"policy": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "policy", "options": map[string]any{"baseURL": c.url + "/v1", "apiKey": token},
			"models": map[string]any{"policy": map[string]any{"name": "policy", "tool_call": true, "reasoning": true,
				"limit": map[string]any{"context": 100000, "output": 8192}}},
		}},
	})
	env = append(env,
		"OPENCODE_CONFIG_CONTENT="+string(config), "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_TERMINAL_TITLE=1",
	)
	return c.command(ctx, env, path, "run", "--format", "json", "--model", "policy/policy", prompt)
}

// A launch prepares a CLI; its settings are variables of the environment, or for
// Codex lines of configuration.
type launch func(ctx context.Context, path, token, prompt string, settings ...string) *exec.Cmd

// play has a CLI work on the task in a session "s", to its end.
func (c *cliRig) play(t *testing.T, l launch, path string, settings ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ses := c.open("s", optionsFor(t))
	return run(t, l(ctx, path, ses.Token, task, settings...))
}

// run runs a CLI to its end and returns its exit code and output.
func run(t *testing.T, cmd *exec.Cmd) (int, string) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", cmd.Path, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// turnsSaid counts the assistant turns in a prompt that the model has spoken.
func turnsSaid(prompt string) int { return strings.Count(prompt, "<|im_start|>assistant\n") - 1 }

// optionsFor are the options of a session in which a whole CLI run fits.
func optionsFor(t *testing.T) adapter.SessionOptions {
	t.Helper()
	return adapter.SessionOptions{Sampling: map[string]any{"temperature": 1.0, "top_p": 1.0, "top_k": -1}}
}

// call is the text of a tool call in the manner of Qwen3.
func call(name, args string) string {
	return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + args + "}\n</tool_call>"
}

// think is a thought before a text.
func think(thought, text string) string { return "<think>\n" + thought + "\n</think>\n\n" + text }

// roots counts the generations whose prompt does not begin with an earlier one
// and its output.
func roots(log []sglangtest.Generation) (n int) {
	for i, g := range log {
		if !slices.ContainsFunc(log[:i], func(before sglangtest.Generation) bool {
			full := slices.Concat(before.Prompt, before.Output)
			return len(g.Prompt) >= len(full) && slices.Equal(g.Prompt[:len(full)], full)
		}) {
			n++
		}
	}
	return n
}

// checkRun asserts what every good run leaves: exit 0, all turns recorded once,
// and that many roots of exact continuations.
func (c *cliRig) checkRun(t *testing.T, code int, out string, wantRoots int) adapter.Record {
	t.Helper()
	if code != 0 {
		t.Errorf("exit %d; output:\n%s", code, lastBytes(out, 4000))
	}
	rec := c.finish("s")
	log := c.engine.Log()
	if rec.Turns+rec.SideCalls != len(log) || rec.Abandoned != 0 {
		t.Errorf("%d turns and %d side calls recorded, %d abandoned, of %d generated", rec.Turns, rec.SideCalls, rec.Abandoned, len(log))
	}
	if got := roots(log); got != wantRoots {
		t.Errorf("%d generations begin anew, want %d", got, wantRoots)
		c.explain(t, rec)
	}
	for i, seg := range rec.Segments {
		// A fork off an earlier turn is no root.
		if seg.Split != nil && !slices.Contains([]string{trajectory.CauseCompaction, trajectory.CauseSubagent, trajectory.CauseSideCall}, seg.Split.Cause) {
			t.Errorf("segment %d is a false fork: %+v", i, *seg.Split)
		}
		if seg.Untrained != "" && seg.Label != "sidecall" {
			t.Errorf("segment %d is not trainable: %s", i, seg.Untrained)
		}
	}
	return rec
}

// explain logs why there is more than one segment.
func (c *cliRig) explain(t *testing.T, rec adapter.Record) {
	t.Helper()
	for i, seg := range rec.Segments {
		split, _ := json.Marshal(seg.Split)
		t.Logf("segment %d: %d turns, label %q, split %s", i, len(seg.Turns), seg.Label, lastBytes(string(split), 1500))
	}
	t.Logf("rewrites: %v", rec.Rewrites)
}

func lastBytes(s string, n int) string { return s[max(0, len(s)-n):] }
