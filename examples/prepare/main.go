// Command prepare puts the agent into an image, so that a rollout's boot
// installs nothing. As a Docker image:
//
//	SWE_AGENT=codex SLIME_AGENT_CODEX_TARBALL=codex.tgz go run ./examples/prepare -image repo:base -tag repo:codex
//
// Rows then name repo:codex. As an E2B template, from a directory to build:
//
//	SWE_AGENT=codex SLIME_AGENT_CODEX_TARBALL=codex.tgz go run ./examples/prepare -image repo:base -context DIR
//	cd DIR && e2b template build --dockerfile e2b.Dockerfile
//
// Rows then name the template. Without -image the agent is installed on this
// machine, in a sandbox that is thrown away, and the Dockerfile's FROM line is
// yours to fill in. The tarball's variable may stay set: an agent that is there
// already is not uploaded again, and another version is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/claudecode"
	"github.com/agentrl-go/agentrl/harness/codex"
	"github.com/agentrl-go/agentrl/harness/opencode"
	"github.com/agentrl-go/agentrl/harness/pi"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

// options are the command's.
type options struct {
	image   string // to start from; "" is this machine
	tag     string // of the Docker image to make; "" for none
	context string // directory to make for a template's build; "" for none
}

func main() {
	var o options
	flag.StringVar(&o.image, "image", "", "Docker image to start from, which the daemon has")
	flag.StringVar(&o.tag, "tag", "", "REPOSITORY:TAG of the Docker image to make")
	flag.StringVar(&o.context, "context", "", "directory to make for the build of an E2B template")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Environ(), o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, environ []string, o options, out io.Writer) error {
	switch {
	case o.tag == "" && o.context == "":
		return errors.New("nothing to make: give -tag REPOSITORY:TAG for a Docker image, or -context DIR for an E2B template")
	case o.tag != "" && o.image == "":
		return errors.New("-tag needs -image, the Docker image to start from")
	}
	cfg, err := agentrl.ConfigFromEnv(environ)
	if err != nil {
		return err
	}
	agent, err := agentOf(cfg)
	if err != nil {
		return err
	}
	sb, closeAll, err := boot(ctx, o.image)
	if err != nil {
		return err
	}
	defer closeAll()
	start := time.Now()
	if err := agent.Install(ctx, sb); err != nil {
		return err
	}
	if o.context != "" {
		if err := writeContext(ctx, sb, o); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s is ready for `e2b template build`, made in %s\n", o.context, time.Since(start).Round(time.Millisecond))
	}
	if o.tag == "" {
		return nil
	}
	if err := sb.(*docker.Sandbox).Commit(ctx, o.tag); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is %s with the agent, made in %s\n", o.tag, o.image, time.Since(start).Round(time.Millisecond))
	return nil
}

// boot makes a container of the image, or a sandbox of this machine.
func boot(ctx context.Context, image string) (sandbox.Sandbox, func(), error) {
	var provider sandbox.Provider = &local.Provider{}
	done := func() {}
	if image != "" {
		p := docker.New(docker.Options{Socket: os.Getenv("DOCKER_HOST")})
		provider, done = p, func() { p.Close() }
	}
	sb, err := provider.Create(ctx, sandbox.Spec{Image: image})
	if err != nil {
		done()
		return nil, nil, err
	}
	return sb, func() { sb.Close(); done() }, nil
}

const tarball = "agentrl.tar"

// writeContext writes what Install put into the sandbox, marks and all, and a
// Dockerfile that unpacks it.
func writeContext(ctx context.Context, sb sandbox.Sandbox, o options) error {
	const packed = "/var/tmp/" + tarball
	_, err := sandbox.Output(ctx, sb, sandbox.Cmd{Env: map[string]string{"HOME_DIR": harness.Home[1:]}, Script: "cd " + sandbox.Path("/") +
		` && set -- "$HOME_DIR/bin" && { [ ! -e "$HOME_DIR/lib" ] || set -- "$@" "$HOME_DIR/lib"; } && tar -cf ` + sandbox.Path(packed) + ` "$@"`})
	if err != nil {
		return fmt.Errorf("pack the agent: %w", err)
	}
	content, err := sb.ReadFile(ctx, packed)
	if err != nil {
		return err
	}
	defer content.Close()
	if err := os.MkdirAll(o.context, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(o.context, tarball))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	from := o.image
	if from == "" {
		from = "IMAGE # the image that rows were to name"
	}
	return os.WriteFile(filepath.Join(o.context, "e2b.Dockerfile"), []byte("FROM "+from+"\nCOPY "+tarball+" /tmp/"+tarball+"\nRUN "+unpack+"\n"), 0o644)
}

// unpack is the template's own step.
const unpack = "tar -xof /tmp/" + tarball + " -C / && rm /tmp/" + tarball

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
	case "opencode":
		return opencode.New(opencode.Options{Program: harness.Asset{Path: cfg.OpencodeTarball, SHA256: cfg.OpencodeSHA256}})
	case "pi":
		return pi.New(pi.Options{
			Package: harness.Asset{Path: cfg.PiTarball, SHA256: cfg.PiSHA256},
			Node:    harness.Asset{Path: cfg.NodeTarball, SHA256: cfg.NodeSHA256},
		})
	}
	return nil, fmt.Errorf("SWE_AGENT=%q: want claude_code, codex, opencode or pi: the others have nothing to install", cfg.Agent)
}
