package docker_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
)

const image = "agentrl-test:debian"

// provider is a provider at the daemon of this machine, or at the one whose
// socket AGENTRL_TEST_DOCKER names.
func provider(t testing.TB, bend ...func(*docker.Options)) *docker.Provider {
	t.Helper()
	o := docker.Options{Socket: os.Getenv("AGENTRL_TEST_DOCKER"), Logger: slog.New(slog.DiscardHandler), Retries: 2}
	for _, b := range bend {
		b(&o)
	}
	p := docker.New(o)
	t.Cleanup(func() { p.Close() })
	if err := p.Ping(t.Context()); err != nil {
		t.Skipf("%v; testdata/fetch/docker.sh starts one", err)
	}
	return p
}

func boot(t testing.TB, p *docker.Provider, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	if spec.Image == "" {
		spec.Image = image
	}
	sb, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return sb
}

func TestSmoke(t *testing.T) {
	p := provider(t)
	sb := boot(t, p, sandbox.Spec{Workdir: "/tmp"})
	for _, cmd := range []sandbox.Cmd{{Script: "id -un; pwd; ps ax; exit 3", User: "daemon"}, {Script: "kill -9 $$"}, {Script: "exit 137"}, {Script: ":", User: "nosuch"}, {Script: ":", Dir: "/no/such"}, {Script: "echo x; sleep 30 & exit 4"}, {Script: "kill -9 $PPID"}, {Script: "kill -9 $(ps -o ppid= $PPID)"}} {
		begin := time.Now()
		res, err := sb.Exec(t.Context(), cmd)
		t.Logf("%v %q: %d %q %s %s %v", time.Since(begin), cmd.Script, res.Code, res.Signal, res.Stdout, res.Stderr, err)
	}
}
