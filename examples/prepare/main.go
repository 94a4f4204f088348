// Command prepare makes a Docker image that has the agent in it already, so
// that a rollout's boot installs nothing:
//
//	SWE_AGENT=codex SLIME_AGENT_CODEX_TARBALL=codex.tgz go run ./examples/prepare -image repo:base -tag repo:codex
//
// Rows then name the new image. For E2B, build the template from a Dockerfile
// that copies the same program to /opt/agentrl/bin/claude or codex, owned by
// root with mode 755; then leave the tarball's variable unset.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/claudecode"
	"github.com/agentrl-go/agentrl/harness/codex"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
)

func main() {
	image := flag.String("image", "", "image to start from, which the daemon has")
	tag := flag.String("tag", "", "REPOSITORY:TAG of the image to make")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *image, *tag); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, image, tag string) error {
	cfg, err := agentrl.ConfigFromEnv(os.Environ())
	if err != nil {
		return err
	}
	agent, err := agentOf(cfg)
	if err != nil {
		return err
	}
	provider := docker.New(docker.Options{})
	defer provider.Close()
	sb, err := provider.Create(ctx, sandbox.Spec{Image: image})
	if err != nil {
		return err
	}
	defer sb.Close()
	start := time.Now()
	if err := agent.Install(ctx, sb); err != nil {
		return err
	}
	if err := sb.(*docker.Sandbox).Commit(ctx, tag); err != nil {
		return err
	}
	fmt.Printf("%s is %s with the agent, made in %s\n", tag, image, time.Since(start).Round(time.Millisecond))
	return nil
}

// agentOf is the harness that the environment names, of those that have
// something to install.
func agentOf(cfg agentrl.Config) (harness.Harness, error) {
	switch cfg.Agent {
	case "", "claude_code":
		return claudecode.New(claudecode.Options{
			Program: harness.Asset{Path: cfg.ClaudeCodeTarball, SHA256: cfg.ClaudeCodeSHA256},
			Musl:    harness.Asset{Path: cfg.ClaudeCodeMuslTarball, SHA256: cfg.ClaudeCodeMuslSHA256},
			Node:    harness.Asset{Path: cfg.NodeTarball, SHA256: cfg.NodeSHA256},
		})
	case "codex":
		return codex.New(codex.Options{Program: harness.Asset{Path: cfg.CodexTarball, SHA256: cfg.CodexSHA256}})
	}
	return nil, fmt.Errorf("SWE_AGENT=%q: want claude_code or codex", cfg.Agent)
}
