package adapter

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A flightKey is a request's identity: its path, who asks, and its body. Agents
// that were given one task send one body, and each wants an answer of its own.
type flightKey [sha256.Size]byte

func keyOf(path, agent string, body []byte) flightKey {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q ", path, agent)
	h.Write(body)
	return flightKey(h.Sum(nil))
}

// A failure is a turn that failed and was not made up for.
type failure struct {
	about [sha256.Size]byte // what was asked, whatever the wire's form; zero when it was not understood
	err   error
}

// aboutOf names what a request asks. A client may ask again in another form:
// Claude Code does so without a stream after some errors of one.
func aboutOf(req *chat.Request) (sum [sha256.Size]byte) {
	h := sha256.New()
	json.NewEncoder(h).Encode([]any{req.Agent, req.Messages, req.Tools}) // strings and JSON that was read
	h.Sum(sum[:0])
	return sum
}

// A flight is one turn being made. A client that sends the same request again
// while the turn is in flight joins it; when the last client has left, the
// generation is aborted.
type flight struct {
	key    flightKey
	name   string // the turn's id, when Options.OnRequest gives one
	req    *chat.Request
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when what follows is set

	turn    trajectory.Turn
	answer  chat.Answer
	meta    []json.RawMessage
	err     error
	started time.Time

	clients  int  // guarded by session.mu, as is what follows
	handed   bool // the answer is, or was, on its way to a client
	booked   bool // counts against MaxTurns before it is recorded
	recorded bool // a client got the answer, and the turn is in the tree
	told     bool // OnTurn was called
}

// join returns the flight of this request, a new one when none is live. One whose
// answer is being handed over is over: its client may have read it already, and
// ask anew.
func (ses *session) join(key flightKey, req *chat.Request, d chat.Dialect, name string) *flight {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if f := ses.flights[key]; f != nil && !f.handed {
		f.clients++
		return f
	}
	ctx, cancel := context.WithCancelCause(ses.ctx)
	f := &flight{key: key, name: name, req: req, ctx: ctx, cancel: cancel, done: make(chan struct{}), clients: 1, started: time.Now()}
	ses.flights[key] = f
	ses.noteRewrites(req.Rewrites)
	go func() {
		defer close(f.done)
		f.err = ses.guarded(f, d)
	}()
	return f
}

// guarded is generate, of which no panic comes out: a fault in a template or a
// parser costs its session, not the trainer's process.
func (ses *session) guarded(f *flight, d chat.Dialect) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a turn: %v\n%s", p, debug.Stack())
		}
	}()
	return ses.generate(f, d)
}

// noteRewrites keeps how often each canonicalisation was needed in one request.
// Requests repeat their history, and with it what was canonicalised before, so
// the counts are not summed. ses.mu is held.
func (ses *session) noteRewrites(names []string) {
	counts := map[string]int{}
	for _, name := range names {
		counts[name]++
		ses.rewrites[name] = max(ses.rewrites[name], counts[name])
	}
}

// leave takes a client off a flight. The last one ends it, and waits until the
// engine holds nothing of it.
func (ses *session) leave(f *flight) {
	ses.mu.Lock()
	f.clients--
	last := f.clients == 0
	if last && ses.flights[f.key] == f {
		delete(ses.flights, f.key)
	}
	ses.mu.Unlock()
	if !last {
		return
	}
	f.cancel(ErrClientGone)
	<-f.done
	ses.conclude(f)
}

// conclude accounts for a flight that no client waits for any more.
func (ses *session) conclude(f *flight) {
	ses.mu.Lock()
	ses.unbook(f)
	lost := !f.recorded && f.err == nil
	gone := errors.Is(f.err, ErrClientGone) || errors.Is(f.err, ErrSessionSealed)
	if lost || gone {
		ses.abandoned++
	}
	if infrastructure(f.err) {
		ses.fail(f, f.err)
	}
	told := f.told
	f.told = true
	ses.mu.Unlock()
	if told {
		return
	}
	err := f.err
	if lost {
		err = ErrClientGone
	}
	ses.tell(f, err)
}

