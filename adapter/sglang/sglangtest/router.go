package sglangtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// RouterOptions of a Router.
type RouterOptions struct {
	Workers []string     // URLs of engines
	HTTP    *http.Client // Defaults to http.DefaultClient.
	// Timeout of a request to a worker, after which the router answers 504 and
	// tries again. Defaults to 1800 s.
	Timeout time.Duration
	// Breaker opens a worker after ten failures in a row, for a minute; any
	// answer but 200 counts as one, 400 included.
	Breaker bool
	// RateLimit answers that many of the first requests with an empty 429.
	RateLimit int
}

// A Router is a double of sgl-model-gateway 0.3.2 in front of engines: it reads
// a request into its own closed struct and drops every field that it does not
// know, has no /abort_request, tries five times with the same request id, and
// keeps requests with one X-SMG-Routing-Key on one worker. It is an
// http.Handler, safe for concurrent use.
type Router struct {
	o   RouterOptions
	mux *http.ServeMux

	mu       sync.Mutex
	failures map[string]int       // in a row, by worker
	open     map[string]time.Time // until when a worker is not used
	limited  int
	sent     map[string]int // requests by worker
}

// routerFields survive the router's own struct.
var routerFields = []string{
	"rid", "text", "input_ids", "sampling_params", "return_logprob", "logprob_start_len", "top_logprobs_num",
	"token_ids_logprob", "return_text_in_logprobs", "stream", "priority", "lora_path", "extra_key", "return_hidden_states",
}

// routerSampling survives in sampling_params.
var routerSampling = []string{
	"temperature", "max_new_tokens", "top_p", "top_k", "frequency_penalty", "presence_penalty", "repetition_penalty",
	"stop", "ignore_eos", "skip_special_tokens", "json_schema", "regex", "ebnf", "min_p", "min_new_tokens",
	"stop_token_ids", "no_stop_trim", "n", "sampling_seed",
}

// routerHeaders are passed on.
var routerHeaders = []string{"Authorization", "X-Request-Id", "X-Correlation-Id", "Traceparent", "Tracestate", "X-Smg-Routing-Key"}

// retried are the statuses after which the router tries again.
var retried = []int{408, 429, 500, 502, 503, 504}

// NewRouter returns a router.
func NewRouter(o RouterOptions) *Router {
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	if o.Timeout == 0 {
		o.Timeout = 1800 * time.Second
	}
	r := &Router{o: o, mux: http.NewServeMux(), failures: map[string]int{}, open: map[string]time.Time{}, sent: map[string]int{}}
	r.mux.HandleFunc("POST /generate", r.generate)
	r.mux.HandleFunc("GET /workers", r.workers)
	r.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "OK") })
	r.mux.HandleFunc("GET /v1/models", r.proxy)
	r.mux.HandleFunc("GET /model_info", r.proxy)
	r.mux.HandleFunc("GET /server_info", r.proxy)
	r.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	return r
}

// ServeHTTP serves the router's endpoints; any other path is an empty 404.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.mux.ServeHTTP(w, req) }

// Sent returns how many requests each worker was sent.
func (r *Router) Sent() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := map[string]int{}
	for k, v := range r.sent {
		sent[k] = v
	}
	return sent
}

func (r *Router) workers(w http.ResponseWriter, _ *http.Request) {
	list := []any{}
	for i, url := range r.o.Workers {
		list = append(list, map[string]any{"id": fmt.Sprint(i), "url": url, "model_id": "double", "worker_type": "regular", "is_healthy": true, "load": 0})
	}
	writeJSON(w, 200, map[string]any{"workers": list, "total": len(list), "stats": map[string]any{}})
}

// proxy passes a request to the first worker.
func (r *Router) proxy(w http.ResponseWriter, req *http.Request) {
	if len(r.o.Workers) == 0 {
		r.fail(w, 503, "no_available_workers", "No available workers")
		return
	}
	res, err := r.send(req.Context(), req, r.o.Workers[0], nil)
	if err != nil {
		r.fail(w, 500, "call_upstream_connection_failed", err.Error())
		return
	}
	copyResponse(w, res)
}

