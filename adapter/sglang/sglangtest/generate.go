package sglangtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A generation is one live call.
type generation struct {
	rec      *Generation
	req      *request
	out      Output
	ids      []int32
	lps      []float32
	finish   map[string]any // finish_reason once it is over
	started  bool           // it holds a slot
	parked   bool           // it waits behind a pause: the scheduler does not know it yet
	aborted  bool
	crash    bool
	versions string // weight version when the answer is built
}

func (e *Engine) generate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	arrived := time.Now()
	req, refused := e.parseRequest(body)
	if refused != nil {
		e.note(&Generation{Status: refused.status, Started: arrived}, body)
		refused.write(w)
		return
	}
	g, refused := e.admit(req, body, arrived, r.Header.Get("X-SMG-Routing-Key"))
	if refused != nil {
		e.note(&Generation{Call: Call{RID: req.RID, Prompt: req.InputIDs}, Status: refused.status, Started: arrived}, body)
		refused.write(w)
		return
	}
	defer e.release(g, arrived)
	if e.o.Policy != nil {
		g.out = e.o.Policy(g.rec.Call)
	}
	if f := g.out.Fault; f != nil && (f.Status != 0 || f.Reset) {
		g.rec.Status = f.Status
		if f.Reset {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(f.Status)
		io.WriteString(w, f.Body)
		return
	}
	if req.Stream {
		e.stream(r.Context(), w, g)
		return
	}
	if !e.run(r.Context(), g, nil) {
		panic(http.ErrAbortHandler)
	}
	e.answer(w, g)
}

// admit registers the call, or refuses it.
func (e *Engine) admit(req *request, body []byte, arrived time.Time, key string) (*generation, *refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if req.RID == "" {
		req.RID = fmt.Sprintf("%032x", e.generated+1)
	}
	if e.live[req.RID] != nil {
		return nil, invalid("Duplicate request ID detected: %s", req.RID)
	}
	if e.o.MaxRunning > 0 && e.running >= e.o.MaxRunning && e.o.MaxQueued > 0 && e.queued >= e.o.MaxQueued {
		return nil, objectError(503, "503", "The request queue is full.")
	}
	rec := &Generation{Call: Call{N: e.generated, RID: req.RID, Prompt: req.InputIDs, Sampling: req.sampling, RoutingKey: key}, Started: arrived}
	if e.o.Bodies {
		rec.Body = body
	}
	e.generated++
	if len(e.log) < e.o.MaxLog {
		e.log = append(e.log, rec)
	}
	g := &generation{rec: rec, req: req}
	e.live[req.RID] = g
	e.change()
	return g, nil
}

// note logs a call that was refused.
func (e *Engine) note(rec *Generation, body []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rec.Ended = time.Now()
	if e.o.Bodies {
		rec.Body = body
	}
	if len(e.log) < e.o.MaxLog {
		e.log = append(e.log, rec)
	}
}

// release ends a call: its slot is free.
func (e *Engine) release(g *generation, arrived time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if g.started {
		e.running--
	}
	delete(e.live, g.req.RID)
	g.rec.Output = g.ids
	if e.o.NoIDs {
		g.rec.Prompt, g.rec.Output = nil, nil
	}
	g.rec.Ended = time.Now()
	e.stats.Service += time.Since(arrived)
	e.change()
}

// run generates; tick is called after each token of a stream. It reports false
// when there is nobody left to answer, or the engine crashed.
func (e *Engine) run(ctx context.Context, g *generation, tick func()) bool {
	if !e.start(ctx, g) {
		return g.finish != nil
	}
	perToken := g.out.PerToken
	if perToken == 0 {
		perToken = e.o.PerToken
	}
	leave := disconnect{poll: e.o.DisconnectPoll, ctx: ctx}
	defer leave.stop()
	if !e.wait(g, &leave, time.Duration(len(g.req.InputIDs)-g.rec.Cached)*e.o.PrefillPerToken) {
		return e.ended(g)
	}
	for g.finish == nil {
		if !e.wait(g, &leave, perToken) {
			return e.ended(g)
		}
		e.step(g, leave.left)
		if tick != nil {
			tick()
		}
	}
	e.finished(g)
	return !leave.left
}

// start waits behind a pause and for a slot.
func (e *Engine) start(ctx context.Context, g *generation) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	// A call behind a pause is not polled for a disconnect and can't be aborted.
	for e.paused != "" && !g.crash {
		g.parked = true
		e.block(nil)
	}
	g.parked = false
	e.queued++
	for e.o.MaxRunning > 0 && e.running >= e.o.MaxRunning && !g.aborted && !g.crash && ctx.Err() == nil {
		e.block(ctx.Done())
	}
	e.queued--
	if g.crash || ctx.Err() != nil {
		return false
	}
	if g.aborted {
		g.finish = map[string]any{"type": "abort", "message": "Abort in waiting queue"}
		g.rec.Finish = "abort"
		return false
	}
	g.started = true
	e.running++
	e.stats.MaxRunning = max(e.stats.MaxRunning, e.running)
	g.rec.Cached = min(e.cache.match(g.req.InputIDs), len(g.req.InputIDs)-1)
	e.change()
	return true
}