// deliver hands the answer to a client, and records the turn when the first
// client got it.
func (ses *session) deliver(f *flight, answer func(chat.Answer) error) error {
	done := ses.delivering(f)
	defer ses.delivered(done)
	err := answer(f.answer)
	ses.mu.Lock()
	first := err == nil && !f.recorded
	f.recorded = f.recorded || first
	ses.mu.Unlock()
	if !first {
		return err
	}
	err = ses.keep(f)
	ses.mu.Lock()
	f.told = true
	if err != nil {
		ses.fail(f, err)
	}
	ses.mu.Unlock()
	ses.tell(f, err)
	return nil
}

// fail notes what engine or adapter did to a turn; ses.mu is held. Where the
// client is not to try again, the rest of the session is refused at once: its
// outcome is known.
func (ses *session) fail(f *flight, err error) {
	ses.noteFailure(f.key, f.req, err)
	if ses.fatal == nil && refusalOf(err).Kind == chat.Stop {
		ses.fatal = err
	}
}

// noteFailure keeps an error of a turn, up to a number that an agent can't grow
// by sending nonsense; ses.mu is held. req is nil when it was not understood.
func (ses *session) noteFailure(key flightKey, req *chat.Request, err error) {
	if len(ses.failures) >= 100 {
		return
	}
	failed := failure{err: err}
	if req != nil {
		failed.about = aboutOf(req)
	}
	ses.failures[key] = failed
}

// madeUp forgets the failures that a turn has made up for; ses.mu is held.
func (ses *session) madeUp(f *flight) {
	if len(ses.failures) == 0 {
		return
	}
	about := aboutOf(f.req)
	maps.DeleteFunc(ses.failures, func(key flightKey, failed failure) bool { return key == f.key || failed.about == about })
}

func (ses *session) delivering(f *flight) chan struct{} {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	f.handed = true
	done := make(chan struct{})
	ses.deliveries[done] = struct{}{}
	return done
}

func (ses *session) delivered(done chan struct{}) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	delete(ses.deliveries, done)
	close(done)
}

// keep records the turn and counts it.
func (ses *session) keep(f *flight) error {
	f.turn.End = time.Now()
	if err := ses.tree.Record(f.turn); err != nil {
		return err
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.unbook(f)
	ses.madeUp(f)
	ses.sampled += len(f.turn.OutputIDs)
	if f.turn.Kind == chat.SideCall {
		ses.sideCalls++
	} else {
		ses.turns++
	}
	return nil
}

// tell reports a turn that is over to the hook, and to the log where it is
// worth a line.
func (ses *session) tell(f *flight, err error) {
	info := TurnInfo{
		Session: ses.id, ID: f.turn.ID, Kind: f.req.Kind, Agent: f.req.Agent,
		Prompt: len(f.turn.PromptIDs), Output: len(f.turn.OutputIDs), Cached: f.turn.Cached,
		Finish: f.turn.Finish, IllFormed: f.turn.IllFormed, Start: f.started, Duration: time.Since(f.started), Err: err, Meta: f.meta,
	}
	log := ses.server.o.Logger
	switch {
	case infrastructure(err):
		log.Warn("turn failed", "session", ses.id, "duration", info.Duration, "err", err)
	case err == nil && info.Duration > ses.server.o.SlowTurn:
		log.Warn("slow turn", "session", ses.id, "duration", info.Duration, "prompt", info.Prompt, "output", info.Output)
	}
	if ses.opts.OnTurn != nil {
		ses.opts.OnTurn(info)
	}
}

// infrastructure reports whether err is the engine's or the adapter's doing,
// not the client's, the caller's or a budget's.
func infrastructure(err error) bool {
	var refusal *chat.Refusal
	switch {
	case err == nil, errors.As(err, &refusal):
		return false
	case errors.Is(err, ErrClientGone), errors.Is(err, ErrSessionSealed), errors.Is(err, ErrSessionDropped):
		return false
	}
	return true
}
