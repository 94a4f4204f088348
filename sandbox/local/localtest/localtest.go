// Package localtest boots sandboxes of this machine for tests.
package localtest

import (
	"log/slog"
	"os"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

// Boot boots a sandbox that is closed when the test ends, with path as its PATH,
// "" for the usual one. The test is skipped where there are no sandboxes with
// users.
func Boot(t testing.TB, path string, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("local sandboxes with users need root")
	}
	p := &local.Provider{Logger: slog.New(slog.DiscardHandler), Path: path}
	sb, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}
