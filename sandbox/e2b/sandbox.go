package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A Sandbox is one sandbox at the server. It is safe for concurrent use.
// Beside sandbox.Sandbox it has Extend.
type Sandbox struct {
	p        *Provider
	id       string // opaque: other servers' ids have dashes and more
	base     string // envd's address, without a slash at its end
	token    string // envd's access token; "" where the server has none
	template string
	env      map[string]string
	suspects []string // labels of creates before this one that may have come late

	life context.Context // ends when Close begins, and with it what is running
	end  context.CancelCauseFunc

	mu     sync.Mutex
	closed bool // destroyed for sure
	until  time.Time
}

func newSandbox(p *Provider, m made, spec sandbox.Spec, env map[string]string) *Sandbox {
	domain := ""
	if m.Domain != nil {
		domain = *m.Domain
	}
	lifetime := spec.Lifetime
	if lifetime <= 0 {
		lifetime = p.opts.Lifetime
	}
	life, end := context.WithCancelCause(context.Background())
	return &Sandbox{
		p: p, id: m.SandboxID, base: p.envdBase(m.SandboxID, domain), token: m.EnvdAccessToken,
		template: m.TemplateID, env: env, life: life, end: end, until: time.Now().Add(lifetime),
	}
}

// ID implements sandbox.Sandbox.
func (s *Sandbox) ID() string { return s.id }

// Close implements sandbox.Sandbox: it ends what is running in it with
// ErrGone, and asks until the server says that the sandbox is destroyed, for
// at most Options.CloseTimeout. After a failure it may be called again.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.end(errClosed)
	if err := s.p.kill(context.Background(), s.id); err != nil {
		return fmt.Errorf("e2b: close %s: %w", s.id, err)
	}
	if err := s.killSuspects(); err != nil {
		return fmt.Errorf("e2b: close %s: %w", s.id, err)
	}
	s.closed = true
	return nil
}

// killSuspects destroys what earlier tries of this create made after all.
func (s *Sandbox) killSuspects() error {
	for _, label := range s.suspects {
		late, err := s.p.List(context.Background(), map[string]string{createLabel: label})
		if err != nil {
			return err
		}
		for _, l := range late {
			if err := s.p.kill(context.Background(), l.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// Extend makes sure that the sandbox lives for d from now at least, as far as
// the server's plan allows.
func (s *Sandbox) Extend(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	enough := !time.Now().Add(d).After(s.until)
	s.mu.Unlock()
	if enough { // the call sets an end; it would bring a later one forward
		return nil
	}
	err := s.try(ctx, "extend", true, func(ctx context.Context) error {
		_, err := s.p.control(ctx, http.MethodPost, "/sandboxes/"+url.PathEscape(s.id)+"/timeout", map[string]int{"timeout": seconds(d)}, nil)
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
	return nil
}

// errClosed ends what is running when Close is called.
var errClosed = fmt.Errorf("closed: %w", sandbox.ErrGone)

// try runs fn, again after failures that allow it: any transient one if
// replay, else only those that changed nothing. Whenever envd could not be
// reached the control plane is asked whether the sandbox still exists.
func (s *Sandbox) try(ctx context.Context, op string, replay bool, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(errClosed) })()
	if s.life.Err() != nil {
		return fmt.Errorf("e2b: %s: %w", op, errClosed)
	}
	again := func(err error) bool {
		return !errors.Is(err, sandbox.ErrGone) && (undelivered(err) || replay && transient(err))
	}
	tries := 0
	err := retry.Do(ctx, s.p.opts.Wait, func(int) error {
		tries++
		return s.confirm(ctx, fn(ctx))
	}, func(err error) retry.Verdict { return retry.Verdict{Again: again(err), After: wait(err)} })
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && again(err) && !limited(err) {
		err = fmt.Errorf("%w: %d tries: %w", sandbox.ErrUnresponsive, tries, err)
	}
	return fmt.Errorf("e2b: %s in %s: %w", op, s.id, attribute(ctx, err))
}

func limited(err error) bool { return errors.As(err, new(*sandbox.RateLimitError)) }

// confirm finds out whether a failure means that the sandbox is gone: the
// gateway says "not found" also when it could not look, and a sandbox's end
// looks like any broken connection.
func (s *Sandbox) confirm(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !transient(err) || limited(err) {
		return err
	}
	alive, aerr := s.p.alive(ctx, s.id)
	if aerr == nil && !alive {
		return fmt.Errorf("%w (the control plane has no such sandbox): %w", sandbox.ErrGone, err)
	}
	return err
}
