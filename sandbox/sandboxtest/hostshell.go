//go:build unix

package sandboxtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// HostShell is an ExecFunc for a Fake with Disk: it runs the command by this
// machine's sh as the test's own user, in the sandbox's directory. Scripts
// reach their files by sandbox.Path. When ctx ends or the sandbox is closed,
// the command's process group is killed.
func HostShell(ctx context.Context, sb *FakeSandbox, cmd sandbox.Cmd) (sandbox.Result, error) {
	dir := sb.onDisk(path.Join("/", cmd.Dir))
	if err := os.MkdirAll(sb.onDisk("/tmp"), 0o755); err != nil {
		return sandbox.Result{}, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || strings.Contains(cmd.Script, "\x00") {
		return sandbox.Result{}, fmt.Errorf("directory %q or script: %w", cmd.Dir, sandbox.ErrInvalid)
	}
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": sb.onDisk("/"), sandbox.RootVar: sb.onDisk("/"), sandbox.OneUserVar: "1"}
	maps.Copy(env, sb.Spec.Env)
	maps.Copy(env, cmd.Env)
	c := exec.Command("sh")
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Setsid: true}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if strings.Contains(env[k], "\x00") {
			return sandbox.Result{}, fmt.Errorf("variable %s: %w", k, sandbox.ErrInvalid)
		}
		c.Env = append(c.Env, k+"="+env[k])
	}
	script, err := scriptArgs(sb, cmd.Script)
	if err != nil {
		return sandbox.Result{}, err
	}
	c.Args = append(c.Args, script...)
	return runGroup(ctx, sb, c)
}

// scriptArgs are sh's arguments for a script, which may be too long for one.
func scriptArgs(sb *FakeSandbox, script string) ([]string, error) {
	if len(script) < 100_000 {
		return []string{"-c", script}, nil
	}
	f, err := os.CreateTemp(sb.provider.Disk, "script-")
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(script)
	return []string{f.Name()}, errors.Join(err, f.Close())
}

func runGroup(ctx context.Context, sb *FakeSandbox, c *exec.Cmd) (sandbox.Result, error) {
	var stdout, stderr capture
	err := errors.Join(stdout.open(&c.Stdout), stderr.open(&c.Stderr))
	if err == nil {
		err = c.Start()
	}
	stdout.begin()
	stderr.begin()
	if err != nil {
		stdout.end()
		stderr.end()
		return sandbox.Result{}, err
	}
	kill := func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	waited := make(chan error, 1)
	go func() { waited <- c.Wait() }()
	var lost error
	select {
	case err = <-waited:
	case <-ctx.Done():
		lost = context.Cause(ctx)
	case <-sb.closed:
		lost = fmt.Errorf("%s: %w", sb.id, sandbox.ErrGone)
	}
	if lost != nil {
		kill()
		<-waited
	}
	res := sandbox.Result{Stdout: stdout.end(), Stderr: stderr.end()}
	var exit *exec.ExitError
	if lost != nil || err != nil && !errors.As(err, &exit) {
		return sandbox.Result{}, cmp.Or(lost, err)
	}
	if w := c.ProcessState.Sys().(syscall.WaitStatus); w.Signaled() {
		res.Signal = map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", syscall.SIGSEGV: "SIGSEGV", syscall.SIGINT: "SIGINT"}[w.Signal()]
		return res, nil
	}
	res.Code = c.ProcessState.ExitCode()
	return res, nil
}

// A capture is a pipe that is read until the shell ends, and then to the end of
// what it holds: a child that lives on keeps it open.
type capture struct {
	r, w *os.File
	buf  bytes.Buffer
	done chan struct{}
}

func (c *capture) open(out *io.Writer) (err error) {
	c.r, c.w, err = os.Pipe()
	*out = c.w
	return err
}

// begin reads; the shell has its own descriptor of the other side.
func (c *capture) begin() {
	c.w.Close()
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		_, _ = io.Copy(&c.buf, c.r)
	}()
}

func (c *capture) end() []byte {
	defer c.r.Close()
	_ = c.r.SetReadDeadline(time.Unix(1, 0)) // the reader gives up, wherever it is
	<-c.done
	_ = c.r.SetReadDeadline(time.Time{})
	conn, err := c.r.SyscallConn()
	if err != nil {
		return c.buf.Bytes()
	}
	chunk := make([]byte, 64<<10)
	_ = conn.Read(func(fd uintptr) bool {
		for {
			n, err := syscall.Read(int(fd), chunk)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 || err != nil {
				return true
			}
			c.buf.Write(chunk[:n])
		}
	})
	return c.buf.Bytes()
}
