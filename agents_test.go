package agentrl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/internal/cases"
	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/swe"
)

// realAgents are the CLIs that testdata/fetch/harness.sh brings.
var realAgents = map[string]func(cfg *agentrl.Config, dir string){
	"claude_code": func(cfg *agentrl.Config, dir string) { cfg.ClaudeCodeTarball = dir + "/claude-2.1.332-linux-x64.tgz" },
	"codex":       func(cfg *agentrl.Config, dir string) { cfg.CodexTarball = dir + "/codex-0.171.0-linux-x64.tgz" },
	"opencode":    func(cfg *agentrl.Config, dir string) { cfg.OpencodeTarball = dir + "/opencode-1.18.33-linux-x64.tgz" },
}

// agentConfig is a configuration with a real CLI, which takes minutes: they run
// where AGENTRL_CLIS is set.
func agentConfig(t *testing.T, agent, backend string) agentrl.Config {
	t.Helper()
	if os.Getenv("AGENTRL_CLIS") == "" {
		t.Skip("AGENTRL_CLIS is not set: the real CLIs are not run")
	}
	if os.Getuid() != 0 {
		t.Skip("local sandboxes with users need root")
	}
	cfg := agentrl.Config{Agent: agent, Sandbox: backend, AdapterBindHost: "0.0.0.0"}
	realAgents[agent](&cfg, cases.Cache(t, "harness", "harness-assets"))
	return cfg
}

// A fixture is one repository of the cases as a row.
type fixture struct {
	name, root, workdir string
	setup, agent, grade string
}

func repository(t *testing.T, name string) fixture {
	t.Helper()
	dir := filepath.Join(cases.Dir(t, "swe_repos"), "cases", name)
	read := func(file string) string {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	lib, err := os.ReadFile(filepath.Join(dir, "../../lib.sh"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("/var/tmp", "agentrl-agents-") // where a local sandbox is layered over it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	f := fixture{name: name, root: root, workdir: root, setup: string(lib) + read("setup.sh"), agent: read("agent.sh"), grade: read("grade.sh")}
	for line := range strings.Lines(read("meta")) {
		if sub, ok := strings.CutPrefix(strings.TrimSpace(line), "workdir="); ok {
			f.workdir = filepath.Join(root, sub)
		}
	}
	return f
}

// image makes the repository in an image of the backend, and returns its name.
func (f fixture) image(t *testing.T, backend string) string {
	t.Helper()
	if backend == "local" {
		cmd := exec.Command("bash", "-c", f.setup)
		cmd.Dir = f.root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("setup: %v: %s", err, out)
		}
		return "host"
	}
	p := docker.New(docker.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { p.Close() })
	if err := p.Ping(t.Context()); err != nil {
		t.Skipf("%v; testdata/fetch/docker.sh starts one", err)
	}
	sb, err := p.Create(t.Context(), sandbox.Spec{Image: "agentrl-test:debian"})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	script := "mkdir -p " + f.root + " && cd " + f.root + " && exec bash -c " + shell.Quote(f.setup)
	if _, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: script}); err != nil {
		t.Fatal(err)
	}
	image := "agentrl-test:" + filepath.Base(f.root)
	if err := sb.(*docker.Sandbox).Commit(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Forget(context.Background(), image); err != nil {
			t.Error(err)
		}
	})
	return image
}

func (f fixture) row(image string) agentrl.Sample {
	index := int64(7)
	return agentrl.Sample{
		Index: &index, Prompt: agentrl.Prompt{Text: "Do as the case says."},
		Metadata: map[string]any{"instance_id": f.name, "image": image, "workdir": f.workdir, "eval_cmd": "exec bash -c " + shell.Quote(f.grade)},
	}
}

// A stage is a generator over an engine double that speaks the policy.
type stage struct {
	g      *agentrl.Generator
	engine *sglangtest.Engine

	mu    sync.Mutex
	patch string
	took  map[agentrl.Stage]time.Duration
}

