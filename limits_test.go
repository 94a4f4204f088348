package agentrl_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// A strictServer is a sandbox server that allows so many creates in any
// second, and so many sandboxes alive; it refuses what goes beyond.
type strictServer struct {
	sandboxtest.Fake
	perSecond, alive int

	mu      sync.Mutex
	recent  []time.Time
	live    int
	most    int
	refused int
}

func (s *strictServer) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := s.admit(); err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Second) // what a boot takes
	sb, err := s.Fake.Create(ctx, spec)
	return &counted{Sandbox: sb, server: s}, err
}

func (s *strictServer) admit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.recent) > 0 && now.Sub(s.recent[0]) >= time.Second {
		s.recent = s.recent[1:]
	}
	if len(s.recent) >= s.perSecond || s.live >= s.alive {
		s.refused++
		return &sandbox.RateLimitError{Message: "slow down"}
	}
	s.recent = append(s.recent, now)
	s.live++
	s.most = max(s.most, s.live)
	return nil
}

type counted struct {
	sandbox.Sandbox
	server *strictServer
	once   sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		c.server.live--
	})
	return c.Sandbox.Close()
}

func TestCreationRateAndLiveCapAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &strictServer{perSecond: 5, alive: 1000}
		b := newBench(agentrl.Config{BootConcurrency: 64, CreatesPerSec: 5, MaxSandboxes: 1000, AgentBudget: 20 * time.Minute, Guard: 30 * time.Minute})
		b.Sandboxes = server
		work := answer("42")
		b.agent.OnRun = func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
			time.Sleep(10 * time.Minute)
			return work(ctx, sb, job)
		}
		const calls = 1000 // two creates each
		var failed atomic.Int32
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				base := row()
				index := int64(i)
				base.Index = &index
				s, err := b.Generate(t.Context(), base, nil)
				if err != nil || s[0].Status != agentrl.Completed {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		if failed.Load() != 0 || server.refused != 0 {
			t.Errorf("%d of %d calls failed, %d creates refused", failed.Load(), calls, server.refused)
		}
		t.Logf("figure: %d creates at 5/s, %d alive at most: %d refused, %d failures", 2*calls, server.most, server.refused, failed.Load())
	})
}

func TestRateLimitIsWaitedOut(t *testing.T) {
	for name, c := range map[string]struct {
		after, least time.Duration
	}{"with Retry-After": {time.Minute, time.Minute}, "without": {0, 1500 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(agentrl.Config{})
			b.fail = func(n int) error {
				if n == 1 {
					return &sandbox.RateLimitError{RetryAfter: c.after}
				}
				return nil
			}
			start := time.Now()
			if s := b.generate(t)[0]; s.Status != agentrl.Completed {
				t.Errorf("%s: %s: %v", name, s.Status, s.Err)
			}
			if took := time.Since(start); took < c.least || took > c.least+2*time.Second {
				t.Errorf("%s: waited %v, want about %v", name, took, c.least)
			}
		})
	}
}
