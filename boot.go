package agentrl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/agentrl-go/agentrl/sandbox"
)

// gates bound the sandboxes of a process: those being booted at once, those
// created per second, those alive. Evaluation boots go before agent boots.
type gates struct {
	slots *semaphore.Weighted // sandboxes being booted
	lane  *semaphore.Weighted // one agent boot at a time waits for a slot: an evaluation has at most that one before it
	live  *semaphore.Weighted // nil: no limit
	rate  float64             // creates per second; 0: no limit

	mu   sync.Mutex
	next time.Time // when the next create may begin
}

func newGates(cfg Config) *gates {
	g := &gates{
		slots: semaphore.NewWeighted(int64(cfg.BootConcurrency)),
		lane:  semaphore.NewWeighted(1),
		rate:  cfg.CreatesPerSec,
	}
	if cfg.MaxSandboxes > 0 {
		g.live = semaphore.NewWeighted(int64(cfg.MaxSandboxes))
	}
	return g
}

// enter waits for a place among the live sandboxes and for a boot slot. The
// two functions give them back, each once.
func (g *gates) enter(ctx context.Context, role string) (booted, closed func(), err error) {
	if role == RoleAgent {
		if err := g.lane.Acquire(ctx, 1); err != nil {
			return nil, nil, context.Cause(ctx)
		}
		defer g.lane.Release(1)
	}
	closed = func() {}
	if g.live != nil {
		if err := g.live.Acquire(ctx, 1); err != nil {
			return nil, nil, context.Cause(ctx)
		}
		closed = func() { g.live.Release(1) }
	}
	if err := g.slots.Acquire(ctx, 1); err != nil {
		closed()
		return nil, nil, context.Cause(ctx)
	}
	return func() { g.slots.Release(1) }, closed, nil
}

// pace waits until the creation rate allows one more create.
func (g *gates) pace(ctx context.Context) error {
	if g.rate <= 0 {
		return nil
	}
	g.mu.Lock()
	now := time.Now()
	at := g.next
	if at.Before(now) {
		at = now
	}
	g.next = at.Add(time.Duration(float64(time.Second) / g.rate))
	g.mu.Unlock()
	return sleep(ctx, at.Sub(now))
}

// sleep waits for d or for the end of ctx, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A machine is a sandbox of a rollout, with what has to be given back.
type machine struct {
	sandbox.Sandbox
	role string
	free func() // its place among the live sandboxes
}

// boot creates a sandbox and installs the harness in an agent's, in as many
// attempts as configured. Waiting, for a slot and between attempts, is outside
// the slot and not charged to the guard.
func (r *rollout) boot(ctx context.Context, role string, spec sandbox.Spec) (*machine, error) {
	var err error
	for attempt := 1; attempt <= r.g.Config.BootRetries; attempt++ {
		var m *machine
		if m, err = r.bootOnce(ctx, role, spec, attempt); err == nil {
			return m, nil
		}
		if ctx.Err() != nil || errors.Is(err, errQueueTimeout) {
			return nil, err
		}
		r.log.Warn("provision attempt failed", "role", role, "boot", attempt, "of", r.g.Config.BootRetries, "err", err)
		if permanent(err) || attempt == r.g.Config.BootRetries {
			return nil, err
		}
		r.g.tele.retry(ctx, "boot")
		if err := r.rest(ctx, backoff(attempt, err)); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// rest waits with the guard held.
func (r *rollout) rest(ctx context.Context, d time.Duration) error {
	r.guard.Hold()
	defer r.guard.Release()
	return sleep(ctx, d)
}

func (r *rollout) bootOnce(ctx context.Context, role string, spec sandbox.Spec, attempt int) (*machine, error) {
	booted, closed, err := r.queue(ctx, role)
	if err != nil {
		return nil, err
	}
	defer booted()
	spec = r.labelled(spec, role, attempt)
	m := &machine{role: role, free: closed}
	m.Sandbox, err = step(ctx, r, StageCreate, role, func(ctx context.Context) (sandbox.Sandbox, error) {
		sb, err := r.g.Sandboxes.Create(ctx, spec)
		return r.tape.created(role, sb, err)
	})
	if err != nil {
		closed()
		return nil, err
	}
	r.g.tele.sandboxes.Add(r.ctx, 1, roleAttr(role))
	r.sandboxID = m.ID()
	if role != RoleAgent {
		return m, nil
	}
	if _, err := step(ctx, r, StageInstall, role, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.tape.installed(r.g.Harness.Install(ctx, bare(m.Sandbox)))
	}); err != nil {
		r.close(m) // while the slot is still held: what is being taken down is no room for another
		return nil, err
	}
	return m, nil
}

// queue waits for a boot slot with the clocks held.
func (r *rollout) queue(ctx context.Context, role string) (booted, closed func(), err error) {
	type slot struct{ booted, closed func() }
	r.guard.Hold()
	defer r.guard.Release()
	got, err := step(ctx, r, StageQueue, role, func(ctx context.Context) (slot, error) {
		if limit := r.g.Config.QueueTimeout; limit > 0 {
			late := fmt.Errorf("%w: AGENTRL_QUEUE_TIMEOUT is %v", errQueueTimeout, limit)
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, limit, late)
			defer cancel()
		}
		booted, closed, err := r.g.shared.gates.enter(ctx, role)
		if err != nil {
			return slot{}, err
		}
		if err := r.g.shared.gates.pace(ctx); err != nil {
			booted()
			closed()
			return slot{}, err
		}
		return slot{booted, closed}, nil
	})
	return got.booted, got.closed, err
}

// close destroys the machine and gives its place back. Its error is logged;
// it fails no rollout.
func (r *rollout) close(m *machine) {
	defer m.free()
	_, err := step(context.WithoutCancel(r.ctx), r, StageClose, m.role, func(context.Context) (struct{}, error) {
		return struct{}{}, m.Close()
	})
	if err != nil {
		r.log.Warn("sandbox did not close", "sandbox", m.ID(), "err", err)
	}
	r.g.tele.sandboxes.Add(r.ctx, -1, roleAttr(m.role))
	r.sandboxID = ""
}

// permanent reports whether another sandbox would fail in the same way.
func permanent(err error) bool {
	for _, known := range []error{sandbox.ErrUnauthorized, sandbox.ErrInvalid, sandbox.ErrNoImage, sandbox.ErrNoWorkdir} {
		if errors.Is(err, known) {
			return true
		}
	}
	var p interface{ Permanent() bool } // a missing host file, a wrong hash, …
	return errors.As(err, &p) && p.Permanent()
}

// backoff is 1+attempt seconds with jitter, or what the backend asks for.
func backoff(attempt int, err error) time.Duration {
	wait := time.Duration(1+attempt) * time.Second
	wait = wait*3/4 + rand.N(wait/2)
	var rate *sandbox.RateLimitError
	if errors.As(err, &rate) && rate.RetryAfter > wait {
		return rate.RetryAfter + rand.N(time.Second)
	}
	return wait
}
