package adapter

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// An Engine samples from the policy; *sglang.Client is one. It must be safe for
// concurrent use, and hold nothing of a request once Generate has returned.
type Engine interface {
	Generate(ctx context.Context, req sglang.Request) (sglang.Response, error)
}

// A Tokenizer encodes and decodes exactly as the served model does. It must be
// safe for concurrent use.
type Tokenizer interface {
	// AppendEncode appends the ids of text, its special tokens as single ids.
	AppendEncode(dst []int32, text string) []int32
	// Decode returns the text of ids, special tokens included.
	Decode(ids []int32) string
	// Specials lists the special tokens.
	Specials() []token.AddedToken
}

// A Parser reads what the model wrote. It must be safe for concurrent use.
type Parser interface {
	Parse(parse.Input) parse.Result
}

// A Template renders a conversation as the served model was trained to see it.
// It must be safe for concurrent use.
type Template interface {
	Render(m []chat.Message, t []chat.Tool, o template.Options) (string, error)
	// RenderFrom renders what follows the generated message m[from-1]; exact is
	// false when that can't be told apart from what precedes it.
	RenderFrom(m []chat.Message, from int, t []chat.Tool, o template.Options) (text string, exact bool, err error)
}

// Options of a Server. Engine, Tokenizer, Template, Parser and at least one
// dialect are required.
type Options struct {
	Engine    Engine
	Tokenizer Tokenizer
	Template  Template
	Parser    Parser
	Dialects  []chat.Dialect

	// Trajectory says how prompts are made and turns become segments.
	Trajectory trajectory.Options
	// OnAbort says what becomes of a generation that the engine aborted.
	// Defaults to Continue.
	OnAbort AbortPolicy
	// Render is passed to the template at each turn, as its keyword arguments.
	Render template.Options
	// MaxContext is the model's context length in tokens, for sessions that set
	// none. Defaults to 0: as long as the engine says.
	MaxContext int
	// Reserved is how many tokens of the context the engine keeps for itself,
	// as speculative decoding does. Defaults to 0.
	Reserved int

	// DPRanks is the engine's number of data-parallel ranks: each session is
	// then kept on one, which routers can't do. Defaults to 0: the engine chooses.
	DPRanks int
	// Extra holds further fields of /generate, such as
	// {"return_routed_experts": true}, and Want the fields of meta_info that must
	// come back for it: see TurnInfo.Meta. Default to none.
	Extra map[string]any
	Want  []string

	// BaseURL is where sandboxes reach the server, LocalURL where this process
	// does; neither with a trailing slash or /v1. Default to "".
	BaseURL  string
	LocalURL string
	// Model is the label that /v1/models lists. Defaults to "policy".
	Model string

	// MaxBody bounds a request's body in bytes. Defaults to 32 MiB.
	MaxBody int64
	// BodyTimeout bounds how long a client may take to send its body.
	// Defaults to 60 s.
	BodyTimeout time.Duration
	// KeepAlive is the time between signs of life while a turn is generated.
	// Defaults to 8 s; the clients' own limits begin at 10 s.
	KeepAlive time.Duration
	// SlowTurn is the duration from which a turn is logged. Defaults to 120 s.
	SlowTurn time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// OnRequest, when set, sees each request for a turn before it is served, with
	// its body and the id of its session. It is called by several goroutines at
	// once. For recording and replaying.
	OnRequest func(session string, w http.ResponseWriter, r *http.Request, body []byte) Watch
}

// A Watch is what Options.OnRequest wants of a request.
type Watch struct {
	Turn   string              // names the turn that the request begins; ids are unique; "" leaves it to the server
	Writer http.ResponseWriter // is written to; the one that was given, or one around it that has Unwrap
	Over   func()              // called when the request is over
}

func (o Options) withDefaults() Options {
	if o.Model == "" {
		o.Model = "policy"
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 32 << 20
	}
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = time.Minute
	}
	if o.KeepAlive <= 0 {
		o.KeepAlive = 8 * time.Second
	}
	if o.SlowTurn <= 0 {
		o.SlowTurn = 120 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	o.LocalURL = strings.TrimRight(o.LocalURL, "/")
	return o
}

func (o Options) validate() error {
	for _, part := range []struct {
		name    string
		missing bool
	}{
		{"Engine", o.Engine == nil}, {"Tokenizer", o.Tokenizer == nil}, {"Template", o.Template == nil},
		{"Parser", o.Parser == nil}, {"Dialects", len(o.Dialects) == 0},
	} {
		if part.missing {
			return fmt.Errorf("adapter.Options.%s is missing", part.name)
		}
	}
	return nil
}

// Errors of sessions.
var (
	ErrSessionLive    = errors.New("a session with this id is live")
	ErrNoSession      = errors.New("no such session")
	ErrSessionDropped = errors.New("the session was dropped")
	ErrSessionSealed  = errors.New("the session was sealed")
	ErrClientGone     = errors.New("the client left before its answer")
	ErrBadRequest     = errors.New("a request of the agent was not understood")
)

// A Server is the Adapter: an http.Handler that serves every dialect, and the
// sessions behind it. It is safe for concurrent use.
type Server struct {
	o        Options
	routes   map[string]map[string]route // path → method → route
	specials map[int32]string
	gate     *gate
	unpinned atomic.Bool // said that ranks are not obeyed

	mu      sync.Mutex
	byID    map[string]*session
	byToken map[string]*session
	limit   int // tokens of context, as the engine said; 0 when it did not
	paused  bool
}

