package local

import (
	"os"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// suite runs the contract in one kind of isolation, which must be had.
func suite(t *testing.T, want Isolation, caps sandboxtest.Caps) {
	t.Helper()
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

func TestPlain(t *testing.T) {
	suite(t, Plain, sandboxtest.Caps{OneUser: true, Unsupported: map[string]string{
		"job/daemon of root": "nothing holds a process that leaves its session and clears its environment",
	}})
}
