package harnesstest_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/servertest"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/claudecode"
	"github.com/agentrl-go/agentrl/harness/codex"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/harness/mini"
	"github.com/agentrl-go/agentrl/harness/opencode"
	"github.com/agentrl-go/agentrl/harness/pi"
	"github.com/agentrl-go/agentrl/harness/shell"
	"github.com/agentrl-go/agentrl/internal/cases"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

// asset is a file that testdata/fetch/harness.sh brings. Tests of real CLIs
// take minutes: they run where AGENTRL_CLIS is set.
func asset(t testing.TB, name string) harness.Asset {
	t.Helper()
	if os.Getenv("AGENTRL_CLIS") == "" {
		t.Skip("AGENTRL_CLIS is not set: the real CLIs are not run")
	}
	return harness.Asset{Path: cases.Cache(t, "harness/"+name, "harness-assets")}
}

// serve starts an adapter at host, of which the agent knows as name.
func serve(host, name string) func(testing.TB, harnesstest.Model) harnesstest.Endpoint {
	return func(t testing.TB, m harnesstest.Model) harnesstest.Endpoint {
		r := servertest.New(t, servertest.Options{
			Checkpoint: filepath.Join(cases.Root(), "testdata/tokenizer"), Bind: host,
			Policy: m.Policy, MaxContext: m.MaxContext, MaxTurns: m.MaxTurns,
		})
		return harnesstest.Endpoint{URL: "http://" + net.JoinHostPort(name, r.Port), LocalURL: "http://127.0.0.1:" + r.Port, Token: r.Session.Token, Vanish: r.Vanish}
	}
}

// eachBackend runs the contract in a local sandbox, and in a container of an
// image made by debootstrap, without node.
func eachBackend(t *testing.T, c harnesstest.Contract) {
	c.Cut = servertest.Cut
	t.Run("local", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("local sandboxes with users need root")
		}
		c := c
		c.Provider = func(testing.TB) sandbox.Provider { return &local.Provider{Logger: slog.New(slog.DiscardHandler)} }
		c.Serve = serve("127.0.0.1", "127.0.0.1")
		harnesstest.Test(t, c)
	})
	t.Run("docker", func(t *testing.T) {
		c := c
		c.Provider = func(t testing.TB) sandbox.Provider { return containers(t) }
		c.Spec = sandbox.Spec{Image: "agentrl-test:debian"}
		c.Serve = serve("0.0.0.0", docker.HostName)
		harnesstest.Test(t, c)
	})
}

// containers is a provider on this machine's daemon.
func containers(t testing.TB) *docker.Provider {
	t.Helper()
	p := docker.New(docker.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { p.Close() })
	if err := p.Ping(t.Context()); err != nil {
		t.Skipf("%v; testdata/fetch/docker.sh starts one", err)
	}
	return p
}

