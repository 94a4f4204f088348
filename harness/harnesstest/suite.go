package harnesstest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A Model is what stands behind the endpoint of one run.
type Model struct {
	Policy     func(prompt string) string // what it says, in the manner of Qwen3; called concurrently
	MaxContext int                        // tokens; 0 for no limit
	MaxTurns   int                        // after which requests are refused; 0 for no limit
}

// An Endpoint is an adapter with one open session.
type Endpoint struct {
	URL      string // as a CLI in the sandbox reaches it
	LocalURL string // as this process does
	Token    string
	Vanish   func() // cuts every connection to it, for good
}

// A Contract says what a harness is in a test.
type Contract struct {
	// New makes the harness with its real CLI. It skips where that is missing.
	New func(t testing.TB) harness.Harness
	// Provider boots sandboxes of Spec, whose image has sh and git.
	Provider func(t testing.TB) sandbox.Provider
	Spec     sandbox.Spec
	// Serve starts an adapter that ends with the test.
	Serve func(t testing.TB, m Model) Endpoint
	// Cut ends a text as if it were cut by length.
	Cut string
	// Call words a call of the shell tool that the prompt lists. Defaults to
	// Call.
	Call func(prompt, command string) string
	// Nested is a command that starts another such agent on the prompt at its
	// standard input. "" for agents of which none can be started.
	Nested string
	// Otherwise are the cells that end otherwise than their name says, and why.
	Otherwise map[string]Ending
	// Unsupported names cells that the harness cannot have, and why. They are
	// logged and not run.
	Unsupported map[string]string
}

// An Ending is how a cell ends, and why so.
type Ending struct {
	Outcome harness.Outcome
	Why     string
}

// Test runs the contract of harness.Harness, one subtest a cell, in one
// sandbox. Proxies that lead nowhere are in its environment.
func Test(t *testing.T, c Contract) {
	h := c.New(t)
	if c.Call == nil {
		c.Call = Call
	}
	spec := c.Spec
	spec.Env = map[string]string{}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		spec.Env[name] = "http://127.0.0.1:9"
	}
	box, err := c.Provider(t).Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	b := &bench{c: c, h: h, box: box}
	if !t.Run("install", b.install) {
		return
	}
	known := map[string]bool{}
	for _, cell := range cells {
		known[cell.name] = true
		t.Run(cell.name, func(t *testing.T) {
			if why, ok := c.Unsupported[cell.name]; ok {
				t.Logf("figure: %s: empty: %s", cell.name, why)
				return
			}
			cell.run(t, b)
		})
	}
	for name := range c.Unsupported {
		if !known[name] {
			t.Errorf("Contract.Unsupported names %q, which is no cell", name)
		}
	}
}

// Call words a call of the shell tool that the prompt lists, in the Hermes
// format.
func Call(prompt, command string) string {
	name, arg := "bash", "command"
	for _, known := range [][2]string{{"Bash", "command"}, {"exec_command", "cmd"}} {
		if strings.Contains(prompt, `"name": "`+known[0]+`"`) {
			name, arg = known[0], known[1]
		}
	}
	return HermesCall(name, map[string]string{arg: command})
}

// HermesCall is a tool call as the model writes it.
func HermesCall(name string, args map[string]string) string {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(args) // strings always marshal
	return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + strings.TrimSpace(text.String()) + "}\n</tool_call>"
}

// Turn counts the model's turns that a prompt holds already.
func Turn(prompt string) int { return strings.Count(prompt, "<|im_start|>assistant") - 1 }

// bench is what the cells work with.
type bench struct {
	c   Contract
	h   harness.Harness
	box sandbox.Sandbox
}

// counted is a sandbox that counts the bytes written into it.
type counted struct {
	sandbox.Sandbox
	bytes atomic.Int64
}

// WriteFile counts.
func (s *counted) WriteFile(ctx context.Context, path, user string, content io.ReadSeeker) error {
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	s.bytes.Add(size)
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.Sandbox.WriteFile(ctx, path, user, content)
}

// An Installation says what one Install took.
type Installation struct {
	Took  time.Duration
	Bytes int64 // written into the sandbox
}

// Installed installs the harness in the sandbox.
func Installed(t testing.TB, h harness.Harness, sb sandbox.Sandbox) Installation {
	t.Helper()
	c := &counted{Sandbox: sb}
	start := time.Now()
	if err := h.Install(t.Context(), c); err != nil {
		t.Fatalf("Install: %v", err)
	}
	return Installation{time.Since(start), c.bytes.Load()}
}

