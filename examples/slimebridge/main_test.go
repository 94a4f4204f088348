package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
)

// TestMain is the bridge itself where the Python module starts it.
func TestMain(m *testing.M) {
	if os.Getenv("SLIMEBRIDGE_TEST") == "serve" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// A rig is slime's stand-in with rows, a checkpoint and an engine.
type rig struct {
	engine *demo.Engine
	dir    string
	args   map[string]any
	params map[string]any
	rows   []map[string]any
	env    []string
}

func newRig(t *testing.T, rows int, o demo.EngineOptions) *rig {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	if os.Getuid() != 0 {
		t.Skip("sandboxes with users need root")
	}
	dir, err := demo.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	checkpoint, err := demo.Checkpoint(filepath.Join(dir, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.Load(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{engine: demo.NewEngine(tok, o), dir: dir, params: map[string]any{"temperature": 1.0, "max_new_tokens": 1024, "stop": nil, "spaces_between_special_tokens": false}}
	srv := httptest.NewServer(r.engine)
	t.Cleanup(srv.Close)
	host, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	r.args = map[string]any{
		"hf_checkpoint": checkpoint, "sglang_router_ip": host, "sglang_router_port": port,
		"sglang_tool_call_parser": "qwen25", "sglang_reasoning_parser": "qwen3", "rollout_max_context_len": 100000,
	}
	task, err := demo.NewTask(dir, "tokens")
	if err != nil {
		t.Fatal(err)
	}
	for range rows {
		r.rows = append(r.rows, map[string]any{"group_index": 3, "prompt": "Make the test pass.", "metadata": task.Sample(demo.Image, 0, 0).Metadata})
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.:testdata/standin", "AGENTRL_BRIDGE_BIN="+self, "SLIMEBRIDGE_TEST=serve",
		"SWE_AGENT=mini", "AGENTRL_SANDBOX=local", "ADAPTER_PORT=0", "ADAPTER_BIND_HOST=127.0.0.1")
	return r
}

// A line is one that drive.py prints.
type line struct {
	Place     int            `json:"place"`
	Listed    bool           `json:"listed"`
	Sample    map[string]any `json:"sample"`
	Health    map[string]any `json:"health"`
	Error     string         `json:"error"`
	Abort     float64        `json:"abort_seconds"`
	Idle      float64        `json:"idle_seconds"`
	Cancelled int            `json:"cancelled"`
	Service   int            `json:"service"`
}

func (l line) failure() any { return l.Sample["metadata"].(map[string]any)["abort_reason"] }

// code is that of metadata.failure, "" for none.
func (l line) code() string {
	failure, _ := l.Sample["metadata"].(map[string]any)["failure"].(map[string]any)
	code, _ := failure["code"].(string)
	return code
}

// command is the stand-in with one scenario.
func (r *rig) command(t *testing.T, scenario string) *exec.Cmd {
	t.Helper()
	job, err := json.Marshal(map[string]any{"args": r.args, "rows": r.rows, "params": r.params})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.dir, "job.json")
	if err := os.WriteFile(path, job, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "testdata/drive.py", scenario, path)
	cmd.Env, cmd.Stderr = r.env, &bytes.Buffer{}
	return cmd
}

func (r *rig) drive(t *testing.T, scenario string) []line {
	t.Helper()
	cmd := r.command(t, scenario)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", scenario, err, out, cmd.Stderr)
	}
	var lines []line
	for text := range bytes.Lines(out) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s printed %s", scenario, text)
		}
		lines = append(lines, l)
	}
	if t.Failed() || len(lines) == 0 {
		t.Fatalf("%s printed nothing\n%s", scenario, cmd.Stderr)
	}
	if err := r.engine.WaitLive(0, 5*time.Second); err != nil {
		t.Errorf("%s: %v", scenario, err)
	}
	return lines
}

// of returns the samples.
func of(lines []line) (samples []line) {
	for _, l := range lines {
		if l.Sample != nil {
			samples = append(samples, l)
		}
	}
	return samples
}

func number(s map[string]any, key string) int {
	n, _ := s[key].(float64)
	return int(n)
}

func size(s map[string]any, key string) int {
	list, _ := s[key].([]any)
	return len(list)
}

