package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/internal/netns"
	"github.com/agentrl-go/agentrl/internal/netprobe"
	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A Sandbox is one container. It is safe for concurrent use. Beside
// sandbox.Sandbox it has Extend.
type Sandbox struct {
	p    *Provider
	name string
	env  map[string]string // of every command; not nil

	life context.Context // ends when Close begins, and with it what is running
	end  context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	until  time.Time
	relay  *netns.Relay // the way to the adapter; nil when there is none
}

func newSandbox(p *Provider, name string, spec sandbox.Spec) *Sandbox {
	life, end := context.WithCancelCause(context.Background())
	env := make(map[string]string)
	maps.Copy(env, spec.Env)
	return &Sandbox{p: p, name: name, env: env, life: life, end: end, until: time.Now().Add(p.lifetime(spec))}
}

// ID implements sandbox.Sandbox: the container's name.
func (s *Sandbox) ID() string { return s.name }

var errClosed = fmt.Errorf("closed: %w", sandbox.ErrGone)

// Close implements sandbox.Sandbox. When it returns without an error, the
// container and everything in it is gone.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.end(errClosed)
	if s.relay != nil {
		_ = s.relay.Close()
		s.relay = nil
	}
	if err := s.p.Kill(context.Background(), s.name); err != nil {
		return err
	}
	s.closed = true
	return nil
}

// Extend makes sure that the container lives for d from now at least.
func (s *Sandbox) Extend(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	s.mu.Lock()
	enough := !until.After(s.until)
	s.mu.Unlock()
	if enough {
		return nil
	}
	script := fmt.Sprintf("echo %d >%s.new && mv -f %s.new %s", until.Unix()+1, untilFile, untilFile, untilFile)
	if _, err := sandbox.Output(ctx, s, sandbox.Cmd{Script: script, Replayable: true}); err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
	return nil
}

// try runs fn, again after failures that allow it: any transient one if
// replay, else only those that changed nothing.
func (s *Sandbox) try(ctx context.Context, op string, replay bool, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(errClosed) })()
	if s.life.Err() != nil {
		return fmt.Errorf("docker: %s: %w", op, errClosed)
	}
	may := func(err error) bool { return undelivered(err) || replay && transient(err) }
	err := retry.Do(ctx, s.p.policy(), func(int) error {
		err := fn(ctx)
		if err != nil && ctx.Err() == nil && transient(err) {
			if alive, aerr := s.alive(ctx); aerr == nil && !alive {
				return &apiError{status: http.StatusNotFound, message: err.Error(), class: sandbox.ErrGone}
			}
		}
		return err
	}, func(err error) retry.Verdict { return retry.Verdict{Again: may(err)} })
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	} else if cause == nil && may(err) {
		err = fmt.Errorf("%w: %w", sandbox.ErrUnresponsive, err)
	}
	return fmt.Errorf("docker: %s in %s: %w", op, s.name, err)
}

// network chooses a container's network. A restricted one has none at all:
// what it may reach is let in later.
func (p *Provider) network(spec sandbox.Spec, host *hostConfig) error {
	switch spec.Egress {
	case sandbox.EgressOpen:
		host.NetworkMode = p.opts.Network
		host.ExtraHosts = []string{HostName + ":host-gateway"}
	case sandbox.EgressOff:
		host.NetworkMode = "none"
	case sandbox.EgressAdapter:
		if _, err := netprobe.Addr(spec.Adapter); err != nil {
			return fmt.Errorf("egress %q: %w: %w", spec.Egress, sandbox.ErrInvalid, err)
		}
		host.NetworkMode = "none"
		if p.opts.AdapterNetwork != "" {
			host.NetworkMode = p.opts.AdapterNetwork
		}
	default:
		return fmt.Errorf("egress %q: %w: want %q, %q or %q", spec.Egress, sandbox.ErrInvalid, sandbox.EgressOpen, sandbox.EgressAdapter, sandbox.EgressOff)
	}
	return nil
}
