package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Labels that a Ledger adds to every sandbox.
const (
	LabelOwner = "agentrl-owner" // the process: its directory in the ledger
	LabelEntry = "agentrl-entry" // the creation: its file there
)

// A Ledger is what a process writes down about its sandboxes, so that another
// can kill them when it has died: an intent before each creation, the
// sandbox's id after it, nothing once it is closed. Many processes share one
// directory: each has a folder of its own, and holds a lock on a file in it
// for as long as it lives. It is safe for concurrent use.
type Ledger struct {
	owner string // name of the folder
	dir   string // the folder
	lock  *os.File

	mu      sync.Mutex
	wrapped map[string]Provider // by the names given to Wrap
}

// An entry is one creation, in the file ID.json.
type entry struct {
	ID      string            `json:"id"`
	Backend string            `json:"backend"`
	Host    string            `json:"host"`
	Sandbox string            `json:"sandbox,omitempty"` // "" is an intent: whether it was made is not known
	Image   string            `json:"image"`
	Labels  map[string]string `json:"labels"`
	Created time.Time         `json:"created"`
}

const lockFile = "lock"

// OpenLedger opens a ledger in a directory, which is made if it is missing,
// and takes this process's place in it. It belongs on a disk of this machine;
// on one that machines share, each reaps its own.
func OpenLedger(dir string) (*Ledger, error) {
	var errs []error
	for range 5 { // a reaper may take a folder away before it is locked
		l := &Ledger{owner: rand.Text(), wrapped: map[string]Provider{}}
		l.dir = filepath.Join(dir, l.owner)
		err := l.open()
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("ledger: %w", errors.Join(errs...))
}

func (l *Ledger) open() error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	lock, alive, err := tryLock(filepath.Join(l.dir, lockFile))
	if err == nil && alive {
		err = errors.New("a reaper holds the lock of " + l.dir)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(l.dir, "host"), []byte(hostID()), 0o600)
	}
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		return err
	}
	l.lock = lock
	return nil
}

// Settle kills what is still in the ledger although nobody uses it any more:
// creations of which it is open whether they made a sandbox, sandboxes whose
// Close failed. Without it they wait for a reaper, and live as long as their
// backend lets them. Call it when all sandboxes are closed.
func (l *Ledger) Settle(ctx context.Context) error {
	left, err := entries(l.dir)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return reapEntries(ctx, l.dir, left, l.backends(), &Reaped{})
}

func (l *Ledger) backends() map[string]Provider {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.wrapped)
}

// Close gives the process's place up. Sandboxes that are still in the ledger
// are then for a reaper to kill.
func (l *Ledger) Close() error {
	left, err := entries(l.dir)
	if err == nil && len(left) == 0 {
		err = os.RemoveAll(l.dir)
	}
	return errors.Join(err, l.lock.Close())
}

// Wrap returns a provider whose sandboxes are in the ledger, under the name
// by which Reap finds the backend again. It is a Reaper if p is one.
func (l *Ledger) Wrap(backend string, p Provider) Provider {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrapped[backend] = p
	kept := &ledgered{l, backend, p}
	if r, ok := p.(Reaper); ok {
		return ledgeredReaper{kept, r}
	}
	return kept
}

type ledgeredReaper struct {
	*ledgered
	Reaper
}

type ledgered struct {
	l       *Ledger
	backend string
	inner   Provider
}

// Create writes the intent, creates, and writes the id. An intent stays when
// the creation failed in a way that leaves open whether there is a sandbox.
func (p *ledgered) Create(ctx context.Context, spec Spec) (Sandbox, error) {
	e := entry{ID: rand.Text(), Backend: p.backend, Host: hostID(), Image: spec.Image, Created: time.Now().UTC()}
	spec.Labels = maps.Clone(spec.Labels)
	if spec.Labels == nil {
		spec.Labels = map[string]string{}
	}
	spec.Labels[LabelOwner], spec.Labels[LabelEntry] = p.l.owner, e.ID
	e.Labels = spec.Labels
	if err := p.l.write(e); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	sb, err := p.inner.Create(ctx, spec)
	if err != nil {
		if nothingMade(err) {
			err = errors.Join(err, p.l.remove(e))
		}
		return nil, err
	}
	e.Sandbox = sb.ID()
	if err := p.l.write(e); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: %w", err), sb.Close())
	}
	kept := &ledgeredSandbox{Sandbox: sb, l: p.l, e: e}
	if r, ok := sb.(DetachedRunner); ok {
		return ledgeredRunner{kept, r}, nil
	}
	return kept, nil
}

// nothingMade reports whether a creation's error rules a sandbox out.
func nothingMade(err error) bool {
	var limit *RateLimitError
	var capacity *CapacityError
	for _, refusal := range []error{ErrInvalid, ErrNoImage, ErrUnauthorized} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return errors.As(err, &limit) || errors.As(err, &capacity) || errors.As(err, new(*nothingLeftError))
}

type ledgeredSandbox struct {
	Sandbox
	l    *Ledger
	e    entry
	once sync.Once
	err  error
}

// Close removes the entry once the sandbox is closed. If it cannot be, the
// entry stays, for a reaper.
func (s *ledgeredSandbox) Close() error {
	s.once.Do(func() {
		if s.err = s.Sandbox.Close(); s.err == nil {
			s.err = s.l.remove(s.e)
		}
	})
	return s.err
}

// Extend extends a sandbox that can be; the life of others has no end.
func (s *ledgeredSandbox) Extend(ctx context.Context, d time.Duration) error {
	if e, ok := s.Sandbox.(Extender); ok {
		return e.Extend(ctx, d)
	}
	return nil
}

type ledgeredRunner struct {
	*ledgeredSandbox
	DetachedRunner
}

// write puts an entry in place whole: a crash leaves the old one or the new.
func (l *Ledger) write(e entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(l.dir, "part-")
	if err != nil {
		return err
	}
	_, err = part.Write(data)
	err = errors.Join(err, part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), l.path(e))
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

func (l *Ledger) remove(e entry) error { return os.Remove(l.path(e)) }

func (l *Ledger) path(e entry) string { return filepath.Join(l.dir, e.ID+".json") }

// entries reads the entries of a folder. One that cannot be read is an error:
// it may be a sandbox.
func entries(dir string) ([]entry, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// hostID tells machines apart that share a directory or an account.
func hostID() string {
	name, _ := os.Hostname()
	machine, _ := os.ReadFile("/etc/machine-id")
	return name + "-" + string(machine)
}