// install installs, and again, which uploads nothing.
func (b *bench) install(t *testing.T) {
	cold, warm := Installed(t, b.h, b.box), Installed(t, b.h, b.box)
	if warm.Bytes != 0 {
		t.Errorf("a second Install writes %d bytes", warm.Bytes)
	}
	t.Logf("figure: install cold %.1f s and %.1f MB, warm %.1f s and 0 MB", cold.Took.Seconds(), float64(cold.Bytes)/1e6, warm.Took.Seconds())
}

// A run is one run of the agent.
type run struct {
	t     testing.TB
	b     *bench
	name  string
	dir   string
	model Endpoint
	job   harness.Job
	stop  chan struct{}
	first atomic.Int64 // when the first request came, Unix ns
}

// runs counts work directories.
var runs atomic.Int64

// begin prepares a run in a fresh repository.
func (b *bench) begin(t testing.TB, name string, m Model) *run {
	t.Helper()
	r := &run{t: t, b: b, name: name, dir: fmt.Sprintf("/srv/run-%d", runs.Add(1)), stop: make(chan struct{})}
	policy := m.Policy
	m.Policy = func(prompt string) string {
		r.first.CompareAndSwap(0, time.Now().UnixNano())
		if !strings.Contains(prompt, "<tools>") {
			return "A title." // a side request of the CLI's
		}
		return policy(prompt)
	}
	r.model = b.c.Serve(t, m)
	r.sh(sandbox.Cmd{Script: "mkdir -p " + r.dir + " && cd " + r.dir + " && git init -q && echo one >file && git add . && " +
		"git -c user.name=t -c user.email=t@example.invalid commit -qm start && chown -R " + sandbox.AgentUser + ": ."})
	r.job = harness.Job{
		Workdir: r.dir, Prompt: "Write \"fixed\" to answer.txt; it's $urgent: \"`quotes`\"\nin lines.", Model: "policy",
		BaseURL: r.model.URL, Token: r.model.Token, MaxContext: 200_000, MaxTurn: 8192, Stop: r.stop,
	}
	if !b.h.DialsBack() {
		r.job.BaseURL = r.model.LocalURL
	}
	return r
}

// run runs the agent and checks what holds for every end: its outcome, and
// that nothing of it is alive.
func (r *run) run(want harness.Outcome) harness.Report {
	r.t.Helper()
	if other, ok := r.b.c.Otherwise[r.name]; ok {
		want = other.Outcome
		r.t.Logf("figure: %s: otherwise: %s", r.name, other.Why)
	}
	start := time.Now()
	report, err := r.b.h.Run(r.t.Context(), r.b.box, r.job)
	if err != nil {
		r.t.Fatalf("Run: %v", err)
	}
	took := time.Since(start)
	if report.Outcome != want {
		r.t.Errorf("outcome %q, want %q; %+v, log:\n%s", report.Outcome, want, report.Exit, report.Log)
	}
	if alive := r.sh(sandbox.Cmd{Script: aliveScript}); alive != "" {
		r.t.Errorf("processes of the agent's user are alive: %s", alive)
	}
	first := "none"
	if at := r.first.Load(); at != 0 {
		first = fmt.Sprintf("%.1f s", time.Unix(0, at).Sub(start).Seconds())
	}
	r.t.Logf("figure: %s: %s, exit %d, %s; first request %s, whole run %.1f s; last line: %s", r.name, report.Outcome, report.Exit.Code,
		report.Exit.State, first, took.Seconds(), clip(harness.LastLines([]byte(report.Log), 1), 160))
	return report
}

const aliveScript = `[ -z "${` + sandbox.OneUserVar + `-}" ] || exit 0
u=$(id -u ` + sandbox.AgentUser + `)
for p in /proc/[0-9]*; do
	grep -q "^Uid:[[:space:]]*$u[[:space:]]" $p/status 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' $p/status && echo "${p#/proc/} $(tr '\0' ' ' <$p/cmdline)"
done; :`

// sh runs a command that has to succeed in the sandbox.
func (r *run) sh(cmd sandbox.Cmd) string {
	r.t.Helper()
	out, err := sandbox.Output(r.t.Context(), r.b.box, cmd)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// status is git's, untracked files and all.
func (r *run) status() string {
	return r.sh(sandbox.Cmd{Script: "git -c safe.directory='*' status --porcelain -uall", Dir: r.dir})
}

// await waits for a file of the work directory.
func (r *run) await(file string) {
	for range 600 {
		res, err := r.b.box.Exec(r.t.Context(), sandbox.Cmd{Script: "[ -s " + file + " ]", Dir: r.dir})
		if err != nil || res.Ok() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
