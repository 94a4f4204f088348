package docker_test

import (
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

func TestContract(t *testing.T) {
	sandboxtest.Test(t, func(t *testing.T) sandbox.Provider { return provider(t) }, sandboxtest.Caps{
		Spec:    sandbox.Spec{Image: image, Workdir: "/tmp"},
		NoImage: "agentrl-test:nosuch",
	})
}
