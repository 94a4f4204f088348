package agentrl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A breaker stops new rollouts while the infrastructure is broken, so that a
// revoked key does not burn through a dataset. It opens after threshold
// consecutive failures of one infrastructure class over all calls, or after
// one of class config. While it is open one call at a time goes through as a
// probe, with growing pauses; the others wait for it. A call that has seen
// maxProbes probes fail is turned away. A success closes the breaker.
type breaker struct {
	threshold int // <= 0: never opens

	mu       sync.Mutex
	failures map[FailureClass]int
	cause    error         // why it is open; nil when closed
	probing  bool          // a probe is under way
	probes   int           // probes that failed since it opened
	notBy    time.Time     // no probe before this
	changed  chan struct{} // closed at each change of the above
}

const (
	maxProbes     = 2
	firstProbe    = 5 * time.Second
	slowestProbes = 2 * time.Minute
)

func newBreaker(threshold int) *breaker {
	return &breaker{threshold: threshold, failures: map[FailureClass]int{}, changed: make(chan struct{})}
}

// enter returns when the call may go on. The function that it returns takes,
// once, how the call ended: nil for a rollout that was not aborted.
func (b *breaker) enter(ctx context.Context) (func(error), error) {
	seen := -1
	for {
		b.mu.Lock()
		if b.cause == nil {
			b.mu.Unlock()
			return func(err error) { b.report(err, false) }, nil
		}
		if seen < 0 || seen > b.probes { // more than there were: it closed and opened again
			seen = b.probes
		}
		if b.probes-seen >= maxProbes {
			defer b.mu.Unlock()
			return nil, fmt.Errorf("%w after %d failed probes: %w", ErrUnavailable, b.probes, b.cause)
		}
		wait := time.Until(b.notBy)
		if !b.probing && wait <= 0 {
			b.probing = true
			b.mu.Unlock()
			return func(err error) { b.report(err, true) }, nil
		}
		changed := b.changed
		b.mu.Unlock()
		if err := waitFor(ctx, changed, wait); err != nil {
			return nil, err
		}
	}
}

// waitFor returns at the change, after the wait where it is positive, or with
// the cause of a ctx that ended.
func waitFor(ctx context.Context, changed <-chan struct{}, wait time.Duration) error {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// report counts how a call ended. What began before the breaker opened and
// fails afterwards says nothing new.
func (b *breaker) report(err error, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
	f := FailureOf(err)
	switch {
	case err == nil:
		clear(b.failures)
		b.cause, b.probes = nil, 0
	case b.threshold <= 0:
	case b.cause == nil && counted(err) != "":
		class := counted(err)
		b.failures[class]++
		if b.failures[class] >= b.threshold || class == ClassConfig {
			b.cause, b.notBy = err, time.Now().Add(firstProbe)
		}
	case probe && (f.Class.infrastructure() || f.Class == ClassTimeout): // a backend that hangs is not well
		b.probes++
		b.notBy = time.Now().Add(min(firstProbe<<min(b.probes, 10), slowestProbes))
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// counted is the class that a failure counts for, "" for none. A guard that
// expires while a sandbox is made ready is a backend that does not answer.
func counted(err error) FailureClass {
	f := FailureOf(err)
	var at *StageError
	switch {
	case f.Class.infrastructure():
		return f.Class
	case f.Class == ClassTimeout && errors.As(err, &at) && (at.Stage == StageCreate || at.Stage == StageInstall || at.Stage == StagePrepare):
		return ClassSandbox
	}
	return ""
}