func newStage(t *testing.T, cfg agentrl.Config, policy func(prompt string) string) *stage {
	t.Helper()
	checkpoint := filepath.Join(cases.Root(), "testdata/tokenizer")
	tok, err := token.Load(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.ID("<|im_end|>")
	s := &stage{took: map[agentrl.Stage]time.Duration{}, engine: sglangtest.New(sglangtest.Options{EOS: []int32{end}, Decode: tok.Decode,
		Policy: func(c sglangtest.Call) sglangtest.Output {
			return sglangtest.Output{IDs: tok.Encode(policy(tok.Decode(c.Prompt)))}
		}})}
	server := httptest.NewServer(s.engine)
	t.Cleanup(server.Close)
	s.g, err = agentrl.New(cfg, agentrl.Args{HFCheckpoint: checkpoint, SGLangURL: server.URL, ToolCallParser: "qwen25", ReasoningParser: "qwen3", MaxContextLen: 200_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.g.Close() })
	s.g.Logger = slog.New(slog.DiscardHandler)
	s.g.Hooks.RolloutDone = func(r agentrl.RolloutInfo) { s.patch = string(r.Patch) }
	s.g.Hooks.StageDone = func(i agentrl.StageInfo) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.took[i.Stage] += i.Duration
	}
	return s
}

