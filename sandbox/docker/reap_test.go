package docker_test

import (
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

func TestReap(t *testing.T) {
	p := provider(t)
	mine := map[string]string{"test": "reap"}
	sandboxtest.TestReap(t, func(string) sandbox.Provider { return provider(t) },
		sandbox.Spec{Image: image, Workdir: "/tmp", Labels: mine},
		func(string) ([]string, error) {
			found, err := p.List(t.Context(), mine)
			var ids []string
			for _, sb := range found {
				ids = append(ids, sb.ID)
			}
			return ids, err
		})
}
