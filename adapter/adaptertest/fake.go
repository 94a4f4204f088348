// Package adaptertest has an Adapter in memory, for tests of what stands on an
// adapter.
package adaptertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A Fake is an Adapter without HTTP and without an engine. It keeps sessions
// as the real one does and knows which were opened, sealed and dropped. The
// zero value is ready for use; the fields are set before. It is safe for
// concurrent use.
type Fake struct {
	BaseURL  string // of all sessions; defaults to "http://adapter.invalid"
	LocalURL string // of all sessions; defaults to BaseURL

	// Fail, when set, is asked at each call of the method (OpenSession,
	// SealSession, FinishSession, Pause) and may return its error.
	Fail func(ctx context.Context, method, id string) error
	// Record, when set, says what a session leaves. Defaults to OneTurn.
	Record func(id string, opts adapter.SessionOptions) adapter.Record

	mu       sync.Mutex
	sessions map[string]*session
	opened   []string
	dropped  []string
	paused   int
}

// A session is a live one.
type session struct {
	opts   adapter.SessionOptions
	token  string
	sealed bool
}

var _ adapter.Adapter = (*Fake)(nil)

// OneTurn is the record of one trained turn: three tokens of prompt, two of
// answer.
func OneTurn() adapter.Record {
	return adapter.Record{Turns: 1, Segments: []trajectory.Segment{{
		Tokens: []int32{1, 2, 3, 4, 5}, LossMask: []int8{1, 1}, LogProbs: []float32{-0.5, -0.25},
		Text: "ok", Label: chat.Main, PromptLen: 3, Count: 1, Weight: 1, Owned: 2, Parent: -1,
		Turns: []trajectory.SegmentTurn{{ID: "turn", Prompt: 3, Output: 2, Owned: true, Finish: chat.FinishStop}},
	}}}
}

// OpenSession opens a session; a live id is refused.
func (f *Fake) OpenSession(ctx context.Context, id string, opts adapter.SessionOptions) (adapter.Session, error) {
	if err := f.fail(ctx, "OpenSession", id); err != nil {
		return adapter.Session{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions[id] != nil {
		return adapter.Session{}, fmt.Errorf("open session %q: %w", id, adapter.ErrSessionLive)
	}
	if f.sessions == nil {
		f.sessions = map[string]*session{}
	}
	s := &session{opts: opts, token: fmt.Sprintf("token-%d", len(f.opened))}
	f.sessions[id] = s
	f.opened = append(f.opened, id)
	base, local := f.BaseURL, f.LocalURL
	if base == "" {
		base = "http://adapter.invalid"
	}
	if local == "" {
		local = base
	}
	return adapter.Session{ID: id, BaseURL: base, LocalURL: local, Token: s.token}, nil
}

// Turn plays a turn of a live session: its OnTurn hook is called with info. A
// sealed session refuses it.
func (f *Fake) Turn(id string, info adapter.TurnInfo) error {
	f.mu.Lock()
	s := f.sessions[id]
	f.mu.Unlock()
	if s == nil {
		return fmt.Errorf("session %q: %w", id, adapter.ErrNoSession)
	}
	if s.sealed {
		return fmt.Errorf("session %q: %w", id, adapter.ErrSessionSealed)
	}
	info.Session = id
	if s.opts.OnTurn != nil {
		s.opts.OnTurn(info)
	}
	return nil
}

// SealSession seals a live session.
func (f *Fake) SealSession(ctx context.Context, id string) error {
	f.mu.Lock()
	s := f.sessions[id]
	if s != nil {
		s.sealed = true
	}
	f.mu.Unlock()
	if s == nil {
		return fmt.Errorf("session %q: %w", id, adapter.ErrNoSession)
	}
	return f.fail(ctx, "SealSession", id)
}

// FinishSession returns the session's record, and seals it.
func (f *Fake) FinishSession(ctx context.Context, id string) (adapter.Record, error) {
	if err := f.fail(ctx, "FinishSession", id); err != nil {
		return adapter.Record{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	if s == nil {
		return adapter.Record{}, fmt.Errorf("session %q: %w", id, adapter.ErrNoSession)
	}
	s.sealed = true
	if f.Record == nil {
		return OneTurn(), nil
	}
	return f.Record(id, s.opts), nil
}

// DropSession forgets a session.
func (f *Fake) DropSession(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions[id] != nil {
		delete(f.sessions, id)
		f.dropped = append(f.dropped, id)
	}
	return nil
}

// Pause counts; Paused tells.
func (f *Fake) Pause(ctx context.Context) error {
	f.mu.Lock()
	f.paused++
	f.mu.Unlock()
	return f.fail(ctx, "Pause", "")
}

// Resume undoes all calls of Pause.
func (f *Fake) Resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = 0
}

// Paused reports whether the adapter is paused.
func (f *Fake) Paused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused > 0
}

// Opened lists the ids of all sessions so far, in order.
func (f *Fake) Opened() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.opened)
}

// Options returns the options that a live session was opened with.
func (f *Fake) Options(id string) (opts adapter.SessionOptions, live bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	if s == nil {
		return adapter.SessionOptions{}, false
	}
	return s.opts, true
}

// Sealed reports whether a live session is sealed.
func (f *Fake) Sealed(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	return s != nil && s.sealed
}

// CheckDropped fails the test unless every session that was opened has been
// dropped.
func (f *Fake) CheckDropped(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.sessions {
		t.Errorf("session %q was not dropped", id)
	}
}

// fail asks Fail without holding the lock: it may call back or wait.
func (f *Fake) fail(ctx context.Context, method, id string) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail(ctx, method, id)
}