func (s *stage) generate(t *testing.T, row agentrl.Sample) []agentrl.Sample {
	t.Helper()
	samples, err := s.g.Generate(t.Context(), row, agentrl.SamplingParams{"max_new_tokens": 8192})
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// TestAgentsSolveRepositories: real CLIs on real repositories, end to end.
func TestAgentsSolveRepositories(t *testing.T) {
	for _, backend := range []string{"local", "docker"} {
		for _, agent := range []string{"claude_code", "codex"} {
			for _, name := range []string{"01_binary_and_pycache", "03_committed_on_branch", "05_modes_links_types"} {
				t.Run(backend+"/"+agent+"/"+name, func(t *testing.T) {
					cfg := agentConfig(t, agent, backend)
					f := repository(t, name)
					image := f.image(t, backend)
					s := newStage(t, cfg, func(prompt string) string {
						if harnesstest.Turn(prompt) == 0 {
							return "I do it.\n" + harnesstest.Call(prompt, f.agent)
						}
						return "Done."
					})
					s.checkSolved(t, s.generate(t, f.row(image)))
				})
			}
		}
	}
}

// checkSolved checks a rollout with one main segment whose patch solves it.
func (s *stage) checkSolved(t *testing.T, samples []agentrl.Sample) {
	t.Helper()
	one := samples[0]
	if len(samples) != 1 || one.Status != agentrl.Completed || *one.Reward != 1 {
		t.Fatalf("%d samples; status %s, error %v, metadata %v; patch:\n%s", len(samples), one.Status, one.Err, one.Metadata, s.patch)
	}
	var sampled []int32
	for _, g := range s.engine.Log() {
		sampled = append(sampled, g.Output...)
	}
	if got := trainedTokens(one); !slices.Equal(got, sampled) {
		t.Errorf("%d tokens are trained, %d were sampled, and they are not the same", len(got), len(sampled))
	}
	for _, ours := range []string{"agentrl", ".claude", ".codex", "PROBLEM_STATEMENT"} {
		if strings.Contains(s.patch, ours) {
			t.Errorf("the patch has %q:\n%s", ours, s.patch)
		}
	}
	t.Logf("figure: reward 1, one %v segment, %d tokens trained as sampled, agent %v; install %.1f s, run %.1f s", one.Metadata["segment"].(map[string]any)["label"],
		len(sampled), one.Metadata["agent"], s.took[agentrl.StageInstall].Seconds(), s.took[agentrl.StageRun].Seconds())
}

func trainedTokens(s agentrl.Sample) []int32 {
	var trained []int32
	for i, id := range s.Tokens[len(s.Tokens)-s.ResponseLength:] {
		if s.LossMask[i] == 1 {
			trained = append(trained, id)
		}
	}
	return trained
}

// TestSubagentsAreLabelled: Claude Code's own sub-agent has a sequence of its own.
func TestSubagentsAreLabelled(t *testing.T) {
	cfg := agentConfig(t, "claude_code", "local")
	f := repository(t, "01_binary_and_pycache")
	image := f.image(t, "local")
	s := newStage(t, cfg, func(prompt string) string {
		sub := strings.Contains(prompt, "SUBTASK") && !strings.Contains(prompt, swe.TaskPrompt[:60])
		switch turn := harnesstest.Turn(prompt); {
		case sub && turn == 0:
			return harnesstest.Call(prompt, f.agent)
		case !sub && turn == 0:
			return harnesstest.HermesCall("Agent", map[string]string{"description": "Fix it", "prompt": "SUBTASK: fix it", "subagent_type": "general-purpose"})
		}
		return "Done."
	})
	labels := map[any]int{}
	samples := s.generate(t, f.row(image))
	for _, sample := range samples {
		if segment, ok := sample.Metadata["segment"].(map[string]any); ok && *sample.Reward == 1 {
			labels[segment["label"]]++
		}
	}
	if labels["main"] != 1 || labels["subagent"] != 1 || len(samples) != 2 {
		t.Errorf("samples by label %v of %d, want one main and one subagent; %v", labels, len(samples), samples[0].Metadata)
	}
	t.Logf("figure: reward 1 in samples by label %v; sessions %v", labels, samples[0].Metadata["agent"])
}

// launcherArgs and launcherEnvs are what slime's launcher for its coding-agent
// example exports, quote for quote; the texts within are ours.
const (
	launcherArgs = `--settings '{"permissions":{"defaultMode":"bypassPermissions"},"autoCompactEnabled":true,"autoCompactWindow":80000}' ` +
		`--disable-slash-commands --agents '{"investigator":{"description":"Looks for files","prompt":"You are INVESTIGATOR-7: name the files (Grep/Read/Glob); don\u0027t edit.",` +
		`"tools":["Grep","Read","Glob"]}}' --disallowedTools WebFetch WebSearch`
	launcherEnvs = `{"CLAUDE_CODE_MAX_OUTPUT_TOKENS":"4096"}`
)

// TestLauncherArguments: Claude Code takes them as they are.
func TestLauncherArguments(t *testing.T) {
	for _, version := range []string{"2.1.332", "2.1.197"} {
		t.Run(version, func(t *testing.T) {
			dir := filepath.Dir(agentConfig(t, "claude_code", "local").ClaudeCodeTarball)
			cfg, err := agentrl.ConfigFromEnv([]string{"SLIME_AGENT_CC_EXTRA_ARGS=" + launcherArgs, "SLIME_AGENT_CC_EXTRA_ENVS=" + launcherEnvs,
				"SLIME_AGENT_CC_TARBALL=" + dir + "/claude-" + version + "-linux-x64.tgz", "AGENTRL_SANDBOX=local"})
			if err != nil {
				t.Fatal(err)
			}
			f := repository(t, "01_binary_and_pycache")
			var mainTools, subTools []string
			s := newStage(t, cfg, func(prompt string) string {
				sub := strings.Contains(prompt, "INVESTIGATOR-7") && !strings.Contains(prompt, swe.TaskPrompt[:60])
				switch turn := harnesstest.Turn(prompt); {
				case sub:
					subTools = toolNames(prompt)
				case turn == 0:
					mainTools = toolNames(prompt)
					return harnesstest.HermesCall("Agent", map[string]string{"description": "Look", "prompt": "Which files?", "subagent_type": "investigator"})
				case turn == 1:
					return harnesstest.Call(prompt, f.agent)
				}
				return "Done."
			})
			samples := s.generate(t, f.row(f.image(t, "local")))
			if len(samples) != 2 || samples[0].Status != agentrl.Completed || *samples[0].Reward != 1 {
				t.Fatalf("%d samples; %s, error %v, metadata %v", len(samples), samples[0].Status, samples[0].Err, samples[0].Metadata)
			}
			for _, tool := range []string{"WebFetch", "WebSearch"} {
				if slices.Contains(mainTools, tool) {
					t.Errorf("the tool %s is there: %q", tool, mainTools)
				}
			}
			for _, tool := range subTools {
				if !slices.Contains([]string{"Grep", "Read", "Glob"}, tool) {
					t.Errorf("the investigator has the tool %s: %q", tool, subTools)
				}
			}
			if len(subTools) == 0 || !slices.Contains(mainTools, "Agent") {
				t.Errorf("tools of the agent %q and of the investigator %q", mainTools, subTools)
			}
			for _, g := range s.engine.Log() {
				if fmt.Sprint(g.Sampling["max_new_tokens"]) != "4096" {
					t.Errorf("max_new_tokens %v, want the 4096 of the extra environment", g.Sampling["max_new_tokens"])
				}
			}
			t.Logf("figure: %s: reward 1; investigator with %q; agent with %d tools, no WebFetch, no WebSearch; 4096 tokens a turn", version, subTools, len(mainTools))
		})
	}
}

// toolNames are the tools that a prompt in the manner of Qwen3 lists.
func toolNames(prompt string) []string {
	var names []string
	_, list, _ := strings.Cut(prompt, "<tools>")
	list, _, _ = strings.Cut(list, "</tools>")
	for line := range strings.SplitSeq(list, "\n") {
		var tool struct{ Function struct{ Name string } }
		if json.Unmarshal([]byte(line), &tool) == nil && tool.Function.Name != "" {
			names = append(names, tool.Function.Name)
		}
	}
	return names
}

// TestEgressAdapterOnly: a real CLI works with no way out but the adapter. What
// another port of the same machine, a public address and a name are to it is in
// the output of its own command; Codex with an open network is the control.
func TestEgressAdapterOnly(t *testing.T) {
	for _, backend := range []string{"local", "docker"} {
		for _, c := range []struct{ agent, egress, same string }{
			{"claude_code", "adapter", "SHUT"}, {"codex", "adapter", "SHUT"}, {"opencode", "adapter", "SHUT"}, {"codex", "open", "OPEN"},
		} {
			t.Run(backend+"/"+c.agent+"/"+c.egress, func(t *testing.T) {
				cfg := agentConfig(t, c.agent, backend)
				cfg.Egress = c.egress
				other := httptest.NewUnstartedServer(http.NotFoundHandler())
				other.Listener.Close()
				var err error
				if other.Listener, err = net.Listen("tcp", "0.0.0.0:0"); err != nil {
					t.Fatal(err)
				}
				other.Start()
				t.Cleanup(other.Close)
				_, port, _ := net.SplitHostPort(other.Listener.Addr().String())
				host := map[string]string{"local": "127.0.0.1", "docker": docker.HostName}[backend]
				f := repository(t, "01_binary_and_pycache")
				probe := `for a in same/` + host + `/` + port + ` public/1.1.1.1/53 name/example.com/443; do ` +
					`timeout 4 bash -c ">/dev/tcp/${a#*/}" 2>/dev/null && echo "OPEN:${a%%/*}" || echo "SHUT:${a%%/*}"; done` + "\n"
				var saw string
				s := newStage(t, cfg, func(prompt string) string {
					switch {
					case !strings.Contains(prompt, "<tools>"):
						return "A title."
					case harnesstest.Turn(prompt) == 0:
						return harnesstest.Call(prompt, probe+f.agent)
					}
					_, saw, _ = strings.Cut(prompt, "</tool_call>")
					return "Done."
				})
				sample := s.generate(t, f.row(f.image(t, backend)))[0]
				if sample.Status != agentrl.Completed || *sample.Reward != 1 {
					t.Fatalf("%s, error %v, metadata %v", sample.Status, sample.Err, sample.Metadata)
				}
				got := regexp.MustCompile(`(OPEN|SHUT):(same|public|name)`).FindAllString(saw, -1)
				if len(got) != 3 || got[0] != c.same+":same" || c.egress == "adapter" && (got[1] != "SHUT:public" || got[2] != "SHUT:name") {
					t.Errorf("what the agent reaches: %q; its command's output:\n%s", got, saw)
				}
				t.Logf("figure: %s in %s, egress %s: reward 1; %q", c.agent, backend, c.egress, got)
			})
		}
	}
}

// TestBudgetInMidEdit: time is up while the agent and a daemon of its write,
// both deaf to TERM. What was there at the kill is graded; nothing writes on.
func TestBudgetInMidEdit(t *testing.T) {
	cfg := agentConfig(t, "codex", "local")
	cfg.AgentBudget = 15 * time.Second
	f := repository(t, "01_binary_and_pycache")
	f.grade = `n=$(wc -l <edit.txt); sleep 1; [ "$n" -gt 0 ] && [ "$(wc -l <edit.txt)" = "$n" ]`
	const write = `trap "" TERM HUP; while :; do echo edit >>"$0"; sleep 0.1; done`
	s := newStage(t, cfg, func(prompt string) string {
		return harnesstest.Call(prompt, `(setsid sh -c '`+write+`' "$PWD/daemon.txt" >/dev/null 2>&1 </dev/null &); sh -c '`+write+`' "$PWD/edit.txt"`)
	})
	sample := s.generate(t, f.row(f.image(t, "local")))[0]
	agent, _ := sample.Metadata["agent"].(map[string]any)
	if sample.Status != agentrl.Completed || *sample.Reward != 1 || agent["result"] != "budget" || sample.Metadata["agent_exit_code"] != -1 {
		t.Fatalf("sample: %s, error %v, metadata %v; patch:\n%s", sample.Status, sample.Err, sample.Metadata, s.patch)
	}
	t.Logf("figure: killed in mid-edit after %.1f s: result %v, exit code %v; %d lines of agent and daemon in the patch", s.took[agentrl.StageRun].Seconds(),
		agent["result"], sample.Metadata["agent_exit_code"], strings.Count(s.patch, "\n+edit"))
}

// TestAgentIsCutOff: an adapter that the sandbox cannot reach is found out in
// seconds, and the message says where and what to check.
func TestAgentIsCutOff(t *testing.T) {
	cfg := agentConfig(t, "codex", "local")
	cfg.AdapterPublicURL = "http://127.0.0.1:9"
	f := repository(t, "01_binary_and_pycache")
	s := newStage(t, cfg, func(string) string { return "Done." })
	sample := s.generate(t, f.row(f.image(t, "local")))[0]
	message := fmt.Sprint(sample.Err)
	if sample.Status != agentrl.Aborted || agentrl.FailureOf(sample.Err).Code != agentrl.CodeAgentUnreachable ||
		!strings.Contains(message, "http://127.0.0.1:9") || !strings.Contains(message, "ADAPTER_PUBLIC_HOST") {
		t.Errorf("sample: %s, %v", sample.Status, sample.Err)
	}
	t.Logf("figure: network cut: %v after %.1f s: %s", sample.Metadata["abort_reason"], s.took[agentrl.StageRun].Seconds(), message)
}

// TestWrongHashIsRefused: before any sandbox is.
func TestWrongHashIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claude")
	if err := os.WriteFile(path, []byte("\x7fELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := agentrl.New(agentrl.Config{Sandbox: "local", ClaudeCodeTarball: path, ClaudeCodeSHA256: strings.Repeat("0", 64)}, agentrl.Args{})
	if err == nil || !strings.Contains(err.Error(), "SHA-256") || !strings.Contains(err.Error(), path) {
		t.Errorf("New: %v", err)
	}
	_, err = agentrl.New(agentrl.Config{Sandbox: "local", CodexSHA256: "12"}, agentrl.Args{})
	if err == nil || !strings.Contains(err.Error(), "AGENTRL_CODEX_SHA256") {
		t.Errorf("New with a pin that is no hash: %v", err)
	}
	t.Log("figure: wrong hash: refused when the Generator is made, with both hashes")
}