func (r *Router) generate(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	body, err = narrow(body)
	if err != nil {
		r.fail(w, 400, "invalid_request", err.Error())
		return
	}
	r.mu.Lock()
	limited := r.limited < r.o.RateLimit
	if limited {
		r.limited++
	}
	r.mu.Unlock()
	if limited {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	wait := 50 * time.Millisecond
	for attempt := 1; ; attempt++ {
		done := r.try(w, req, body, attempt == 5)
		if done {
			return
		}
		select {
		case <-time.After(wait):
		case <-req.Context().Done():
			return
		}
		wait = wait * 3 / 2
	}
}

// try sends the request to a worker; false asks for another try.
func (r *Router) try(w http.ResponseWriter, req *http.Request, body []byte, last bool) bool {
	worker, ok := r.choose(req.Header.Get("X-SMG-Routing-Key"))
	if !ok {
		if last {
			r.fail(w, 503, "no_available_workers", "No available workers")
		}
		return last
	}
	ctx, cancel := context.WithTimeout(req.Context(), r.o.Timeout)
	defer cancel()
	res, err := r.send(ctx, req, worker, body)
	if req.Context().Err() != nil {
		return true // the client has gone, and with it the request to the worker
	}
	if err != nil {
		r.count(worker, false)
		if !last {
			return false
		}
		if errors.Is(err, context.DeadlineExceeded) {
			r.fail(w, 504, "call_upstream_timeout", "Request to upstream timed out")
		} else {
			r.fail(w, 500, "call_upstream_connection_failed", err.Error())
		}
		return true
	}
	r.count(worker, res.StatusCode == 200)
	if slices.Contains(retried, res.StatusCode) && !last {
		res.Body.Close()
		return false
	}
	copyResponse(w, res)
	return true
}

// choose picks a worker that is not open: by the key's hash, else any.
func (r *Router) choose(key string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var usable []string
	for _, w := range r.o.Workers {
		if time.Now().After(r.open[w]) {
			usable = append(usable, w)
		}
	}
	if len(usable) == 0 {
		return "", false
	}
	if key == "" {
		return usable[rand.IntN(len(usable))], true
	}
	// Rendezvous: a worker that comes or goes moves only its own keys.
	best, bestHash := "", uint64(0)
	for _, w := range usable {
		h := fnv.New64a()
		io.WriteString(h, key+"\x00"+w)
		if sum := h.Sum64(); best == "" || sum > bestHash {
			best, bestHash = w, sum
		}
	}
	return best, true
}

func (r *Router) count(worker string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[worker]++
	if ok {
		r.failures[worker] = 0
		return
	}
	if r.failures[worker]++; r.o.Breaker && r.failures[worker] >= 10 {
		r.open[worker] = time.Now().Add(time.Minute)
		r.failures[worker] = 0
	}
}

func (r *Router) send(ctx context.Context, req *http.Request, worker string, body []byte) (*http.Response, error) {
	out, err := http.NewRequestWithContext(ctx, req.Method, worker+req.URL.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range routerHeaders {
		if v := req.Header.Get(h); v != "" {
			out.Header.Set(h, v)
		}
	}
	out.Header.Set("Content-Type", "application/json")
	return r.o.HTTP.Do(out)
}

func (r *Router) fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-SMG-Error-Code", code)
	writeJSON(w, status, map[string]any{"error": map[string]any{"type": http.StatusText(status), "code": code, "message": message}})
}

// narrow drops what the router's structs do not have.
func narrow(body []byte) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	keep(all, routerFields)
	if raw, ok := all["sampling_params"]; ok {
		var sampling map[string]json.RawMessage
		if err := json.Unmarshal(raw, &sampling); err != nil {
			return nil, err
		}
		keep(sampling, routerSampling)
		narrowed, err := json.Marshal(sampling)
		if err != nil {
			return nil, err
		}
		all["sampling_params"] = narrowed
	}
	return json.Marshal(all)
}

func keep(m map[string]json.RawMessage, names []string) {
	for k := range m {
		if !slices.Contains(names, k) {
			delete(m, k)
		}
	}
}

func copyResponse(w http.ResponseWriter, res *http.Response) {
	defer res.Body.Close()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		panic(http.ErrAbortHandler) // the worker broke off: so does the router
	}
}
