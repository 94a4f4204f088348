//go:build unix

package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	c.WaitDelay = 200 * time.Millisecond // for a child that holds the output
	if err := c.Start(); err != nil {
		return sandbox.Result{}, err
	}
	kill := func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	waited := make(chan error, 1)
	go func() { waited <- c.Wait() }()
	var err error
	select {
	case err = <-waited:
	case <-ctx.Done():
		kill()
		<-waited
		return sandbox.Result{}, context.Cause(ctx)
	case <-sb.closed:
		kill()
		<-waited
		return sandbox.Result{}, fmt.Errorf("%s: %w", sb.id, sandbox.ErrGone)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return sandbox.Result{}, err
	}
	res := sandbox.Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if w := c.ProcessState.Sys().(syscall.WaitStatus); w.Signaled() {
		res.Signal = map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", syscall.SIGSEGV: "SIGSEGV", syscall.SIGINT: "SIGINT"}[w.Signal()]
		return res, nil
	}
	res.Code = c.ProcessState.ExitCode()
	return res, nil
}