// checkSample holds what slime asserts of a sample before it trains on it.
func checkSample(t *testing.T, s map[string]any) {
	t.Helper()
	n := number(s, "response_length")
	if size(s, "loss_mask") != n || size(s, "rollout_log_probs") != n || size(s, "tokens") <= n || n == 0 || s["response"] == "" {
		t.Errorf("sample %v: response_length %d, %d mask, %d logprobs, %d tokens", s["index"], n, size(s, "loss_mask"), size(s, "rollout_log_probs"), size(s, "tokens"))
	}
	cache := s["prefix_cache_info"].(map[string]any)
	if s["rollout_id"] != s["index"] || size(s, "weight_versions") == 0 || number(cache, "total_prompt_tokens") == 0 || number(cache, "cached_tokens") == 0 {
		t.Errorf("sample %v: rollout_id %v, weight_versions %v, prefix_cache_info %v", s["index"], s["rollout_id"], s["weight_versions"], cache)
	}
}

func TestGroupOfEight(t *testing.T) {
	r := newRig(t, 8, demo.EngineOptions{})
	r.env = append(r.env, "AGENTRL_BRIDGE_ARGS=-max 3")
	lines := r.drive(t, "group")
	samples, health := of(lines), lines[len(lines)-1].Health
	if len(samples) != 8 {
		t.Fatalf("%d samples: %+v", len(samples), lines)
	}
	for i, l := range samples {
		checkSample(t, l.Sample)
		if l.Place != i || !l.Listed || l.Sample["status"] != "completed" || l.Sample["reward"] != 1.0 || number(l.Sample, "group_index") != 3 {
			t.Errorf("sample %d: listed %v, status %v, reward %v, %v", i, l.Listed, l.Sample["status"], l.Sample["reward"], l.failure())
		}
	}
	if number(health, "peak") != 3 || number(health, "turned_away") == 0 {
		t.Errorf("health: %v, want 3 live at most and some turned away", health)
	}
	t.Logf("figure: group of 8, all rewarded, at most %v live with -max 3, %v times turned away", health["peak"], health["turned_away"])
}

// twoAgents has two conversations with the model: two token sequences.
const twoAgents = `ask() { curl -sf "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" -H 'Content-Type: application/json' -d "{\"messages\":[{\"role\":\"user\",\"content\":\"$1\"}]}"; }
out=$(sh run_tests.sh 2>&1)
ask "Another agent has a look first." >/dev/null
eval "$(ask "The test says: $out. Answer with one shell command that fixes token.sh." | sed 's/.*"content": *"\([^"]*\)".*/\1/')"
sh run_tests.sh`

func TestFanOut(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	r := newRig(t, 2, demo.EngineOptions{})
	r.env = append(r.env, "SWE_AGENT=shell", "AGENTRL_SHELL_COMMAND="+twoAgents)
	samples := of(r.drive(t, "group"))
	if len(samples) != 4 {
		t.Fatalf("%d samples of 2 rollouts, want 4: %+v", len(samples), samples)
	}
	for _, l := range samples {
		s := l.Sample
		if number(s, "rollout_id") != l.Place || s["reward"] != 1.0 || s["status"] != "completed" || s["session_id"] != samples[2*l.Place].Sample["session_id"] {
			t.Errorf("place %d: rollout_id %v, reward %v, session %v", l.Place, s["rollout_id"], s["reward"], s["session_id"])
		}
	}
	t.Logf("figure: fan-out: 2 rollouts, %d samples, rollout_id shared", len(samples))
}

func TestEvaluation(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	r := newRig(t, 1, demo.EngineOptions{})
	r.args["eval_reward_key"] = "solved"
	l := r.drive(t, "evaluation")[0]
	reward, _ := l.Sample["reward"].(map[string]any)
	if l.Listed || l.Sample["status"] != "completed" || reward["solved"] != 1.0 || l.Sample["remove_sample"] != true {
		t.Errorf("evaluation: listed %v, %v", l.Listed, l.Sample)
	}
	t.Logf("figure: evaluation: one sample, reward %v", l.Sample["reward"])
}

