package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"strings"
	"sync"

	"github.com/agentrl-go/agentrl/sandbox"
)

// What the scripts of file operations exit with.
const (
	missingCode = 44
	dirCode     = 45
	sizeCode    = 46
)

// tempName is a name beside name that nothing has.
func (b *box) tempName(name string) string {
	dir, _ := path.Split(name)
	return dir + ".agentrl-" + strings.ToLower(rand.Text())
}

// WriteFile writes beside the file and renames, by a command in the sandbox:
// paths and symbolic links mean there what they mean to its processes.
func (b *box) WriteFile(ctx context.Context, name, user string, content io.ReadSeeker) error {
	end, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := b.write(ctx, name, user, content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (b *box) write(ctx context.Context, name, user string, content io.ReadSeeker) error {
	if !path.IsAbs(name) || strings.Contains(name, "\x00") {
		return fmt.Errorf("a path must be absolute and without NUL: %w", sandbox.ErrInvalid)
	}
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	name = path.Clean(name)
	owner := ":"
	if b.way == Namespaces && user != "" && user != "root" {
		u, err := b.lookUp(ctx, user)
		if err != nil {
			return err
		}
		owner = fmt.Sprintf("chown %s:%s \"$t\"", u.uid, u.gid)
	}
	script := fmt.Sprintf(`f=%s t=%s
umask 022
[ ! -d "$f" ] || exit %d
mkdir -p "${f%%/*}/" || exit 1
trap 'rm -f "$t"' EXIT
cat >"$t" || exit 1
[ "$(wc -c <"$t")" -eq %d ] || exit %d
%s && mv -f "$t" "$f"`, sandbox.Path(name), sandbox.Path(b.tempName(name)), dirCode, size, sizeCode, owner)
	c, _, err := b.command(ctx, sandbox.Cmd{Script: script})
	if err != nil {
		return err
	}
	c.Stdin = content
	res, err := b.run(ctx, c, 0)
	if err != nil {
		return err
	}
	return fileError(name, res)
}

func fileError(name string, res sandbox.Result) error {
	said := strings.TrimSpace(string(res.Stderr))
	switch {
	case res.Ok():
		return nil
	case res.Code == missingCode:
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case res.Code == dirCode:
		return fmt.Errorf("it is a directory: %w", sandbox.ErrInvalid)
	case res.Code == sizeCode:
		return errors.New("not all of the content arrived")
	case strings.Contains(said, "No space left"):
		return fmt.Errorf("%w: %s", sandbox.ErrNoSpace, said)
	}
	return fmt.Errorf("exit status %d %s: %s", res.Code, res.Signal, said)
}

// ReadFile opens a file by a command in the sandbox, as root. Its reader has
// to be closed; it ends with the sandbox.
func (b *box) ReadFile(ctx context.Context, name string) (io.ReadCloser, error) {
	end, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	r, err := b.open(ctx, name, end)
	if err != nil {
		end()
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return r, nil
}

func (b *box) open(ctx context.Context, name string, end func()) (io.ReadCloser, error) {
	if !path.IsAbs(name) || strings.Contains(name, "\x00") {
		return nil, fmt.Errorf("a path must be absolute and without NUL: %w", sandbox.ErrInvalid)
	}
	script := fmt.Sprintf(`f=%s; [ -e "$f" ] || exit %d; [ ! -d "$f" ] || exit %d; [ -f "$f" ] || exit 1; exec 3<"$f" || exit 1; echo; exec cat <&3 3<&-`,
		sandbox.Path(path.Clean(name)), missingCode, dirCode)
	c, _, err := b.command(ctx, sandbox.Cmd{Script: script})
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	c.Stderr = &stderr
	if err := b.startProcess(c); err != nil {
		return nil, startError(err)
	}
	r := &fileReader{b: b, c: c, out: out, end: end, name: name, stderr: &stderr}
	r.unwatch = context.AfterFunc(ctx, func() { killGroup(c.Process.Pid) })
	var mark [1]byte // the script prints it before the file
	if _, err := io.ReadFull(out, mark[:]); err != nil {
		return nil, r.wait(ctx)
	}
	r.ctx = ctx
	return r, nil
}

// fileReader reads what cat prints. The end of the file is only one if cat
// says so by its exit status.
type fileReader struct {
	b       *box
	c       *exec.Cmd
	ctx     context.Context
	out     io.Reader
	end     func()
	name    string
	stderr  *strings.Builder
	unwatch func() bool
	once    sync.Once
	err     error
}

func (r *fileReader) Read(p []byte) (int, error) {
	n, err := r.out.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	if err := r.wait(r.ctx); err != nil {
		return 0, fmt.Errorf("read %s: %w", r.name, err)
	}
	return 0, io.EOF
}

// wait ends the process and says how it ended; nil if it was read to its end.
func (r *fileReader) wait(ctx context.Context) error {
	r.once.Do(func() {
		err := r.c.Wait()
		r.unwatch()
		r.b.forget(r.c.Process.Pid)
		var exit *exec.ExitError
		switch {
		case err != nil && r.b.isGone():
			r.err = r.b.gone()
		case err != nil && ctx.Err() != nil:
			r.err = context.Cause(ctx)
		case errors.As(err, &exit):
			code, signal := exitOf(r.c.ProcessState)
			r.err = fileError(r.name, sandbox.Result{Code: code, Signal: signal, Stderr: []byte(r.stderr.String())})
		default:
			r.err = err
		}
	})
	return r.err
}

// Close ends the reading; it may come before the end of the file.
func (r *fileReader) Close() error {
	killGroup(r.c.Process.Pid)
	_ = r.wait(r.ctx)
	if r.end != nil {
		r.end()
		r.end = nil
	}
	return nil
}