// made is the harness that a New returned.
func made(t testing.TB, h harness.Harness, err error) harness.Harness {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestClaudeCode(t *testing.T) {
	eachBackend(t, harnesstest.Contract{
		New: func(t testing.TB) harness.Harness {
			h, err := claudecode.New(claudecode.Options{Program: asset(t, "claude-2.1.332-linux-x64.tgz")})
			return made(t, h, err)
		},
		Nested: "/opt/agentrl/bin/claude -p",
	})
}

// The version of before sub-agents that run beside the agent.
func TestClaudeCodePrior(t *testing.T) {
	eachBackend(t, harnesstest.Contract{
		New: func(t testing.TB) harness.Harness {
			h, err := claudecode.New(claudecode.Options{Program: asset(t, "claude-2.1.197-linux-x64.tgz")})
			return made(t, h, err)
		},
		Nested: "/opt/agentrl/bin/claude -p",
	})
}

func TestCodex(t *testing.T) {
	eachBackend(t, harnesstest.Contract{
		New: func(t testing.TB) harness.Harness {
			h, err := codex.New(codex.Options{Program: asset(t, "codex-0.171.0-linux-x64.tgz")})
			return made(t, h, err)
		},
		Nested:    "/opt/agentrl/bin/codex exec --skip-git-repo-check -",
		Otherwise: map[string]harnesstest.Ending{"gave up": {harness.Finished, "a cut answer is passed on as a whole one: an incomplete response is fatal to Codex"}},
	})
}

func TestPi(t *testing.T) {
	eachBackend(t, harnesstest.Contract{
		New: func(t testing.TB) harness.Harness {
			h, err := pi.New(pi.Options{Package: asset(t, "pi-0.74.2.tgz"), Node: asset(t, "node-22.23.5-linux-x64.tgz")})
			return made(t, h, err)
		},
		Nested: "/opt/agentrl/bin/pi -p --provider agentrl --model policy",
	})
}

func TestOpencode(t *testing.T) {
	eachBackend(t, harnesstest.Contract{
		New: func(t testing.TB) harness.Harness {
			h, err := opencode.New(opencode.Options{Program: asset(t, "opencode-1.18.33-linux-x64.tgz")})
			return made(t, h, err)
		},
	})
}

func TestMini(t *testing.T) {
	t.Parallel()
	eachBackend(t, harnesstest.Contract{
		New: func(testing.TB) harness.Harness { return mini.New(mini.Options{}) },
		Unsupported: map[string]string{
			"crashed": "the agent runs in this process",
		},
	})
}

// bashLoop is an agent of some lines: it asks for a command, runs it, and goes
// on until there is none.
const bashLoop = `python3 - <<'EOF'
import json, os, re, subprocess, sys, urllib.request
tool = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
messages = [{"role": "user", "content": os.environ["AGENTRL_PROMPT"]}]
while True:
    req = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps({"messages": messages, "tools": [tool]}).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
    reply = json.load(urllib.request.urlopen(req))["choices"][0]
    messages.append(reply["message"])
    calls = reply["message"].get("tool_calls") or []
    if not calls:
        print(reply["message"]["content"])
        sys.exit(0 if reply["finish_reason"] == "stop" else 3)
    for c in calls:
        out = subprocess.run(["sh", "-c", json.loads(c["function"]["arguments"])["command"]], capture_output=True, text=True).stdout
        messages.append({"role": "tool", "tool_call_id": c["id"], "content": out})
EOF`

func TestShell(t *testing.T) {
	t.Parallel()
	failed := harnesstest.Ending{Outcome: harness.GaveUp, Why: "the exit status is all that a shell command says"}
	eachBackend(t, harnesstest.Contract{
		New: func(t testing.TB) harness.Harness {
			h, err := shell.New(bashLoop, "")
			return made(t, h, err)
		},
		Otherwise: map[string]harnesstest.Ending{"max turns": failed, "context exhausted": failed, "refused": failed, "crashed": failed},
	})
}

// The tarballs of before there was a native program: a package of scripts, and
// node.
func TestClaudeCodeOfScripts(t *testing.T) {
	h, err := claudecode.New(claudecode.Options{Program: asset(t, "claude-2.0.30.tgz"), Node: asset(t, "node-22.23.5-linux-x64.tgz")})
	box, err2 := containers(t).Create(t.Context(), sandbox.Spec{Image: "agentrl-test:debian"})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	t.Cleanup(func() { box.Close() })
	if err := h.Install(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	r := servertest.New(t, servertest.Options{Checkpoint: filepath.Join(cases.Root(), "testdata/tokenizer"), Bind: "0.0.0.0", Policy: func(prompt string) string {
		if harnesstest.Turn(prompt) == 0 {
			return harnesstest.Call(prompt, "echo fixed >answer.txt")
		}
		return "Done."
	}})
	report, err := h.Run(t.Context(), box, harness.Job{
		Workdir: "/tmp", Prompt: "Fix it.", BaseURL: "http://" + net.JoinHostPort(docker.HostName, r.Port), Token: r.Session.Token, Model: "policy",
	})
	if err != nil || report.Outcome != harness.Finished || !strings.Contains(report.Version, "2.0.30") {
		t.Errorf("Run: %v, %+v", err, report)
	}
	if out, err := sandbox.Output(t.Context(), box, sandbox.Cmd{Script: "cat /tmp/answer.txt"}); out != "fixed" {
		t.Errorf("answer.txt: %q, %v", out, err)
	}
	t.Logf("figure: npm package of scripts on node: %s, %s, %d turns", report.Version, report.Outcome, report.Turns)
}
