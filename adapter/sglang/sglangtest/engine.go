// Package sglangtest is a double of an SGLang server and of the router in
// front of one, faithful in what a client can see: validation and its exact
// messages, token-level generation with logprobs and stop handling, a prefix
// cache, a queue, aborts, pauses, weight versions, slow disconnects and faults.
// What the model says is a function of the prompt ids.
package sglangtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A Policy says what the model samples for a call. It is called once per
// generation, concurrently, and may look at the exact prompt ids.
type Policy func(Call) Output

// A Call is one generation as the engine received it.
type Call struct {
	N          int // counts the engine's generations from 0
	RID        string
	Prompt     []int32 // not to be changed
	Sampling   map[string]any
	RoutingKey string
}

// An Output is what the model samples. The engine applies stop tokens, stop
// strings, max_new_tokens and the context length to it; when none of them ends
// the script, the engine's first EOS is sampled after it.
type Output struct {
	IDs      []int32
	LogProbs []float32 // of IDs; missing ones are -0.25
	Cut      bool      // end after IDs by "length", as if max_new_tokens were spent
	Fault    *Fault
	// PerToken overrides Options.PerToken when it is not 0.
	PerToken time.Duration
}

// A Fault is something that goes wrong with one call. Fields that are set are
// applied in the order in which they stand here.
type Fault struct {
	Status  int    // answer with this status and Body instead of generating
	Body    string // of Status
	Reset   bool   // cut the connection before any answer
	Hang    bool   // never answer; the slot is held until abort or disconnect
	CutBody bool   // generate, then cut the connection in the middle of the answer
	Null    bool   // the last logprob is null
	NaN     bool   // end as the engine does when the model's output is not a number
	Abort   int    // > 0: the engine aborts after this many tokens, as at a weight update
	Edit    func(answer map[string]any)
}

// Options of an Engine.
type Options struct {
	Policy          Policy
	ContextLen      int                  // tokens; defaults to 1<<20
	EOS             []int32              // ids that end a generation unless ignore_eos is set
	Decode          func([]int32) string // for stop strings and the answer's text; nil: no stop strings, text ""
	PrefillPerToken time.Duration        // service time per uncached prompt token; 0 for none
	PerToken        time.Duration        // service time per sampled token; 0 for none
	PageSize        int                  // tokens per page of the prefix cache; defaults to 16
	DisconnectPoll  time.Duration        // how late the engine notices that a client has left; the real one up to 4 s; 0: at once
	MaxRunning      int                  // generations at once; 0 for no limit
	MaxQueued       int                  // waiting ones beyond which 503 is answered; 0 for no limit
	WeightVersion   string               // defaults to "default"
	Incremental     bool                 // --incremental-streaming-output
	ExpertsEnabled  bool                 // --enable-return-routed-experts
	MaxLog          int                  // generations kept in the log, with their ids; defaults to 10000, negative keeps none
	Bodies          bool                 // the log keeps the requests as they came
	NoIDs           bool                 // the log keeps no token ids: for as many generations as memory would not hold
}

func (o Options) withDefaults() Options {
	if o.ContextLen == 0 {
		o.ContextLen = 1 << 20
	}
	if o.PageSize == 0 {
		o.PageSize = 16
	}
	if o.WeightVersion == "" {
		o.WeightVersion = "default"
	}
	if o.MaxLog == 0 {
		o.MaxLog = 10000
	}
	return o
}

// An Engine is the double; it is an http.Handler. All methods are safe for
// concurrent use.
type Engine struct {
	o   Options
	mux *http.ServeMux

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced at every change of what follows
	live      map[string]*generation
	running   int
	queued    int
	paused    string // "", or the mode of the pause
	version   string
	cache     prefixCache
	log       []*Generation
	generated int // generations begun
	stats     Stats
	down      bool
}

// A Generation is what the log keeps of one call.
type Generation struct {
	Call
	Body    []byte // the request as it came; nil unless Options.Bodies
	Output  []int32
	Cached  int
	Finish  string // "stop", "length", "abort", "" when no answer was built
	Left    bool   // the client was gone before the answer
	Wasted  int    // tokens sampled after the client had left
	Started time.Time
	Ended   time.Time
	Status  int
}

// Stats counts what an Engine has seen.
type Stats struct {
	MaxRunning int           // most generations at once
	Aborts     []string      // ids of abort requests, "*" for abort_all; not kept where no log is
	Service    time.Duration // summed time between a generation's arrival and its answer
}

// New returns a double.
func New(o Options) *Engine {
	o = o.withDefaults()
	e := &Engine{o: o, changed: make(chan struct{}), live: map[string]*generation{}, version: o.WeightVersion}
	e.cache.init(o.PageSize)
	e.mux = http.NewServeMux()
	e.mux.HandleFunc("POST /generate", e.generate)
	e.mux.HandleFunc("PUT /generate", e.generate)
	e.control()
	return e
}

// ServeHTTP serves the engine's endpoints.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	down := e.down
	e.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	e.mux.ServeHTTP(w, r)
}

// Live returns the number of generations that hold or wait for a slot.
func (e *Engine) Live() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.live)
}

// Log returns the generations so far, in the order of their arrival. Entries
// of generations that are still live are incomplete copies.
func (e *Engine) Log() []Generation {
	e.mu.Lock()
	defer e.mu.Unlock()
	log := make([]Generation, len(e.log))
	for i, g := range e.log {
		log[i] = *g
	}
	return log
}

// Stats returns the counts so far.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Aborts = append([]string(nil), s.Aborts...)
	return s
}

// SetDown makes the engine cut every connection without an answer, as a
// crashed one does, or answer again.
func (e *Engine) SetDown(down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = down
	if down {
		for _, g := range e.live {
			g.crash = true
		}
	}
	e.change()
}

// WaitLive returns when n generations are live, or an error after limit.
func (e *Engine) WaitLive(n int, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		e.mu.Lock()
		live, changed := len(e.live), e.changed
		e.mu.Unlock()
		if live == n {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("%d generations live after %v, want %d", live, limit, n)
		}
	}
}

// change wakes everybody who waits for the engine's state; e.mu is held.
func (e *Engine) change() {
	close(e.changed)
	e.changed = make(chan struct{})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(data)
}
