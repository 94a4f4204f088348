package adapter

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/internal/clock"
)

// A session is one rollout's conversations.
type session struct {
	server *Server
	id     string
	token  string
	opts   SessionOptions
	params params
	opened time.Time
	tree   *trajectory.Tree
	ctx    context.Context // ends when the session is sealed or dropped
	cancel context.CancelCauseFunc
	clock  *clock.Clock // counts MaxTime down
	begin  func()       // starts the clock, once
	text   sglang.Text  // of the ids that were sent

	mu         sync.Mutex
	over       bool // sealed or dropped: no new turns
	flights    map[flightKey]*flight
	handlers   int                        // requests for turns being served
	idle       chan struct{}              // closed while there are none
	deliveries map[chan struct{}]struct{} // answers on their way
	failures   map[flightKey]failure      // turns that failed and were not made up for
	fatal      error                      // the failure that no retry can make up for
	endings    map[string]ending          // how turns ended, by id
	rewrites   map[string]int
	logged     map[string]bool // what is logged once a session
	turns      int
	booked     int // turns that are being made
	sideCalls  int
	abandoned  int
	sampled    int    // tokens
	budget     string // the budget that a turn was refused for
	late       bool   // MaxTime is over
}

func newSession(s *Server, id, token string, opts SessionOptions, p params) *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	ses := &session{
		server: s, id: id, token: token, opts: opts, params: p, opened: time.Now(), tree: trajectory.New(s.o.Trajectory), ctx: ctx, cancel: cancel,
		flights: map[flightKey]*flight{}, idle: make(chan struct{}), deliveries: map[chan struct{}]struct{}{},
		failures: map[flightKey]failure{}, endings: map[string]ending{}, rewrites: map[string]int{}, logged: map[string]bool{},
	}
	close(ses.idle)
	ses.clock = clock.Held(opts.MaxTime, ses.expire)
	ses.begin = sync.OnceFunc(func() {
		if opts.MaxTime > 0 {
			ses.clock.Release()
		}
	})
	return ses
}

// enter begins a request for a turn, unless the session is over.
func (ses *session) enter() error {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.over {
		return ErrSessionSealed
	}
	if ses.handlers == 0 {
		ses.idle = make(chan struct{})
	}
	ses.handlers++
	ses.begin()
	return nil
}

func (ses *session) exit() {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.handlers--; ses.handlers == 0 {
		close(ses.idle)
	}
}

// drain waits until no turn is being served.
func (ses *session) drain(ctx context.Context) error {
	ses.mu.Lock()
	idle := ses.idle
	ses.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// seal refuses new turns, ends those in flight, waits for them, and returns
// what went wrong and was not made up for.
func (ses *session) seal(ctx context.Context) error {
	ses.mu.Lock()
	ses.over = true
	ses.mu.Unlock()
	ses.clock.Stop()
	ses.cancel(ErrSessionSealed)
	if err := ses.drain(ctx); err != nil {
		return fmt.Errorf("seal session %q: %w", ses.id, err)
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	var errs []error
	for _, failed := range ses.failures {
		errs = append(errs, failed.err)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("session %q: %w", ses.id, errors.Join(errs...))
}

// drop ends everything of the session and waits until the engine holds nothing
// of it.
func (ses *session) drop() {
	ses.mu.Lock()
	ses.over = true
	ses.mu.Unlock()
	ses.clock.Stop()
	ses.cancel(ErrSessionDropped)
	// Bounded by the engine's own limits on aborting, and by the time that a
	// client may take to accept what is written to it.
	ses.drain(context.Background())
}

// record linearises the session.
func (ses *session) record() (Record, error) {
	segments, err := ses.tree.Segments(ses.opts.MaxContext)
	if err != nil {
		return Record{}, fmt.Errorf("session %q: %w", ses.id, err)
	}
	for i := range segments {
		seg := &segments[i]
		seg.Text = ses.server.o.Tokenizer.Decode(seg.Tokens[min(seg.PromptLen, len(seg.Tokens)):])
	}
	report := ses.tree.Report()
	ses.mu.Lock()
	defer ses.mu.Unlock()
	rewrites := map[string]int{}
	for _, counts := range []map[string]int{ses.rewrites, report.Rewrites} {
		for name, n := range counts {
			rewrites[name] += n
		}
	}
	return Record{
		Segments: segments, Turns: ses.turns, SideCalls: ses.sideCalls, Abandoned: ses.abandoned + len(report.Superseded),
		Rewrites: rewrites, Budget: ses.budget, Tree: ses.tree,
	}, nil
}

// admit checks the session's budgets before a turn is generated. Those that are
// being made count: sub-agents ask at once.
func (ses *session) admit(f *flight) error {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	switch {
	case ses.fatal != nil:
		return failedSession()
	case ses.late:
		return ses.tooLate()
	case f.req.Kind == chat.SideCall:
		return nil
	case ses.opts.MaxTurns > 0 && ses.turns+ses.booked >= ses.opts.MaxTurns:
		ses.budget = "turns"
		return &chat.Refusal{Kind: chat.Stop, Message: fmt.Sprintf("the session's budget of %d turns is spent", ses.opts.MaxTurns)}
	case ses.opts.MaxTokens > 0 && ses.sampled >= ses.opts.MaxTokens:
		ses.budget = "tokens"
		return &chat.Refusal{Kind: chat.Stop, Message: fmt.Sprintf("the session's budget of %d sampled tokens is spent", ses.opts.MaxTokens)}
	}
	f.booked = true
	ses.booked++
	return nil
}

// unbook ends what admit began: the turn is recorded, or will never be;
// ses.mu is held.
func (ses *session) unbook(f *flight) {
	if f.booked {
		f.booked = false
		ses.booked--
	}
}

// expire ends the turns in flight: MaxTime is over.
func (ses *session) expire() {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.late = true
	for _, f := range ses.flights {
		f.cancel(ses.tooLate())
	}
}

// tooLate refuses a turn after MaxTime; ses.mu is held.
func (ses *session) tooLate() *chat.Refusal {
	ses.budget = "time"
	return &chat.Refusal{Kind: chat.Stop, Message: fmt.Sprintf("the session's budget of %v is spent", ses.opts.MaxTime)}
}

// left returns how many tokens may still be sampled; ok is false when there is
// no such budget.
func (ses *session) left() (n int, ok bool) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.opts.MaxTokens - ses.sampled, ses.opts.MaxTokens > 0
}

// settled waits until the answers that were on their way when it was called
// are recorded or lost: a client that has read one may already send the next
// request.
func (ses *session) settled(ctx context.Context) error {
	ses.mu.Lock()
	var wait []chan struct{}
	for done := range ses.deliveries {
		wait = append(wait, done)
	}
	ses.mu.Unlock()
	for _, done := range wait {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// once reports whether name was not yet seen in this session.
func (ses *session) once(name string) bool {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.logged[name] {
		return false
	}
	ses.logged[name] = true
	return true
}

// newTurnID returns an id that fits into every protocol's own ids.
func newTurnID() string {
	var b [10]byte
	rand.Read(b[:])
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
