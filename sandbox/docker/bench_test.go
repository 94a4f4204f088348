package docker_test

import (
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

func BenchmarkSandbox(b *testing.B) {
	sandboxtest.Bench(b, provider(b), sandbox.Spec{Image: image, Workdir: "/tmp"})
}

func TestConstantMemory(t *testing.T) {
	p := provider(t)
	sandboxtest.ConstantMemory(t, "AGENTRL_TEST_DOCKER_CHILD", "1", func(string) sandbox.Sandbox { return boot(t, p, sandbox.Spec{}) })
}
