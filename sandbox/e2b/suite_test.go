package e2b_test

import (
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

func TestContract(t *testing.T) {
	sandboxtest.Test(t, func(t *testing.T) sandbox.Provider {
		_, p := start(t, e2btest.Options{})
		return p
	}, sandboxtest.Caps{
		Spec:    sandbox.Spec{Image: "base", Workdir: "/tmp"},
		NoImage: "no-such-template",
	})
}
