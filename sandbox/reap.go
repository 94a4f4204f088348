package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Reaper is a Provider that finds and kills sandboxes which another process
// made. It is safe for concurrent use.
type Reaper interface {
	// List returns the sandboxes that have all these labels.
	List(ctx context.Context, labels map[string]string) ([]Listed, error)
	// Kill destroys a sandbox. One that is gone already is no error.
	Kill(ctx context.Context, id string) error
}

// Listed is a sandbox as its backend lists it.
type Listed struct {
	ID      string
	Labels  map[string]string
	Created time.Time
}

// Reaped is what a reaper did.
type Reaped struct {
	Killed  []string // ids of the sandboxes that were killed
	Live    int      // processes of the ledger that live: theirs was left alone
	Foreign int      // folders of other machines, which can judge them
}

// Reap kills what dead processes left in a ledger's directory. backends are
// the names given to Wrap with providers that are Reapers. A sandbox that
// could not be killed stays in the ledger and is part of the error. Several
// may reap at once.
func Reap(ctx context.Context, dir string, backends map[string]Provider) (Reaped, error) {
	var done Reaped
	folders, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return done, fmt.Errorf("reap: %w", err)
	}
	var errs []error
	for _, folder := range folders {
		if folder.IsDir() {
			errs = append(errs, reapFolder(ctx, filepath.Join(dir, folder.Name()), backends, &done))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return done, fmt.Errorf("reap: %w", err)
	}
	return done, nil
}

// reapFolder reaps one process's sandboxes, if it is dead. It holds that
// process's lock meanwhile, which keeps other reapers away.
func reapFolder(ctx context.Context, dir string, backends map[string]Provider, done *Reaped) error {
	host, err := os.ReadFile(filepath.Join(dir, "host"))
	if err == nil && string(host) != hostID() {
		done.Foreign++
		return nil
	}
	lock, alive, err := tryLock(filepath.Join(dir, lockFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // another reaper was faster
	case err != nil:
		return err
	case alive:
		done.Live++
		return nil
	}
	defer lock.Close()
	list, err := entries(dir)
	if err != nil {
		return err
	}
	if err := reapEntries(ctx, dir, list, backends, done); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// reapEntries kills what the entries of a folder stand for, and removes those
// of which nothing is left.
func reapEntries(ctx context.Context, dir string, list []entry, backends map[string]Provider, done *Reaped) error {
	var errs []error
	for _, e := range list {
		if err := reapEntry(ctx, e, backends, done); err != nil {
			errs = append(errs, fmt.Errorf("sandbox %s of %s: %w", e.Sandbox, e.Backend, err))
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(dir, e.ID+".json")))
	}
	return errors.Join(errs...)
}

// reapEntry kills what an entry stands for. It always looks by label too: a
// creation whose reply was lost may have been made twice.
func reapEntry(ctx context.Context, e entry, backends map[string]Provider, done *Reaped) error {
	p, ok := backends[e.Backend]
	if !ok {
		return fmt.Errorf("backend %q is not among those to reap with", e.Backend)
	}
	r, ok := p.(Reaper)
	if !ok {
		return fmt.Errorf("backend %q cannot kill what another process made", e.Backend)
	}
	found, err := r.List(ctx, map[string]string{LabelEntry: e.ID})
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	if e.Sandbox != "" {
		ids[e.Sandbox] = true
	}
	for _, sb := range found {
		ids[sb.ID] = true
	}
	for id := range ids {
		if err := r.Kill(ctx, id); err != nil {
			return err
		}
		done.Killed = append(done.Killed, id)
	}
	return nil
}

// ReapLabelled kills a backend's sandboxes by label, for when a ledger was
// lost. Labels must have an entry that names a run, such as run=ID, or older
// must say from which age on a sandbox is left over: either asserts that the
// run is over on every machine. What belongs to a live process of the ledger
// in dir ("" for none) is left alone all the same.
func ReapLabelled(ctx context.Context, r Reaper, labels map[string]string, older time.Duration, dir string) (Reaped, error) {
	var done Reaped
	if len(labels) == 0 && older <= 0 {
		return done, fmt.Errorf("reap by label: it takes a label that names the run, or an age: everything else may be alive: %w", ErrInvalid)
	}
	live, err := liveOwners(dir)
	if err != nil {
		return done, fmt.Errorf("reap by label: %w", err)
	}
	done.Live = len(live)
	found, err := r.List(ctx, labels)
	if err != nil {
		return done, fmt.Errorf("reap by label: %w", err)
	}
	var errs []error
	for _, sb := range found {
		if live[sb.Labels[LabelOwner]] || time.Since(sb.Created) < older {
			continue
		}
		if err := r.Kill(ctx, sb.ID); err != nil {
			errs = append(errs, fmt.Errorf("sandbox %s: %w", sb.ID, err))
			continue
		}
		done.Killed = append(done.Killed, sb.ID)
	}
	return done, errors.Join(errs...)
}

// liveOwners returns the processes of a ledger that are not known to be dead.
func liveOwners(dir string) (map[string]bool, error) {
	live := map[string]bool{}
	if dir == "" {
		return live, nil
	}
	locks, err := filepath.Glob(filepath.Join(dir, "*", lockFile))
	if err != nil {
		return nil, err
	}
	for _, path := range locks {
		owner := filepath.Base(filepath.Dir(path))
		host, err := os.ReadFile(filepath.Join(filepath.Dir(path), "host"))
		if err == nil && string(host) != hostID() {
			live[owner] = true
			continue
		}
		lock, alive, err := tryLock(path)
		if err != nil || alive {
			live[owner] = true
			continue
		}
		lock.Close()
	}
	return live, nil
}
