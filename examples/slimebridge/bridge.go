package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/agentrl-go/agentrl"
)

// maxBody bounds a request: a row with its tests is at most some megabytes.
const maxBody = 256 << 20

// A request is one call of slime's generate.
type request struct {
	Args       agentrl.Args           `json:"args"`
	Sample     agentrl.Sample         `json:"sample"`
	Params     agentrl.SamplingParams `json:"sampling_params"`
	Evaluation bool                   `json:"evaluation"`
	Replay     replay                 `json:"replay"`
}

// A setup is what a Generator is made for.
type setup struct {
	agentrl.Args
	replay
}

// A bridge serves rollouts over HTTP. It is safe for concurrent use.
type bridge struct {
	cfg    agentrl.Config
	fields []string      // of top-p ids and offsets in meta_info
	slots  chan struct{} // nil: no limit
	live   atomic.Int64
	peak   atomic.Int64
	away   atomic.Int64 // requests that were turned away

	mu         sync.Mutex
	generators map[setup]*agentrl.Generator
	closed     bool
}

func newBridge(cfg agentrl.Config, most int, fields []string) *bridge {
	b := &bridge{cfg: cfg, fields: fields, generators: map[setup]*agentrl.Generator{}}
	if most > 0 {
		b.slots = make(chan struct{}, most)
	}
	return b
}

func (b *bridge) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", b.health)
	mux.HandleFunc("POST /v1/generate", b.generate)
	return mux
}

func (b *bridge) health(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"status": "ok", "live": b.live.Load(), "peak": b.peak.Load(), "turned_away": b.away.Load()})
}

// A failure is what a client is told when there are no samples.
type failure struct {
	status int
	Kind   string `json:"kind"` // busy, bad_request, misconfigured, unavailable, closing
	Text   string `json:"error"`
}

func (f *failure) Error() string { return f.Kind + ": " + f.Text }

// generate runs one rollout. A client that leaves ends it: net/http sees that
// only once the body was read to its end.
func (b *bridge) generate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		err = fmt.Errorf("it is larger than %d MiB: take what the rollout does not need out of the row", maxBody>>20)
	}
	if err != nil {
		refuse(w, &failure{http.StatusBadRequest, "bad_request", "request body: " + err.Error()})
		return
	}
	samples, err := b.rollout(r.Context(), body)
	if r.Context().Err() != nil {
		return // nobody is there
	}
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"samples": samples})
}

func (b *bridge) rollout(ctx context.Context, body []byte) ([]agentrl.Sample, error) {
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, &failure{http.StatusBadRequest, "bad_request", err.Error()}
	}
	if err := req.Replay.check(); err != nil {
		return nil, &failure{http.StatusBadRequest, "bad_request", err.Error()}
	}
	leave, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	g, err := b.generator(setup{req.Args, req.Replay})
	if err != nil {
		return nil, err
	}
	call := g.Generate
	if req.Evaluation {
		call = g.Evaluate
	}
	samples, err := call(ctx, req.Sample, req.Params)
	switch {
	case errors.Is(err, agentrl.ErrClosed):
		return nil, &failure{http.StatusServiceUnavailable, "closing", err.Error()}
	case errors.Is(err, agentrl.ErrUnavailable):
		return nil, &failure{http.StatusServiceUnavailable, "unavailable", err.Error()}
	case err != nil:
		return nil, &failure{http.StatusInternalServerError, "misconfigured", err.Error()}
	}
	return b.complete(samples, req.Replay), nil
}

// complete adds what slime wants on every sample.
func (b *bridge) complete(samples []agentrl.Sample, want replay) []agentrl.Sample {
	for i := range samples {
		s := &samples[i]
		if s.RolloutID == nil {
			s.RolloutID = s.Index
		}
		extra := map[string]json.RawMessage{}
		for name, value := range s.Extra {
			extra[name] = value
		}
		s.Extra = extra
		if s.Segment == nil {
			want.placeholder(s)
			continue
		}
		cached, prompt := 0, 0
		for _, turn := range s.Segment.Turns {
			if turn.Owned {
				cached, prompt = cached+turn.Cached, prompt+turn.Prompt
			}
		}
		s.Extra["prefix_cache_info"] = raw(map[string]int{"cached_tokens": cached, "total_prompt_tokens": prompt})
	}
	return samples
}

// enter takes a slot, or turns the client away: it comes again.
func (b *bridge) enter() (leave func(), err error) {
	if b.slots != nil {
		select {
		case b.slots <- struct{}{}:
		default:
			b.away.Add(1)
			return nil, &failure{http.StatusTooManyRequests, "busy", fmt.Sprintf("%d rollouts are live, which is -max", cap(b.slots))}
		}
	}
	for n := b.live.Add(1); ; {
		old := b.peak.Load()
		if n <= old || b.peak.CompareAndSwap(old, n) {
			break
		}
	}
	return func() {
		b.live.Add(-1)
		if b.slots != nil {
			<-b.slots
		}
	}, nil
}

// generator returns the one of this setup. The first call makes it, the others
// wait; one that can't be made is not remembered.
func (b *bridge) generator(s setup) (*agentrl.Generator, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, &failure{http.StatusServiceUnavailable, "closing", "the service ends"}
	}
	if g := b.generators[s]; g != nil {
		return g, nil
	}
	cfg := b.cfg
	cfg.EngineFields, cfg.EngineWants = s.engine(b.fields)
	g, err := agentrl.New(cfg, s.Args)
	if err != nil {
		return nil, &failure{http.StatusInternalServerError, "misconfigured", err.Error()}
	}
	if s.replay != (replay{}) {
		k := &keeper{want: s.replay, fields: b.fields, turns: map[string]map[string]metas{}}
		g.Hooks.Turn, g.Hooks.RolloutDone = k.turn, k.done
	}
	b.generators[s] = g
	return g, nil
}

// close ends the live rollouts and everything of them.
func (b *bridge) close() error {
	b.mu.Lock()
	b.closed = true
	generators := b.generators
	b.generators = nil
	b.mu.Unlock()
	var errs []error
	for _, g := range generators {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

func refuse(w http.ResponseWriter, err error) {
	f := &failure{http.StatusInternalServerError, "misconfigured", err.Error()}
	errors.As(err, &f)
	if f.Kind == "busy" {
		w.Header().Set("Retry-After", "1")
	}
	reply(w, f.status, f)
}

// reply writes a JSON answer whole, with its length, so that one that was cut
// is seen.
func reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, raw(&failure{Kind: "misconfigured", Text: "answer: " + err.Error()})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left needs no answer
}

// raw is the JSON of what always has one.
func raw(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // no type that is given to it can fail
	}
	return data
}
