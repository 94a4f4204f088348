package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// markVar is in the environment of everything that runs in a sandbox.
const markVar = "AGENTRL_SANDBOX"

// box is one sandbox: a directory, and what runs in it.
type box struct {
	id    string
	nonce string // what a command prints whose directory is missing
	dir   string // ours: upper layer or copy, and what the reaper needs
	image string // directory; "/" for the host's own
	path  string // PATH
	spec  sandbox.Spec
	way   Isolation
	root  string // Plain: what stands for the sandbox's root; else ""
	space space  // the namespaces; unused in Plain

	mu      sync.Mutex
	done    bool
	closed  chan struct{}
	groups  map[int]bool      // process groups of commands that run
	outputs map[*os.File]bool // read ends of what they print
	calls   sync.WaitGroup    // operations, and readers of output that somebody still holds
	users   sync.Map          // name → user, of those looked up
	err     error             // of Close
}

// ID names the sandbox: its directory below Provider.Dir.
func (b *box) ID() string { return b.id }

// begin counts an operation in, so that Close can wait for it.
func (b *box) begin(ctx context.Context) (end func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return nil, b.gone()
	}
	b.calls.Add(1)
	return b.calls.Done, nil
}

func (b *box) gone() error { return fmt.Errorf("%s: %w", b.id, sandbox.ErrGone) }

// Exec runs a command in a process group of its own. When ctx ends, the group
// is killed.
func (b *box) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	end, err := b.begin(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer end()
	script, remove, err := b.short(ctx, cmd.Script)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("exec: %w", err)
	}
	defer remove()
	cmd.Script = script
	c, owner, err := b.command(ctx, cmd)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("exec: %w", err)
	}
	res, err := b.run(ctx, c, owner)
	if err == nil && res.Code == noDirCode && string(res.Stderr) == b.nonce+"\n" {
		err = fmt.Errorf("no directory %q: %w", cmd.Dir, sandbox.ErrInvalid)
	}
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("exec: %w", err)
	}
	return res, nil
}

// maxArg is below the length that Linux allows one argument, 128 KiB.
const maxArg = 120 << 10

// short returns the script itself, or one that runs it from a file if it is
// longer than an argument may be.
func (b *box) short(ctx context.Context, script string) (string, func(), error) {
	if len(script) <= maxArg {
		return script, func() {}, nil
	}
	file := b.tempName("/var/lib/agentrl/script")
	if err := b.write(ctx, file, "", strings.NewReader(script)); err != nil {
		return "", nil, err
	}
	remove := func() {
		c, _, err := b.command(context.WithoutCancel(ctx), sandbox.Cmd{Script: "rm -f " + sandbox.Path(file)})
		if err == nil {
			_, _ = b.run(context.WithoutCancel(ctx), c, 0)
		}
	}
	return "exec sh " + sandbox.Path(file), remove, nil
}

// env is what a command finds in its environment; cmd's own variables win.
func (b *box) env(cmd sandbox.Cmd, home string) ([]string, error) {
	name := cmd.User
	if name == "" {
		name = "root"
	}
	env := map[string]string{"PATH": b.path, "HOME": home, "USER": name, "LOGNAME": name, markVar: b.id}
	if b.way != Namespaces {
		env[sandbox.OneUserVar] = "1"
	}
	if b.root != "" {
		env[sandbox.RootVar] = b.root
		env["TMPDIR"] = filepath.Join(b.root, "tmp")
	}
	maps.Copy(env, b.spec.Env)
	maps.Copy(env, cmd.Env)
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(env[k], "\x00") {
			return nil, fmt.Errorf("environment variable %q cannot be set: %w", k, sandbox.ErrInvalid)
		}
		list = append(list, k+"="+env[k])
	}
	return list, nil
}

// check refuses what no command can be made of.
func check(cmd sandbox.Cmd) error {
	switch {
	case strings.Contains(cmd.Script, "\x00"):
		return fmt.Errorf("a script cannot hold a NUL byte: %w", sandbox.ErrInvalid)
	case cmd.Dir != "" && !filepath.IsAbs(cmd.Dir):
		return fmt.Errorf("directory %q is not absolute: %w", cmd.Dir, sandbox.ErrInvalid)
	}
	return nil
}

