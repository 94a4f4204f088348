package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
)

// start boots the sandbox in the directory that boot made.
func (b *box) start(ctx context.Context) error {
	if b.way != Plain {
		return b.space.start(ctx, b)
	}
	if b.spec.Egress != sandbox.EgressOpen {
		return fmt.Errorf("egress %q needs a network namespace, which a plain directory does not have: %w", b.spec.Egress, sandbox.ErrInvalid)
	}
	b.root = filepath.Join(b.dir, "root")
	for _, dir := range []string{"tmp", "root", "home/" + sandbox.AgentUser} {
		if err := os.MkdirAll(filepath.Join(b.root, dir), 0o755); err != nil {
			return err
		}
	}
	from, to := b.image, b.root
	if b.image == "/" {
		from, to = filepath.Clean(b.spec.Workdir), filepath.Join(b.root, b.spec.Workdir)
		if info, err := os.Stat(from); b.spec.Workdir == "" || err != nil || !info.IsDir() {
			return nil // verify says so
		}
	}
	return copyTree(ctx, from, to)
}

// copyTree copies what is in a directory, links as links.
func copyTree(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "cp", "-RPp", from+"/.", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy image %s: %w: %s", from, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// noDirCode is the exit status of a command whose directory is missing, if it
// prints the sandbox's nonce as well.
const noDirCode = 125

// command makes a process of a command, and names the user that it runs as
// where that is not our own.
func (b *box) command(ctx context.Context, cmd sandbox.Cmd) (c *exec.Cmd, owner int, err error) {
	if err := check(cmd); err != nil {
		return nil, 0, err
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	home := "/root"
	if cmd.User != "" && cmd.User != "root" {
		home = "/home/" + cmd.User
	}
	if b.way != Plain {
		return b.space.command(ctx, b, cmd, home)
	}
	env, err := b.env(cmd, filepath.Join(b.root, home))
	if err != nil {
		return nil, 0, err
	}
	c = exec.Command("sh", "-c", cmd.Script)
	c.Env, c.Dir = env, filepath.Join(b.root, cmd.Dir)
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return nil, 0, fmt.Errorf("no directory %q: %w", cmd.Dir, sandbox.ErrInvalid)
	}
	return c, 0, nil
}
