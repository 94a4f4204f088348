package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

// WriteFile implements sandbox.Sandbox. The content goes as an archive to a
// name beside the path; when its size there is right it is renamed over the
// path. The mode is 0644. A path on a file system that is mounted inside the
// container (/dev/shm) is out of the archive's reach and an error.
func (s *Sandbox) WriteFile(ctx context.Context, path, user string, content io.ReadSeeker) error {
	if err := checkPath(path); err != nil {
		return fmt.Errorf("docker: write %q: %w", path, err)
	}
	return s.try(ctx, "write "+path, true, func(ctx context.Context) error {
		return s.put(ctx, path, user, content)
	})
}

func checkPath(name string) error {
	if !path.IsAbs(name) || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: want the absolute path of a file", sandbox.ErrInvalid)
	}
	return nil
}

// Exit statuses of the scripts.
const (
	noUser    = 41
	isDir     = 42
	wrongSize = 43
	noParent  = 44
)

func (s *Sandbox) put(ctx context.Context, dest, owner string, content io.ReadSeeker) error {
	size, err := content.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = content.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	uid, gid, err := s.ready(ctx, dest, user(owner))
	if err != nil {
		return err
	}
	dir, temp := path.Dir(dest), ".agentrl-"+nonce(16)
	header := &tar.Header{Name: temp, Mode: 0o644, Size: size, Uid: uid, Gid: gid, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := s.extract(ctx, dir, header, content); err != nil {
		return err
	}
	script := fmt.Sprintf("t=%s; d=%s; { [ \"$(wc -c <\"$t\")\" -eq %d ] && [ ! -d \"$d\" ]; } || { rm -f \"$t\"; exit %d; }; chown %d:%d \"$t\" && exec mv -f \"$t\" \"$d\"",
		shell.Quote(path.Join(dir, temp)), shell.Quote(dest), size, wrongSize, uid, gid)
	res, err := s.run(ctx, sandbox.Cmd{Script: script})
	switch {
	case err != nil:
		return err
	case res.Code == wrongSize:
		return fmt.Errorf("the archive did not arrive whole at %s: is it on a file system mounted in the container?", dir)
	case !res.Ok():
		return fmt.Errorf("rename: exit status %d %s: %s", res.Code, res.Signal, res.Stderr)
	}
	return nil
}

// ready makes the parents and looks the user up.
func (s *Sandbox) ready(ctx context.Context, dest, owner string) (uid, gid int, err error) {
	script := fmt.Sprintf(`u=%s; d=%s; p=%s
uid=$(id -u "$u") && gid=$(id -g "$u") || exit %d
[ ! -d "$d" ] || exit %d
if [ ! -d "$p" ]; then
	top=$p; while [ ! -e "$(dirname "$top")" ]; do top=$(dirname "$top"); done
	mkdir -p "$p" && chown -R "$uid:$gid" "$top" || exit %d
fi
echo "$uid $gid"`, shell.Quote(owner), shell.Quote(dest), shell.Quote(path.Dir(dest)), noUser, isDir, noParent)
	res, err := s.run(ctx, sandbox.Cmd{Script: script})
	if err != nil {
		return 0, 0, err
	}
	switch res.Code {
	case 0:
	case noUser:
		return 0, 0, fmt.Errorf("%w: no user %q: %s", sandbox.ErrInvalid, owner, res.Stderr)
	case isDir:
		return 0, 0, fmt.Errorf("%w: %s is a directory", sandbox.ErrInvalid, dest)
	case noParent:
		if strings.Contains(string(res.Stderr), "No space left") {
			return 0, 0, fmt.Errorf("%w: %s", sandbox.ErrNoSpace, res.Stderr)
		}
		return 0, 0, fmt.Errorf("%w: parents of %s: %s", sandbox.ErrInvalid, dest, res.Stderr)
	default:
		return 0, 0, fmt.Errorf("parents of %s: exit status %d %s: %s", dest, res.Code, res.Signal, res.Stderr)
	}
	if _, err := fmt.Sscanf(string(res.Stdout), "%d %d", &uid, &gid); err != nil {
		return 0, 0, fmt.Errorf("id of %q: %q: %w", owner, res.Stdout, err)
	}
	return uid, gid, nil
}

// extract sends one file as an archive, from the content as it is read.
func (s *Sandbox) extract(ctx context.Context, dir string, header *tar.Header, content io.Reader) error {
	pr, pw := io.Pipe()
	read := make(chan error, 1)
	go func() {
		tw := tar.NewWriter(pw)
		err := tw.WriteHeader(header)
		if err == nil {
			_, err = io.CopyBuffer(onlyWriter{tw}, content, make([]byte, 256<<10))
		}
		if err == nil {
			err = tw.Close()
		}
		pw.CloseWithError(err)
		read <- err
	}()
	resp, err := s.p.do(ctx, http.MethodPut, "/containers/"+s.name+"/archive?"+query("path", dir, "noOverwriteDirNonDir", "true"), pr, "Content-Type", "application/x-tar")
	_ = pr.CloseWithError(errAnswered) // the daemon may have answered before it read all
	rerr := <-read
	if err != nil {
		if rerr != nil && !errors.Is(rerr, errAnswered) && errors.As(err, new(*transportError)) {
			return fmt.Errorf("content: %w", rerr)
		}
		return err
	}
	drain(resp.Body)
	return nil
}

var errAnswered = errors.New("daemon has answered")

// onlyWriter hides ReadFrom, which would pick its own buffer.
type onlyWriter struct{ io.Writer }

// ReadFile implements sandbox.Sandbox.
func (s *Sandbox) ReadFile(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := checkPath(name); err != nil {
		return nil, fmt.Errorf("docker: read %q: %w", name, err)
	}
	f := &file{}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.unwatch = context.AfterFunc(s.life, func() { f.cancel(errClosed) })
	err := s.try(f.ctx, "read "+name, true, func(context.Context) error {
		target := name
		for range 2 { // the second time, where a symbolic link leads
			link, err := s.open(f, target)
			if err != nil || link == "" {
				return err
			}
			res, err := s.run(f.ctx, sandbox.Cmd{Script: "readlink -f " + shell.Quote(target)})
			if err != nil {
				return err
			}
			target = strings.TrimSuffix(string(res.Stdout), "\n")
			if !res.Ok() || target == "" {
				return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
		}
		return fmt.Errorf("%w: %s is a chain of links that changes", sandbox.ErrInvalid, name)
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// open asks for the archive of one path. For a link it returns where to.
func (s *Sandbox) open(f *file, name string) (link string, err error) {
	resp, err := s.p.do(f.ctx, http.MethodGet, "/containers/"+s.name+"/archive?"+query("path", name), nil)
	if err != nil {
		if isStatus(err, http.StatusNotFound) && !errors.Is(err, sandbox.ErrGone) {
			return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return "", err
	}
	tr := tar.NewReader(resp.Body)
	header, err := tr.Next()
	switch {
	case err != nil:
		err = fmt.Errorf("%w: archive: %w", sandbox.ErrCut, err)
	case header.Typeflag == tar.TypeSymlink:
		link = header.Linkname
	case header.Typeflag == tar.TypeReg:
		f.body, f.tr, f.left = resp.Body, tr, header.Size
		return "", nil
	default:
		err = fmt.Errorf("%w: %s is not a regular file", sandbox.ErrInvalid, name)
	}
	resp.Body.Close()
	return link, err
}

// A file is the content of one archive's one entry. It is not safe for
// concurrent use.
type file struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	unwatch func() bool
	body    io.ReadCloser
	tr      *tar.Reader
	left    int64
}

// Read implements io.Reader; io.EOF comes only after the whole file.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.tr.Read(p)
	f.left -= int64(n)
	switch {
	case err == nil || errors.Is(err, io.EOF) && f.left == 0:
		return n, err
	case f.ctx.Err() != nil:
		return n, fmt.Errorf("docker: read: %w", context.Cause(f.ctx))
	}
	return n, fmt.Errorf("docker: read: %w, %s bytes before the end: %w", sandbox.ErrCut, strconv.FormatInt(f.left, 10), err)
}

// Close implements io.Closer.
func (f *file) Close() error {
	if f.body != nil {
		_ = f.body.Close()
	}
	f.unwatch()
	f.cancel(nil)
	return nil
}