// run runs a command to its end and collects its output.
func (b *box) run(ctx context.Context, c *exec.Cmd, owner int) (sandbox.Result, error) {
	var res sandbox.Result
	var outBytes, errBytes bytes.Buffer
	stdout, err := b.collect(&outBytes)
	if err != nil {
		return res, err
	}
	stderr, err := b.collect(&errBytes)
	if err != nil {
		stdout.finish()
		return res, err
	}
	c.Stdout, c.Stderr = stdout.w, stderr.w
	if owner > 0 { // who may then open /dev/stderr anew
		_, _ = stdout.w.Chown(owner, -1), stderr.w.Chown(owner, -1)
	}
	err = b.startProcess(c)
	if err != nil {
		stdout.finish()
		stderr.finish()
		return res, startError(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Wait() }()
	select {
	case err = <-waited:
	case <-ctx.Done():
		killGroup(c.Process.Pid)
		<-waited
		err = context.Cause(ctx)
	}
	b.forget(c.Process.Pid)
	stdout.finish()
	stderr.finish()
	res.Stdout, res.Stderr = outBytes.Bytes(), errBytes.Bytes()
	return b.result(c, res, err)
}

func (b *box) result(c *exec.Cmd, res sandbox.Result, err error) (sandbox.Result, error) {
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		if b.isGone() {
			return sandbox.Result{}, b.gone()
		}
		return sandbox.Result{}, err
	case !c.ProcessState.Success() && b.isGone():
		return sandbox.Result{}, b.gone()
	}
	res.Code, res.Signal = exitOf(c.ProcessState)
	return res, nil
}

// isGone reports whether the sandbox was closed or has died.
func (b *box) isGone() bool {
	select {
	case <-b.closed:
		return true
	default:
		return b.way != Plain && b.space.dead()
	}
}

func startError(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("this machine has no shell for a local sandbox: %w", err)
	}
	return err
}

// startProcess starts a command in a group that Close will find.
func (b *box) startProcess(c *exec.Cmd) error {
	ownGroup(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return b.gone()
	}
	if err := c.Start(); err != nil {
		return err
	}
	if b.groups == nil {
		b.groups = map[int]bool{}
	}
	b.groups[c.Process.Pid] = true
	return nil
}

func (b *box) forget(pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.groups, pid)
}

// Close kills everything in the sandbox and removes it. It returns when all
// operations have ended.
func (b *box) Close() error {
	b.mu.Lock()
	if b.done {
		b.mu.Unlock()
		b.calls.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.err
	}
	b.done = true
	close(b.closed)
	for pid := range b.groups {
		killGroup(pid)
	}
	b.mu.Unlock()
	err := b.stop()
	b.mu.Lock()
	for r := range b.outputs { // held by what escaped us, in Plain
		r.Close()
	}
	b.mu.Unlock()
	b.calls.Wait()
	if rerr := removeAll(b.dir); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		err = fmt.Errorf("close %s: %w", b.id, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	return err
}

// stop ends what runs.
func (b *box) stop() error {
	if b.way == Plain {
		return killMarked(markVar + "=" + b.id)
	}
	return b.space.stop()
}

// collector reads one output of a command. It passes on all that was written
// before the command's end, and goes on reading what is written by those who
// still hold the output after it, so that they do not die of a broken pipe.
type collector struct {
	r, w     *os.File
	to       io.Writer
	complete chan struct{}
}

func (b *box) collect(to io.Writer) (*collector, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &collector{r: r, w: w, to: to, complete: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		r.Close()
		w.Close()
		return nil, b.gone()
	}
	if b.outputs == nil {
		b.outputs = map[*os.File]bool{}
	}
	b.outputs[r] = true
	b.calls.Go(func() {
		c.read()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.outputs, r)
	})
	return c, nil
}

func (c *collector) read() {
	defer c.r.Close()
	chunk := make([]byte, 64<<10)
	for {
		n, err := c.r.Read(chunk)
		_, _ = c.to.Write(chunk[:n])
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = c.r.SetReadDeadline(time.Time{})
			drain(c.r, c.to)
			close(c.complete)
			_, _ = io.Copy(io.Discard, c.r)
			return
		}
		close(c.complete)
		return
	}
}

// finish is called when the command has ended.
func (c *collector) finish() {
	c.w.Close()
	_ = c.r.SetReadDeadline(time.Unix(1, 0))
	<-c.complete
}
