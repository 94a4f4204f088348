//go:build linux

package e2b_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

func TestMain(m *testing.M) {
	e2btest.RunChild()
	os.Exit(m.Run())
}

// start starts a double and a provider that talks to it, patient as a test is.
func start(t testing.TB, o e2btest.Options, bend ...func(*e2b.Options)) (*e2btest.Server, *e2b.Provider) {
	t.Helper()
	o.Envd = os.Getenv("E2B_TEST_ENVD_URL")
	if err := e2btest.CanRun(); err != nil && o.Envd == "" {
		t.Skip(err)
	}
	srv, err := e2btest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close the double: %v", err)
		}
		if a := srv.Stats().Aborts; t.Failed() && len(a) > 0 {
			t.Logf("streams that broke: %s", strings.Join(a, "; "))
		}
		if v := srv.Stats().Violations; len(v) > 0 {
			t.Errorf("requests that harm a real server: %s", strings.Join(v, "; "))
		}
	})
	opts := e2b.Options{
		APIKey: srv.Key(), APIURL: srv.URL, SandboxURL: srv.URL, Dial: srv.Dial,
		Wait:   retry.Policy{Base: 10 * time.Millisecond, Cap: 100 * time.Millisecond},
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, b := range bend {
		b(&opts)
	}
	p, err := e2b.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return srv, p
}

// boot makes a sandbox that is closed at the test's end.
func boot(t testing.TB, p *e2b.Provider, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	if spec.Image == "" {
		spec.Image = "base"
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
