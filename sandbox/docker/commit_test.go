package docker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
)

func TestCommit(t *testing.T) {
	p := provider(t)
	first, err := p.Create(t.Context(), sandbox.Spec{Image: image})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close() })
	if _, err := sandbox.Output(t.Context(), first, sandbox.Cmd{Script: "echo kept >/srv/file"}); err != nil {
		t.Fatal(err)
	}
	box := first.(*docker.Sandbox)
	for _, bad := range []string{"", "name", ":tag", "name:"} {
		if err := box.Commit(t.Context(), bad); err == nil {
			t.Errorf("Commit(%q) accepts it", bad)
		}
	}
	const kept = "agentrl-test:kept"
	if err := box.Commit(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	second, err := p.Create(t.Context(), sandbox.Spec{Image: kept})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := sandbox.Output(t.Context(), second, sandbox.Cmd{Script: "cat /srv/file"}); out != "kept" || err != nil {
		t.Errorf("the image's file holds %q, %v", out, err)
	}
	second.Close()
	for range 2 { // a missing one is no error
		if err := p.Forget(context.Background(), kept); err != nil {
			t.Errorf("Forget: %v", err)
		}
	}
	if _, err := p.Create(t.Context(), sandbox.Spec{Image: kept}); !errors.Is(err, sandbox.ErrNoImage) {
		t.Errorf("Create of a forgotten image: %v, want ErrNoImage", err)
	}
}
