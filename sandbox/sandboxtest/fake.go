// Package sandboxtest has a sandbox provider in memory for the tests of what
// uses sandboxes, and the contract of sandbox.Provider as a test of what
// implements them.
package sandboxtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
)

// A Fake is a sandbox.Provider in memory. Its sandboxes keep files, know
// whether they are closed and answer then with sandbox.ErrGone. The zero value
// is ready: every command succeeds and prints nothing. Each func field, set
// before the first use, bends one operation. It is safe for concurrent use,
// and calls its fields from the goroutines that call it.
type Fake struct {
	// Image, when set, decides about an image: an error refuses it, else the
	// files (absolute path to content) are in the new sandbox.
	Image func(image string) (map[string]string, error)
	// Disk, when set, is a directory for the files of sandboxes, each in a
	// directory of its own named by ID, instead of memory: HostShell needs it.
	Disk string
	// CreateFunc runs before a sandbox is made; its error fails the creation.
	CreateFunc func(ctx context.Context, spec sandbox.Spec) error
	// ExecFunc runs commands. HostShell is one that really does.
	ExecFunc func(ctx context.Context, sb *FakeSandbox, cmd sandbox.Cmd) (sandbox.Result, error)
	// DetachedFunc runs detached commands; nil runs them by ExecFunc,
	// and then the code of one that a signal killed is 137, whatever the signal.
	DetachedFunc func(ctx context.Context, sb *FakeSandbox, d sandbox.Detached) (sandbox.Exit, error)
	// WriteFunc and ReadFunc run before a file is written or read; their error
	// is the operation's.
	WriteFunc func(ctx context.Context, sb *FakeSandbox, path, user string) error
	ReadFunc  func(ctx context.Context, sb *FakeSandbox, path string) error
	// CloseFunc gives the error of the first Close; the sandbox is closed all the same.
	CloseFunc func(sb *FakeSandbox) error

	mu   sync.Mutex
	made []*FakeSandbox
}

var _ sandbox.Provider = (*Fake)(nil)

// Create makes a sandbox. A Workdir counts as present, since a fake has no
// image to look into, unless Image is set and its files have none below it.
func (f *Fake) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, sandbox.NothingLeft(err)
	}
	if f.CreateFunc != nil {
		if err := f.CreateFunc(ctx, spec); err != nil {
			return nil, err
		}
	}
	files := map[string]fakeFile{}
	if f.Image != nil {
		image, err := f.Image(spec.Image)
		if err != nil {
			return nil, err
		}
		for name, content := range image {
			files[path.Clean(name)] = fakeFile{data: []byte(content)}
		}
		if spec.Workdir != "" && !hasDir(files, spec.Workdir) {
			return nil, sandbox.NothingLeft(fmt.Errorf("image %s: %s: %w", spec.Image, spec.Workdir, sandbox.ErrNoWorkdir))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	sb := &FakeSandbox{Spec: spec, provider: f, id: fmt.Sprintf("fake-%d", len(f.made)+1), files: map[string]fakeFile{}, closed: make(chan struct{})}
	for name, file := range files {
		if err := sb.keep(name, file); err != nil {
			return nil, err
		}
	}
	f.made = append(f.made, sb)
	return sb, nil
}

// Sandboxes returns all sandboxes in the order of their creation, the closed
// ones too.
func (f *Fake) Sandboxes() []*FakeSandbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.made)
}

// Creates returns how many sandboxes were made.
func (f *Fake) Creates() int { return len(f.Sandboxes()) }

// Live returns how many are not closed.
func (f *Fake) Live() int {
	n := 0
	for _, sb := range f.Sandboxes() {
		if !sb.Closed() {
			n++
		}
	}
	return n
}

// CheckClosed reports each sandbox that is not closed as an error of t.
func (f *Fake) CheckClosed(t testing.TB) {
	t.Helper()
	for _, sb := range f.Sandboxes() {
		if !sb.Closed() {
			t.Errorf("sandbox %s (image %q, labels %v) was not closed", sb.ID(), sb.Spec.Image, sb.Spec.Labels)
		}
	}
}

// A FakeSandbox is a sandbox of a Fake.
type FakeSandbox struct {
	Spec sandbox.Spec // what it was made from; not to be changed

	provider *Fake
	id       string
	closed   chan struct{}

	mu    sync.Mutex
	files map[string]fakeFile
}

type fakeFile struct {
	data []byte
	user string
}

var (
	_ sandbox.Sandbox        = (*FakeSandbox)(nil)
	_ sandbox.DetachedRunner = (*FakeSandbox)(nil)
)

// ID returns "fake-" and the number of the creation.
func (s *FakeSandbox) ID() string { return s.id }

