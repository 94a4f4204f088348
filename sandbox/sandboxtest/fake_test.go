package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
)

func TestFakeContract(t *testing.T) {
	const (
		escapes = "nothing holds a process that leaves its session and clears its environment"
		dies    = "a command's output ends with its shell"
	)
	CheckGoroutines(t)
	fake := &Fake{Disk: t.TempDir(), ExecFunc: HostShell, Image: func(image string) (map[string]string, error) {
		if image != "i" {
			return nil, sandbox.ErrNoImage
		}
		return map[string]string{"/work/dir/file": "x", "/tmp/empty": ""}, nil
	}}
	Test(t, func(*testing.T) sandbox.Provider { return hideRunner{fake} }, Caps{
		Spec: sandbox.Spec{Image: "i", Workdir: "/work/dir"}, NoImage: "j", OneUser: true,
		Unsupported: map[string]string{
			"exec/background child":   dies,
			"life/fresh":              "what a command leaves running is not killed by Close",
			"job/daemon of the agent": escapes,
			"job/daemon of root":      escapes,
			"egress/adapter":          "it has no network of its own",
			"egress/off":              "it has no network of its own",
		},
	})
	fake.CheckClosed(t)
}

// hideRunner hides a fake's own way to run detached commands, so that the
// protocol is tested.
type hideRunner struct{ sandbox.Provider }

func (h hideRunner) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := h.Provider.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &Dropping{Sandbox: sb}, nil
}

func TestFakeZero(t *testing.T) {
	var fake Fake
	sb, err := fake.Create(t.Context(), sandbox.Spec{Workdir: "/any"})
	if err != nil {
		t.Fatal(err)
	}
	if err := sandbox.EnsureUser(t.Context(), sb); err != nil {
		t.Error(err)
	}
	exit, err := sandbox.RunDetached(t.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: "x"}, Log: "/tmp/log"})
	if err != nil || exit != (sandbox.Exit{}) {
		t.Errorf("RunDetached = %v, %v", exit, err)
	}
	write(t, sb, "/a/b", "agent", "text")
	own := fake.Sandboxes()[0]
	if got := strings.Join(own.Files(), " "); got != "/a/b /tmp/log" || own.Owner("/a/b") != "agent" {
		t.Errorf("files %q, owner %q", got, own.Owner("/a/b"))
	}
	if fake.Live() != 1 || fake.Creates() != 1 {
		t.Errorf("%d live of %d", fake.Live(), fake.Creates())
	}
	if err := sb.Close(); err != nil || fake.Live() != 0 {
		t.Errorf("Close: %v, %d live", err, fake.Live())
	}
	if _, err := sb.ReadFile(t.Context(), "/a/b"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("ReadFile after Close: %v", err)
	}
}

func TestFakeBent(t *testing.T) {
	broken := errors.New("broken")
	fake := Fake{
		ExecFunc: func(context.Context, *FakeSandbox, sandbox.Cmd) (sandbox.Result, error) {
			return sandbox.Result{Signal: "SIGKILL"}, nil
		},
		WriteFunc: func(context.Context, *FakeSandbox, string, string) error { return broken },
		ReadFunc:  func(context.Context, *FakeSandbox, string) error { return fs.ErrPermission },
		CloseFunc: func(*FakeSandbox) error { return broken },
	}
	sb, err := fake.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := sandbox.RunDetached(t.Context(), sb, sandbox.Detached{}); err != nil || exit.Code != 137 {
		t.Errorf("RunDetached = %v, %v, want 137", exit, err)
	}
	wantErr(t, "WriteFile", sb.WriteFile(t.Context(), "/x", "", strings.NewReader("")), broken)
	_, err = sb.ReadFile(t.Context(), "/x")
	wantErr(t, "ReadFile", err, fs.ErrPermission)
	wantErr(t, "Close", sb.Close(), broken)
	if err := sb.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	fake.CheckClosed(t)
}

// A stop ends a fake's detached command, whatever it waits for.
func TestFakeStopped(t *testing.T) {
	fake := Fake{ExecFunc: func(ctx context.Context, _ *FakeSandbox, _ sandbox.Cmd) (sandbox.Result, error) {
		<-ctx.Done()
		return sandbox.Result{}, ctx.Err()
	}}
	sb, err := fake.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	stop := make(chan struct{})
	close(stop)
	exit, err := sandbox.RunDetached(t.Context(), sb, sandbox.Detached{Stop: stop})
	if err != nil || exit.State != sandbox.TimedOut {
		t.Errorf("RunDetached = %v, %v, want timed out", exit, err)
	}
}
