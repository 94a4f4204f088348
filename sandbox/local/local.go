// Package local runs sandboxes on this machine: for tests, examples, and
// trainers whose code needs no wall around it.
//
// How well a sandbox is kept apart depends on the machine, and the provider
// says what it got (Provider.Isolation, and one line in the log):
//
//   - Namespaces: root on Linux with overlayfs and util-linux (unshare rights,
//     mount, pivot_root, nsenter). A sandbox has mount, PID, IPC and UTS
//     namespaces of its own, a copy-on-write view of its image, its own /proc
//     and /dev, and users as the image has them. Closing it kills everything in
//     it and leaves nothing.
//   - UserNamespace: the same for an ordinary user where the kernel lets users
//     make namespaces. There is one user only, who is root inside.
//   - Plain: a directory, and processes of our own user. Paths in scripts are
//     the host's; see sandbox.Path. Closing kills by process group and mark.
//
// None of them is a wall against hostile code: in Namespaces, root inside is
// root; with the image "host" all files that a user may read on the machine
// can be read inside; Plain keeps nothing apart. Code that is not trusted
// belongs into sandbox/docker or sandbox/e2b.
package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/agentrl-go/agentrl/sandbox"
)

// HostImage is the image that is this machine's own root, as the read-only
// lower layer. It is the default. A Plain sandbox gets a copy of the work
// directory alone, at the same path below its root.
const HostImage = "host"

// Isolation is how sandboxes are kept apart.
type Isolation string

// The ways to keep sandboxes apart, the best first; see the package.
const (
	Namespaces    Isolation = "namespaces"
	UserNamespace Isolation = "user namespace"
	Plain         Isolation = "plain directory"
)

// defaultPath is for images that are machines; a Plain sandbox uses it too.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// A Provider makes sandboxes on this machine. The zero value is ready. An
// image is HostImage or "", a directory, or a tarball of a root file system
// (.tar, .tar.gz, .tgz), which is unpacked once. Its fields may be set until
// its first use; it must not be copied after. It is safe for concurrent use.
type Provider struct {
	// Dir holds sandboxes and unpacked images. Defaults to agentrl-UID in the
	// directory for temporary files.
	Dir string
	// Path is PATH in every sandbox whose Env has none. Defaults to the usual
	// system directories.
	Path string
	// Want is the isolation wanted, where less than the best is: for tests.
	// Defaults to the best that works.
	Want Isolation
	// Logger defaults to slog.Default().
	Logger *slog.Logger

	probe     sync.Once
	isolation Isolation
	lacks     error // why it is not better
	unpacking sync.Mutex
}

var _ sandbox.Provider = (*Provider)(nil)

// Isolation returns how this machine keeps sandboxes apart, and why it does
// not do better: nil for Namespaces. The first call tries it out.
func (p *Provider) Isolation() (Isolation, error) {
	p.probe.Do(func() {
		p.isolation, p.lacks = p.tryOut()
		if p.lacks == nil {
			p.logger().Info("local sandboxes", "isolation", string(p.isolation))
			return
		}
		p.logger().Warn("local sandboxes are not fully isolated", "isolation", string(p.isolation), "err", p.lacks)
	})
	return p.isolation, p.lacks
}

// tryOut boots a sandbox in each way until one works.
func (p *Provider) tryOut() (Isolation, error) {
	var lacks []error
	for _, way := range []Isolation{Namespaces, UserNamespace} {
		if p.Want != "" && p.Want != way {
			lacks = append(lacks, fmt.Errorf("%s: not wanted", way))
			continue
		}
		sb, err := p.boot(context.Background(), way, sandbox.Spec{Image: HostImage})
		if err != nil {
			lacks = append(lacks, fmt.Errorf("%s: %w", way, err))
			continue
		}
		if err := sb.Close(); err != nil {
			lacks = append(lacks, fmt.Errorf("%s: %w", way, err))
			continue
		}
		return way, errors.Join(lacks...)
	}
	return Plain, errors.Join(lacks...)
}

// Create boots a sandbox. EgressAdapter works in Namespaces and EgressOff also
// in UserNamespace; where they do not, Create refuses.
func (p *Provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	way, _ := p.Isolation()
	sb, err := p.boot(ctx, way, spec)
	if err != nil {
		return nil, err
	}
	if err := sb.verify(ctx); err != nil {
		if cerr := sb.Close(); cerr != nil {
			return nil, errors.Join(err, cerr)
		}
		return nil, sandbox.NothingLeft(err)
	}
	if way == Plain {
		return plainBox{sb}, nil
	}
	return sb, nil
}

func checkSpec(spec sandbox.Spec) error {
	if spec.Workdir != "" && !filepath.IsAbs(spec.Workdir) {
		return fmt.Errorf("work directory %q is not absolute: %w", spec.Workdir, sandbox.ErrInvalid)
	}
	for name, value := range spec.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("environment variable %q cannot be set: %w", name, sandbox.ErrInvalid)
		}
	}
	return nil
}

// boot makes the sandbox's directory and starts it there.
func (p *Provider) boot(ctx context.Context, way Isolation, spec sandbox.Spec) (*box, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, sandbox.NothingLeft(err)
	}
	image, err := p.image(ctx, spec.Image)
	if err != nil {
		return nil, err
	}
	b := &box{
		id: "local-" + strings.ToLower(rand.Text()), nonce: rand.Text(), spec: spec,
		image: image, path: p.Path, way: way, closed: make(chan struct{}),
	}
	if b.path == "" {
		b.path = defaultPath
	}
	b.dir = filepath.Join(p.dir(), "sandboxes", b.id)
	if err := os.MkdirAll(filepath.Dir(b.dir), 0o700); err != nil {
		return nil, err
	}
	if err := b.record(); err != nil {
		return nil, errors.Join(err, removeAll(b.dir))
	}
	if err := b.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("boot: %w", err), removeAll(b.dir))
	}
	return b, nil
}

// verify checks what a spec promises about its image.
func (b *box) verify(ctx context.Context) error {
	if b.spec.Workdir == "" {
		return nil
	}
	res, err := b.Exec(ctx, sandbox.Cmd{Script: "[ -d " + sandbox.Path(b.spec.Workdir) + " ]", Replayable: true})
	if err != nil {
		return fmt.Errorf("look for the work directory: %w", err)
	}
	if !res.Ok() {
		return fmt.Errorf("image %q, %s: %w", b.spec.Image, b.spec.Workdir, sandbox.ErrNoWorkdir)
	}
	return nil
}

func (p *Provider) dir() string {
	if p.Dir != "" {
		return p.Dir
	}
	return filepath.Join(os.TempDir(), "agentrl-"+strconv.Itoa(os.Getuid()))
}

func (p *Provider) logger() *slog.Logger {
	if p.Logger != nil {
		return p.Logger
	}
	return slog.Default()
}
