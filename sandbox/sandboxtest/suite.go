package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// Caps says what a backend's sandboxes are in a test.
type Caps struct {
	// Spec boots a sandbox whose image has sh and coreutils or busybox.
	// Its Workdir exists.
	Spec sandbox.Spec
	// NoImage is an image that the backend does not have. "" for a backend
	// that cannot tell.
	NoImage string
	// OneUser: all commands run as one user.
	OneUser bool
	// Probe is a URL that a sandbox with open egress reaches and that is not
	// Spec.Adapter. Egress lists what the backend restricts; the cells of
	// others check that it refuses.
	Probe  string
	Egress []sandbox.Egress
	// Unsupported names cells that the backend does not fulfil, and why. They
	// are logged and not run.
	Unsupported map[string]string
}

// A cell is one line of the contract.
type cell struct {
	name string
	run  func(*testing.T, *bench)
}

// bench is what a cell works with.
type bench struct {
	p    sandbox.Provider
	caps Caps
}

// boot makes a sandbox that is closed at the end of the test.
func (b *bench) boot(t testing.TB) sandbox.Sandbox { return b.bootSpec(t, b.caps.Spec) }

func (b *bench) bootSpec(t testing.TB, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	sb, err := b.p.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create(%+v): %v", spec, err)
	}
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return sb
}

// withUser boots a sandbox that has the agent's user, and names it.
func (b *bench) withUser(t testing.TB) (sandbox.Sandbox, string) {
	t.Helper()
	sb := b.boot(t)
	if err := sandbox.EnsureUser(t.Context(), sb); err != nil {
		t.Fatalf("EnsureUser: %v", err)
	}
	return sb, sandbox.AgentUser
}

// Test runs the contract of sandbox.Provider and sandbox.Sandbox, one subtest
// a cell. newProvider is called once; a test of the provider's own may want it
// for its cleanup.
func Test(t *testing.T, newProvider func(t *testing.T) sandbox.Provider, caps Caps) {
	b := &bench{p: newProvider(t), caps: caps}
	known := map[string]bool{}
	for _, family := range []struct {
		name  string
		cells []cell
	}{{"exec", execCells}, {"file", fileCells}, {"life", lifeCells}, {"user", userCells}, {"job", jobCells}, {"lost", lostCells}, {"egress", egressCells}} {
		for _, c := range family.cells {
			name := family.name + "/" + c.name
			known[name] = true
			t.Run(name, func(t *testing.T) {
				if why, ok := caps.Unsupported[name]; ok {
					t.Logf("figure: %s is not supported: %s", name, why)
					return
				}
				c.run(t, b)
			})
		}
	}
	for name := range caps.Unsupported {
		if !known[name] {
			t.Errorf("Caps.Unsupported names %q, which is no cell", name)
		}
	}
}

// CheckGoroutines reports goroutines that are still there at the end of a
// test and were not at its beginning. Call it first.
func CheckGoroutines(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 64<<10)
				t.Errorf("%d goroutines at the end, %d at the beginning:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}

// run executes a command whose outcome must be known.
func run(t testing.TB, sb sandbox.Sandbox, cmd sandbox.Cmd) sandbox.Result {
	t.Helper()
	res, err := sb.Exec(t.Context(), cmd)
	if err != nil {
		t.Fatalf("Exec(%s): %v", abbreviate(cmd.Script), err)
	}
	return res
}

// output executes a command that must succeed.
func output(t testing.TB, sb sandbox.Sandbox, cmd sandbox.Cmd) string {
	t.Helper()
	out, err := sandbox.Output(t.Context(), sb, cmd)
	if err != nil {
		t.Fatalf("Output(%s): %v", abbreviate(cmd.Script), err)
	}
	return out
}

func write(t testing.TB, sb sandbox.Sandbox, path, user, content string) {
	t.Helper()
	if err := sb.WriteFile(t.Context(), path, user, strings.NewReader(content)); err != nil {
		t.Fatalf("WriteFile(%s): %v", path, err)
	}
}

func read(t testing.TB, sb sandbox.Sandbox, path string) string {
	t.Helper()
	r, err := sb.ReadFile(t.Context(), path)
	if err != nil {
		t.Fatalf("ReadFile(%s): %v", path, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("ReadFile(%s): %v", path, err)
	}
	return string(data)
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want an error that is %q", what, err, want)
	}
}

func abbreviate(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// together calls fn n times at once and waits.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

// soon polls until ok, for what happens on its own in a sandbox. It may be
// called on any goroutine.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%s did not happen", what)
			return
		}
	}
}

// Dropping is a sandbox whose replies get lost: Drop is asked after each
// command, which has run, whether its reply is. Lose is asked before, and
// then the command does not run.
type Dropping struct {
	sandbox.Sandbox
	Lose, Drop func(cmd sandbox.Cmd) bool
}

// Exec runs the command and forgets its result, or does not run it.
func (d *Dropping) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	if d.Lose != nil && d.Lose(cmd) {
		return sandbox.Result{}, fmt.Errorf("request lost: %w", sandbox.ErrCut)
	}
	res, err := d.Sandbox.Exec(ctx, cmd)
	if err == nil && d.Drop != nil && d.Drop(cmd) {
		return sandbox.Result{}, fmt.Errorf("reply lost: %w", sandbox.ErrCut)
	}
	return res, err
}
