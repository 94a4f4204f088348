//go:build linux

package e2btest_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/internal/cases"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

// TestOracle lets E2B's own SDK judge the double: what it does with E2B it
// must be able to do here. testdata/fetch/e2bsdk.sh brings the SDK.
func TestOracle(t *testing.T) {
	if err := e2btest.CanRun(); err != nil {
		t.Skip(err)
	}
	dir := cases.Cache(t, "e2bsdk", "fetch-e2bsdk")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node on this machine")
	}
	srv, err := e2btest.Start(e2btest.Options{Space: " "})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	script, _ := filepath.Abs("testdata/sdk.mjs")
	cmd := exec.CommandContext(t.Context(), node, script, dir, srv.URL, srv.Key())
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "FAILED") {
		t.Fatalf("SDK: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Logf("figure: the JavaScript SDK agrees in %s", lines[len(lines)-1])
	if live := srv.Live(); len(live) > 0 {
		t.Errorf("left alive: %v", live)
	}
}