// A route is what a path serves.
type route struct {
	dialect chat.Dialect
	op      chat.Op
}

var _ Adapter = (*Server)(nil)

// New returns a Server without sessions. Dialects whose routes collide are
// refused.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		o: o.withDefaults(), routes: map[string]map[string]route{}, specials: map[int32]string{}, gate: newGate(),
		byID: map[string]*session{}, byToken: map[string]*session{},
	}
	for _, t := range o.Tokenizer.Specials() {
		s.specials[t.ID] = t.Content
	}
	for _, d := range o.Dialects {
		for _, r := range d.Routes() {
			method, path, ok := strings.Cut(r.Pattern, " ")
			if !ok {
				return nil, fmt.Errorf("dialect %T: route %q: want METHOD PATH", d, r.Pattern)
			}
			if s.routes[path] == nil {
				s.routes[path] = map[string]route{}
			}
			if other, taken := s.routes[path][method]; taken {
				return nil, fmt.Errorf("route %q is served by both %T and %T", r.Pattern, other.dialect, d)
			}
			s.routes[path][method] = route{d, r.Op}
		}
	}
	return s, nil
}

// OpenSession opens a session; see Adapter.
func (s *Server) OpenSession(_ context.Context, id string, opts SessionOptions) (Session, error) {
	params, err := pin(opts.Sampling)
	if err != nil {
		return Session{}, err
	}
	if opts.Kwargs, err = mergeKwargs(s.o.Render.Kwargs, opts.Kwargs); err != nil {
		return Session{}, err
	}
	if opts.MaxContext == 0 {
		opts.MaxContext = s.o.MaxContext
	}
	ses := newSession(s, id, newToken(), opts, params)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[id] != nil {
		return Session{}, fmt.Errorf("open session %q: %w", id, ErrSessionLive)
	}
	if s.paused {
		ses.clock.Hold()
	}
	s.byID[id] = ses
	s.byToken[ses.token] = ses
	return Session{ID: id, BaseURL: s.o.BaseURL, LocalURL: s.o.LocalURL, Token: ses.token}, nil
}

// newToken returns 256 random bits as text that fits into headers and paths.
func newToken() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// SealSession ends a session's use; see Adapter. Turns in flight are aborted:
// the agent is dead, nobody will read their answers.
func (s *Server) SealSession(ctx context.Context, id string) error {
	ses, err := s.session(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.byToken, ses.token)
	s.mu.Unlock()
	return ses.seal(ctx)
}

// FinishSession linearises a session; see Adapter. Turns in flight in a session
// that was not sealed are waited for, as long as ctx allows.
func (s *Server) FinishSession(ctx context.Context, id string) (Record, error) {
	ses, err := s.session(id)
	if err != nil {
		return Record{}, err
	}
	if err := ses.drain(ctx); err != nil {
		return Record{}, fmt.Errorf("finish session %q: %w", id, err)
	}
	if err := s.SealSession(ctx, id); err != nil && ctx.Err() != nil {
		return Record{}, err
	}
	return ses.record()
}

// DropSession forgets a session; see Adapter. Its error is always nil.
func (s *Server) DropSession(id string) error {
	s.mu.Lock()
	ses := s.byID[id]
	if ses != nil {
		delete(s.byToken, ses.token)
	}
	s.mu.Unlock()
	if ses == nil {
		return nil
	}
	ses.drop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[id] == ses {
		delete(s.byID, id)
	}
	return nil
}

// Close drops all sessions.
func (s *Server) Close() {
	s.mu.Lock()
	ids := make([]string, 0, len(s.byID))
	for id := range s.byID {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.DropSession(id)
	}
}

// Sessions returns the number of sessions that are not dropped.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// Pause holds new turns and ends those in the engine; see Adapter. What they
// have sampled so far is kept and continued after Resume, unless
// Options.OnAbort says otherwise. Signs of life go on meanwhile, and the
// sessions' time stands still.
func (s *Server) Pause(ctx context.Context) error {
	s.holdClocks(true)
	return s.gate.pause(ctx)
}

// Resume lets turns go on after Pause.
func (s *Server) Resume() {
	s.gate.resume()
	s.holdClocks(false)
}

// holdClocks lets the sessions' time stand still, or go on.
func (s *Server) holdClocks(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == on {
		return
	}
	s.paused = on
	for _, ses := range s.byID {
		if on {
			ses.clock.Hold()
		} else {
			ses.clock.Release()
		}
	}
}

func (s *Server) session(id string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.byID[id]
	if ses == nil {
		return nil, fmt.Errorf("session %q: %w", id, ErrNoSession)
	}
	return ses, nil
}

// byTokenOf returns the session that the request's token names, or nil.
func (s *Server) byTokenOf(r *http.Request) *session {
	tokens := make([]string, 0, len(s.o.Dialects)+1)
	if token, _, ok := pathToken(r.URL.Path); ok {
		tokens = append(tokens, token)
	}
	for _, d := range s.o.Dialects {
		tokens = append(tokens, d.Token(r))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range tokens {
		if ses := s.byToken[token]; ses != nil {
			return ses
		}
	}
	return nil
}