// Closed reports whether Close was called.
func (s *FakeSandbox) Closed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// alive is the error of every operation on a closed sandbox, or of an ended ctx.
func (s *FakeSandbox) alive(ctx context.Context) error {
	if s.Closed() {
		return fmt.Errorf("%s: %w", s.id, sandbox.ErrGone)
	}
	return context.Cause(ctx)
}

// Exec runs the provider's ExecFunc.
func (s *FakeSandbox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	if err := s.alive(ctx); err != nil {
		return sandbox.Result{}, err
	}
	if s.provider.ExecFunc == nil {
		return sandbox.Result{}, nil
	}
	res, err := s.provider.ExecFunc(ctx, s, cmd)
	if gone := s.alive(context.WithoutCancel(ctx)); gone != nil {
		return sandbox.Result{}, gone
	}
	return res, err
}

// RunDetached runs the provider's DetachedFunc, or the command by ExecFunc
// until it ends, Stop is closed, or the sandbox is.
func (s *FakeSandbox) RunDetached(ctx context.Context, d sandbox.Detached) (sandbox.Exit, error) {
	if err := s.alive(ctx); err != nil {
		return sandbox.Exit{}, err
	}
	if s.provider.DetachedFunc != nil {
		return s.provider.DetachedFunc(ctx, s, d)
	}
	running, kill := context.WithCancel(ctx)
	defer kill()
	type end struct {
		res sandbox.Result
		err error
	}
	ends := make(chan end, 1)
	go func() {
		res, err := s.Exec(running, d.Cmd)
		ends <- end{res, err}
	}()
	select {
	case e := <-ends:
		return s.exit(ctx, d, e.res, e.err)
	case <-d.Stop:
		kill()
		<-ends
		return sandbox.Exit{State: sandbox.TimedOut}, nil
	}
}

func (s *FakeSandbox) exit(ctx context.Context, d sandbox.Detached, res sandbox.Result, err error) (sandbox.Exit, error) {
	if err != nil {
		return sandbox.Exit{}, err
	}
	if d.Log != "" {
		output := slices.Concat(res.Stdout, res.Stderr)
		if err := s.WriteFile(ctx, d.Log, d.User, bytes.NewReader(output)); err != nil {
			return sandbox.Exit{}, err
		}
	}
	if res.Signal != "" {
		return sandbox.Exit{Code: 137}, nil
	}
	return sandbox.Exit{Code: res.Code}, nil
}

// WriteFile keeps the content.
func (s *FakeSandbox) WriteFile(ctx context.Context, name, user string, content io.ReadSeeker) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if !path.IsAbs(name) {
		return fmt.Errorf("path %q is not absolute: %w", name, sandbox.ErrInvalid)
	}
	if s.provider.WriteFunc != nil {
		if err := s.provider.WriteFunc(ctx, s, name, user); err != nil {
			return err
		}
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return s.keep(path.Clean(name), fakeFile{data: data, user: user})
}

// ReadFile opens what was written.
func (s *FakeSandbox) ReadFile(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	if s.provider.ReadFunc != nil {
		if err := s.provider.ReadFunc(ctx, s, name); err != nil {
			return nil, err
		}
	}
	if s.provider.Disk != "" {
		return os.Open(s.onDisk(name))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[path.Clean(name)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(bytes.NewReader(f.data)), nil
}

// keep puts a file into memory, and on the disk if there is one: the owner is
// in memory only.
func (s *FakeSandbox) keep(name string, f fakeFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider.Disk == "" {
		s.files[name] = f
		return nil
	}
	s.files[name] = fakeFile{user: f.user}
	to := s.onDisk(name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	part := to + ".part"
	if err := os.WriteFile(part, f.data, 0o644); err != nil {
		return err
	}
	return os.Rename(part, to)
}

func (s *FakeSandbox) onDisk(name string) string {
	return filepath.Join(s.provider.Disk, s.id, name)
}

// Files returns the paths of all files, sorted.
func (s *FakeSandbox) Files() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.files))
}

// Owner returns the user that a file was written for.
func (s *FakeSandbox) Owner(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[path.Clean(name)].user
}

// Close closes the sandbox. Its files can still be listed.
func (s *FakeSandbox) Close() error {
	s.mu.Lock()
	if s.Closed() {
		s.mu.Unlock()
		return nil
	}
	close(s.closed)
	s.mu.Unlock()
	if s.provider.CloseFunc != nil {
		return s.provider.CloseFunc(s)
	}
	return nil
}

func hasDir(files map[string]fakeFile, dir string) bool {
	prefix := strings.TrimSuffix(path.Clean(dir), "/") + "/"
	for name := range files {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
