package sandboxtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/sandbox"
)

// stages are the moments at which TestReap kills the process: before the
// creation, when the backend has created and the ledger does not know yet,
// with a job running, before and after the backend closes.
var stages = []string{"intent", "created", "running", "closing", "closed"}

// Variables that tell a killed process of TestReap what it is.
const (
	stageVar  = "AGENTRL_TEST_STAGE"
	ledgerVar = "AGENTRL_TEST_LEDGER"
)

// TestReap kills a process with SIGKILL at each stage of a sandbox's life,
// reaps, and lists by alive what the provider still has, which must be
// nothing; a sandbox of a process that lives must survive that. The process is this
// test binary, running the test that calls TestReap and nothing before it:
// call it first in a test of its own. Both processes call newProvider with
// the same directory, for what they have to share.
func TestReap(t *testing.T, newProvider func(dir string) sandbox.Provider, spec sandbox.Spec, alive func(dir string) ([]string, error)) {
	if stage := os.Getenv(stageVar); stage != "" {
		victim(t, stage, os.Getenv(ledgerVar), newProvider, spec)
		return
	}
	for _, stage := range stages {
		t.Run(stage, func(t *testing.T) { killAt(t, stage, newProvider, spec, alive) })
	}
}

func killAt(t *testing.T, stage string, newProvider func(string) sandbox.Provider, spec sandbox.Spec, alive func(string) ([]string, error)) {
	dir := t.TempDir()
	own, err := sandbox.OpenLedger(dir + "/ledger")
	if err != nil {
		t.Fatal(err)
	}
	p := newProvider(dir)
	mine, err := own.Wrap("b", p).Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	before := list(t, dir, alive)

	parent, _, _ := strings.Cut(t.Name(), "/")
	c := exec.Command(os.Args[0], "-test.run", "^"+parent+"$", "-test.v")
	c.Env = append(os.Environ(), stageVar+"="+stage, ledgerVar+"="+dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := waitFor(out, "at "+stage)
	_ = c.Process.Kill()
	_ = c.Wait()
	if said != "" {
		t.Fatalf("the process did not come to stage %s: %s", stage, said)
	}
	left := list(t, dir, alive)
	done, err := sandbox.Reap(t.Context(), dir+"/ledger", map[string]sandbox.Provider{"b": p})
	if err != nil || done.Live != 1 {
		t.Errorf("Reap = %+v, %v, want one live process and no error", done, err)
	}
	after := list(t, dir, alive)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after Reap there is not what there was before, our own (-before +after):\n%s", diff)
	}
	if res := run(t, mine, sandbox.Cmd{Script: "exit 3"}); res.Code != 3 {
		t.Errorf("our own sandbox answers %d", res.Code)
	}
	t.Logf("figure: killed %s: %d left, %d after reaping", stage, len(left)-len(before), len(after)-len(before))
}

func list(t *testing.T, dir string, alive func(string) ([]string, error)) []string {
	t.Helper()
	names, err := alive(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// waitFor reads lines until one begins so; else it returns what was there.
func waitFor(out interface{ Read([]byte) (int, error) }, begin string) string {
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(strings.TrimSpace(lines.Text()), begin) {
			return ""
		}
		said.WriteString(lines.Text() + "\n")
	}
	return said.String() + "(end of output)"
}

// victim brings a sandbox to a stage and waits there for its end.
func victim(t *testing.T, stage, dir string, newProvider func(string) sandbox.Provider, spec sandbox.Spec) {
	l, err := sandbox.OpenLedger(dir + "/ledger")
	if err != nil {
		t.Fatal(err)
	}
	p := l.Wrap("b", &staged{newProvider(dir), stage})
	sb, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := sandbox.RunDetached(t.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: "echo x >" + sandbox.Path("/tmp/began") + "; sleep 600"}})
		t.Logf("the job ended: %v", err)
	}()
	soon(t, "the job's begin", func() bool {
		return run(t, sb, sandbox.Cmd{Script: "[ -s " + sandbox.Path("/tmp/began") + " ]"}).Ok()
	})
	if stage == "running" {
		arrive(stage)
	}
	_ = sb.Close()
	if stage == "closed" {
		t.Fatal("the stage was missed")
	}
}

// arrive tells the parent and waits to be killed.
func arrive(stage string) {
	fmt.Println("at " + stage)
	time.Sleep(time.Minute)
}

// staged is a provider that stands still at a stage.
type staged struct {
	inner sandbox.Provider
	stage string
}

func (s *staged) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if s.stage == "intent" {
		arrive(s.stage)
	}
	sb, err := s.inner.Create(ctx, spec)
	if err == nil && s.stage == "created" {
		arrive(s.stage)
	}
	if err != nil {
		return nil, err
	}
	return &stagedSandbox{sb, s.stage}, nil
}

type stagedSandbox struct {
	sandbox.Sandbox
	stage string
}

func (s *stagedSandbox) Close() error {
	if s.stage == "closing" {
		arrive(s.stage)
	}
	err := s.Sandbox.Close()
	if s.stage == "closed" {
		arrive(s.stage)
	}
	return err
}
