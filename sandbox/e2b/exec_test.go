package e2b_test

import (
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

func TestSmoke(t *testing.T) {
	_, p := start(t, e2btest.Options{})
	sb := boot(t, p, sandbox.Spec{Workdir: "/tmp"})
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: "id -un; pwd; ls -la /tmp; ps ax; exit 3", User: "daemon"})
	t.Logf("%d %q %s %s %v", res.Code, res.Signal, res.Stdout, res.Stderr, err)
}
