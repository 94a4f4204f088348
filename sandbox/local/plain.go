package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

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
	c = command("sh", "-c", cmd.Script)
	c.Env, c.Dir = env, filepath.Join(b.root, cmd.Dir)
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return nil, 0, fmt.Errorf("no directory %q: %w", cmd.Dir, sandbox.ErrInvalid)
	}
	return c, 0, nil
}

// plainBox is a sandbox of which this process is the parent: its detached
// commands need no protocol, and what the protocol needs is not everywhere.
type plainBox struct{ *box }

var _ sandbox.DetachedRunner = plainBox{}

// jobVar marks what a detached command has started.
const jobVar = "AGENTRL_JOB"

// RunDetached runs a command in a process group of its own. On return the
// group is dead, and on Linux what carries the command's mark; a process that
// left the group and cleared its environment is not found. Nothing is killed
// by user: that would be ourselves. Lost is not among the ends.
func (b plainBox) RunDetached(ctx context.Context, d sandbox.Detached) (sandbox.Exit, error) {
	end, err := b.begin(ctx)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer end()
	id := rand.Text()
	d.Env = maps.Clone(d.Env)
	if d.Env == nil {
		d.Env = map[string]string{}
	}
	d.Env[jobVar] = id
	script, remove, err := b.short(ctx, d.Script)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer remove()
	d.Script = script
	c, _, err := b.command(ctx, d.Cmd)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("start job: %w", err)
	}
	log, err := b.openLog(d.Log)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("start job: %w", err)
	}
	defer log.Close()
	exit, err := b.follow(ctx, c, log, d.Stop, id)
	if b.isGone() {
		return sandbox.Exit{}, b.gone()
	}
	return exit, err
}

// openLog makes the file anew, through no link.
func (b plainBox) openLog(name string) (io.WriteCloser, error) {
	if name == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if !filepath.IsAbs(name) {
		return nil, fmt.Errorf("log %q is not an absolute path: %w", name, sandbox.ErrInvalid)
	}
	name = filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// stopGrace is how long a command may go on after TERM.
const stopGrace = 5 * time.Second

// follow runs the process to its end and kills what it leaves.
func (b plainBox) follow(ctx context.Context, c *exec.Cmd, log io.Writer, stop <-chan struct{}, id string) (sandbox.Exit, error) {
	output, err := b.collect(log)
	if err != nil {
		return sandbox.Exit{}, err
	}
	c.Stdout, c.Stderr = output.w, output.w
	if err := b.startProcess(c); err != nil {
		output.finish()
		return sandbox.Exit{}, startError(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // the state says it all
		close(ended)
	}()
	stopped := false
	select {
	case <-ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-stop:
		stopped = true
		termGroup(c.Process.Pid)
		grace := time.NewTimer(stopGrace)
		defer grace.Stop()
		select {
		case <-ended:
		case <-grace.C:
		case <-ctx.Done():
		}
	}
	killGroup(c.Process.Pid)
	<-ended
	killed := killMarked(jobVar + "=" + id)
	b.forget(c.Process.Pid)
	output.finish()
	switch {
	case err != nil || killed != nil:
		return sandbox.Exit{}, errors.Join(err, killed)
	case stopped:
		return sandbox.Exit{State: sandbox.TimedOut}, nil
	}
	return sandbox.Exit{Code: shellCode(c.ProcessState)}, nil
}
