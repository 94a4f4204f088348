//go:build linux

package e2b_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// TestReap kills processes whose sandboxes are at a server that outlives them.
func TestReap(t *testing.T) {
	if err := e2btest.CanRun(); err != nil {
		t.Skip(err)
	}
	var servers = make(map[string]*e2btest.Server)
	sandboxtest.TestReap(t, func(dir string) sandbox.Provider {
		at := filepath.Join(dir, "url")
		url, err := os.ReadFile(at)
		if err != nil { // the parent comes first
			srv, err := e2btest.Start(e2btest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { srv.Close() })
			servers[dir], url = srv, []byte(srv.URL)
			if err := os.WriteFile(at, url, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := e2b.New(e2b.Options{APIKey: "e2b_00", APIURL: string(url), SandboxURL: string(url)})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}, sandbox.Spec{Image: "base", Workdir: "/tmp"}, func(dir string) ([]string, error) { return servers[dir].Live(), nil })
}

func TestListAndKill(t *testing.T) {
	srv, p := start(t, e2btest.Options{})
	for _, run := range []string{"a", "a", "b"} {
		boot(t, p, sandbox.Spec{Labels: map[string]string{"run": run, "owner": "host.1_2-3"}})
	}
	found, err := p.List(t.Context(), map[string]string{"run": "a"})
	if err != nil || len(found) != 2 {
		t.Fatalf("List(run=a) = %v, %v, want 2", found, err)
	}
	for _, f := range found {
		if f.Labels["owner"] != "host.1_2-3" || f.Created.IsZero() {
			t.Errorf("listed: %+v", f)
		}
		for range 2 {
			if err := p.Kill(t.Context(), f.ID); err != nil {
				t.Errorf("Kill: %v", err)
			}
		}
	}
	if all, err := p.List(t.Context(), nil); err != nil || len(all) != 1 || len(srv.Live()) != 1 {
		t.Errorf("afterwards %d, %v; the server has %d", len(all), err, len(srv.Live()))
	}
	if _, err := p.List(t.Context(), map[string]string{"run": "a b"}); err == nil || !strings.Contains(err.Error(), "A-Za-z0-9") {
		t.Errorf("List by a label that servers read differently: %v", err)
	}
}