func TestAbortAndComeBack(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	r := newRig(t, 4, demo.EngineOptions{PerToken: 10 * time.Millisecond})
	lines := r.drive(t, "abort")
	samples := of(lines)
	if lines[0].Abort > 10 || lines[0].Idle > 60 || len(samples) != 8 {
		t.Fatalf("abort: %+v, %d samples", lines[0], len(samples))
	}
	for i, l := range samples {
		want := map[bool]string{true: "aborted", false: "completed"}[i < 4]
		if l.Sample["status"] != want || l.Listed != (i >= 4) || l.code() != map[bool]string{true: "cancelled", false: ""}[i < 4] {
			t.Errorf("sample %d: %v, listed %v, %v", i, l.Sample["status"], l.Listed, l.Sample["metadata"])
		}
		if i >= 4 {
			checkSample(t, l.Sample)
			if md := l.Sample["metadata"].(map[string]any); number(md, "attempt") != 2 || md["abort_reason"] != nil {
				t.Errorf("sample %d came back with %v", i, md)
			}
		}
	}
	t.Logf("figure: abort flag: at rest after %.1f s, service idle %.1f s later; 4 aborted samples came back and were completed", lines[0].Abort, lines[0].Idle)
}

func TestCancellation(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	r := newRig(t, 2, demo.EngineOptions{PerToken: 20 * time.Millisecond})
	l := r.drive(t, "cancel")[0]
	if l.Cancelled != 2 {
		t.Errorf("cancel: %+v", l)
	}
	t.Logf("figure: 2 cancelled calls, service idle after %.1f s", l.Idle)
}

func TestServiceThatDies(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	r := newRig(t, 5, demo.EngineOptions{PerToken: 10 * time.Millisecond})
	samples := of(r.drive(t, "lost"))
	if len(samples) != 10 || samples[4].failure() != "exception:bridge_gone" || samples[4].code() != "bridge_gone" || samples[9].Sample["status"] != "completed" {
		t.Errorf("lost: %+v", samples)
	}
	t.Logf("figure: a killed service: 5 rollouts %v, and another serves the next calls", samples[4].failure())
}

func TestClientThatVanishes(t *testing.T) {
	r := newRig(t, 2, demo.EngineOptions{PerToken: 20 * time.Millisecond})
	cmd := r.command(t, "vanish")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var l line
	text, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(text, &l) != nil || l.Service == 0 {
		t.Fatalf("vanish printed %s: %v\n%s", text, err, cmd.Stderr)
	}
	start := time.Now()
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	service, err := os.FindProcess(l.Service)
	if err != nil {
		t.Fatal(err)
	}
	for service.Signal(syscall.Signal(0)) == nil {
		if time.Since(start) > time.Minute {
			t.Fatal("the service outlives its parent")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := r.engine.WaitLive(0, 5*time.Second); err != nil {
		t.Error(err)
	}
	t.Logf("figure: a killed trainer: its service ended after %.1f s, the engine is idle", time.Since(start).Seconds())
}

func TestClearErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	for name, c := range map[string]struct {
		bend func(r *rig)
		want []string
	}{
		"checkpoint": {func(r *rig) { r.args["hf_checkpoint"] = "/nowhere/model" }, []string{"misconfigured", "/nowhere/model"}},
		"variable":   {func(r *rig) { r.env = append(r.env, "SWE_AGENT=vim") }, []string{`SWE_AGENT="vim": want one of`}},
		"program":    {func(r *rig) { r.env = append(r.env, "AGENTRL_BRIDGE_BIN=/nowhere/slimebridge") }, []string{"/nowhere/slimebridge", "go build"}},
		"service":    {func(r *rig) { r.env = append(r.env, "AGENTRL_BRIDGE_URL=localhost:8000") }, []string{"AGENTRL_BRIDGE_URL='localhost:8000'", "want http://HOST:PORT"}},
		"sampling":   {func(r *rig) { r.params["temprature"] = 1 }, []string{"temprature"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, demo.EngineOptions{})
			c.bend(r)
			l := r.drive(t, "group")[0]
			said := l.Error
			if l.Sample != nil {
				said, _ = l.Sample["metadata"].(map[string]any)["failure"].(map[string]any)["message"].(string)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("error %q does not say %q", said, want)
				}
			}
		})
	}
}