// block releases e.mu until the engine's state changes or done is closed.
func (e *Engine) block(done <-chan struct{}) {
	changed := e.changed
	e.mu.Unlock()
	select {
	case <-changed:
	case <-done:
	}
	e.mu.Lock()
}

// disconnect tracks a client that leaves and when the engine notices it.
type disconnect struct {
	ctx     context.Context
	poll    time.Duration
	left    bool
	noticed <-chan time.Time
	timer   *time.Timer
}

// done is closed when the client leaves; nil once that was seen.
func (d *disconnect) done() <-chan struct{} {
	if d.left {
		return nil
	}
	return d.ctx.Done()
}

// leave starts the time after which the engine notices.
func (d *disconnect) leave() {
	d.left = true
	d.timer = time.NewTimer(d.poll)
	d.noticed = d.timer.C
}

func (d *disconnect) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// wait lets service time pass. It returns false when the generation ends
// meanwhile: aborted, crashed, or left and noticed.
func (e *Engine) wait(g *generation, leave *disconnect, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	elapsed := timer.C
	if d <= 0 {
		elapsed = closedTime
	}
	for {
		e.mu.Lock()
		over, frozen, changed := g.aborted || g.crash, e.paused != "", e.changed
		e.mu.Unlock()
		if over {
			return false
		}
		ready := elapsed
		if frozen || g.out.Fault != nil && g.out.Fault.Hang {
			ready = nil
		}
		select {
		case <-ready:
			return true
		case <-leave.done():
			leave.leave()
		case <-leave.noticed:
			g.rec.Left = true
			return false
		case <-changed:
		}
	}
}

// closedTime is always ready.
var closedTime = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// ended completes a generation that did not come to its own end; it reports
// whether there is an answer.
func (e *Engine) ended(g *generation) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if g.crash || g.rec.Left {
		return false
	}
	// The abort takes effect after one more decode step.
	if len(g.ids) < len(g.out.IDs) {
		g.push(len(g.ids))
	}
	g.finish = map[string]any{"type": "abort", "message": "Aborted", "status_code": nil, "err_type": nil}
	g.rec.Finish = "abort"
	g.versions = e.version
	return true
}

// push samples the script's i-th token.
func (g *generation) push(i int) {
	lp := float32(-0.25)
	if i < len(g.out.LogProbs) {
		lp = g.out.LogProbs[i]
	}
	g.ids = append(g.ids, g.out.IDs[i])
	g.lps = append(g.lps, lp)
}

// step samples one token and looks whether it ends the generation.
func (e *Engine) step(g *generation, left bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(g.ids)
	switch {
	case n < len(g.out.IDs):
		g.push(n)
	case g.out.Cut:
		g.finish = map[string]any{"type": "length", "length": n}
		return
	case len(e.o.EOS) > 0:
		g.ids = append(g.ids, e.o.EOS[0])
		g.lps = append(g.lps, -0.25)
	case n > 0:
		g.finish = map[string]any{"type": "stop", "matched": g.ids[n-1]}
		return
	default:
		g.ids, g.lps = append(g.ids, 0), append(g.lps, -0.25)
		g.finish = map[string]any{"type": "stop", "matched": 0}
		return
	}
	if left {
		g.rec.Wasted++
	}
	g.finish = e.stopped(g)
}

// stopped returns the finish reason after the newest token, or nil.
func (e *Engine) stopped(g *generation) map[string]any {
	last, n := g.ids[len(g.ids)-1], len(g.ids)
	if f := g.out.Fault; f != nil && f.Abort > 0 && n >= f.Abort {
		return map[string]any{"type": "abort", "message": "Aborted", "status_code": nil, "err_type": nil}
	}
	if slices.Contains(g.req.stopIDs, last) || !g.req.ignore && slices.Contains(e.o.EOS, last) {
		return map[string]any{"type": "stop", "matched": last}
	}
	if len(g.req.stop) > 0 && e.o.Decode != nil {
		tail := e.o.Decode(g.ids[max(0, n-32):])
		for _, s := range g.req.stop {
			if strings.Contains(tail, s) {
				return map[string]any{"type": "stop", "matched": s}
			}
		}
	}
	if n >= g.req.max {
		return map[string]any{"type": "length", "length": n}
	}
	if g.out.Cut && n == len(g.out.IDs) {
		return map[string]any{"type": "length", "length": n}
	}
	return nil
}

// finished applies what ends a whole generation: faults, the cache, the version.
func (e *Engine) finished(g *generation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := g.out.Fault; f != nil && f.NaN {
		g.finish = map[string]any{"type": "stop", "matched": "NaN happened"}
		if len(e.o.EOS) > 0 {
			g.ids[len(g.ids)-1] = e.o.EOS[0]
		}
	}
	g.rec.Finish, _ = g.finish["type"].(string)
	g.versions = e.version
	e.cache.add(g.req.InputIDs, g.ids)
}

// answer writes the whole answer.
func (e *Engine) answer(w http.ResponseWriter, g *generation) {
	answer := e.answerOf(g, g.ids, g.lps)
	f := g.out.Fault
	if f != nil && f.Edit != nil {
		f.Edit(answer)
	}
	g.rec.Status = http.StatusOK
	data, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	if f != nil && f.CutBody {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write(data[:len(data)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Write(data)
}
