package local

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// suite runs the contract in one kind of isolation, which must be had.
func suite(t *testing.T, want Isolation, caps sandboxtest.Caps) {
	t.Helper()
	sandboxtest.CheckGoroutines(t)
	p := &Provider{Dir: t.TempDir(), Want: want}
	if way, why := p.Isolation(); way != want {
		t.Fatalf("isolation is %s, want %s: %v", way, want, why)
	}
	caps.NoImage = "/no/such/image"
	caps.Spec.Workdir = workdir(t)
	sandboxtest.Test(t, func(*testing.T) sandbox.Provider { return p }, caps)
}

// workdir is a directory of the host that everybody may read.
func workdir(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "agentrl-work")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces with users need root")
	}
	suite(t, Namespaces, sandboxtest.Caps{Egress: []sandbox.Egress{sandbox.EgressAdapter, sandbox.EgressOff}})
}

const escapes = "nothing holds a process that leaves its session and clears its environment"

func TestPlain(t *testing.T) {
	suite(t, Plain, sandboxtest.Caps{OneUser: true, Unsupported: map[string]string{
		"job/daemon of the agent": escapes,
		"job/daemon of root":      escapes,
	}})
}

// TestOrdinaryUser runs the tests that an ordinary user can run as one.
func TestOrdinaryUser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	if os.Getuid() != 0 {
		t.Skip("root can become an ordinary user; an ordinary user is one and runs TestPlain")
	}
	dir := workdir(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "local.test")
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o700), os.Chown(tmp, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary, "-test.run", "^(TestPlain|TestUserNamespace)$", "-test.v")
	c.Dir, c.Env = "/", []string{"PATH=" + defaultPath, "TMPDIR=" + tmp, "HOME=" + tmp}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := c.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if err != nil || strings.Contains(line, "figure:") || strings.Contains(line, "WARN") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPlain") {
		t.Errorf("as user %d: %v", nobody, err)
	}
	left, err := listHere(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("user %d left %q, %v", nobody, left, err)
	}
}

func BenchmarkLocal(b *testing.B) {
	p := &Provider{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	way, _ := p.Isolation()
	b.Run(strings.ReplaceAll(string(way), " ", "-"), func(b *testing.B) { sandboxtest.Bench(b, p, sandbox.Spec{}) })
}

// TestUserNamespace is for ordinary users, and for kernels that let them.
func TestUserNamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	if os.Getuid() == 0 {
		t.Skip("root has namespaces; TestOrdinaryUser runs this test as another user")
	}
	probe := &Provider{Dir: t.TempDir(), Want: UserNamespace}
	if way, why := probe.Isolation(); way != UserNamespace {
		t.Skipf("this machine has no user namespaces for users: %v", why)
	}
	suite(t, UserNamespace, sandboxtest.Caps{OneUser: true, Egress: []sandbox.Egress{sandbox.EgressOff}})
}
