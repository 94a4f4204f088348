package agentrl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// ReplayOptions say what is otherwise than when the recording was made. The
// zero value changes nothing.
type ReplayOptions struct {
	Checkpoint string                 // where the checkpoint is here; "" is the recording's path
	Protocol   swe.Protocol           // "" or nil is the recording's, by name
	Adapter    func(*adapter.Options) // changes the adapter's parts: another parser, another template
	Reward     RewardFunc             // as in Generator
	Logger     *slog.Logger           // nil discards
}

// A Replayed is what a recording came to.
type Replayed struct {
	Samples    []Sample
	Difference *Difference // the first; nil when the samples are the recorded ones, byte for byte
}

// A Difference says where a replay departs from its recording first.
type Difference struct {
	Generation int    // of the engine, from 0, whose prompt differs; -1 where only the samples do
	Turn       int    // from 0: the generation that sampled the token, or whose parsing the clients' history then contradicts; -1 for none
	Token      int    // offset in the prompt, in the turn's prompt and output, or in the sample's tokens; -1 where no token differs
	Recorded   string // what was there
	Now        string // what is there
	What       string // in words
}

func (d *Difference) String() string { return d.What }

// Replay makes a recorded rollout again, without sandboxes, agent or engine:
// the same Generate runs, parses, renders and exports; what came from outside
// comes from the recording. Waits between boot attempts are waited again; ctx
// bounds it. A rollout that its own guard or its caller ended comes out as one
// that failed otherwise, since neither ends this one.
func Replay(ctx context.Context, rec *Recording, o ReplayOptions) (*Replayed, error) {
	g, p, err := newReplay(rec, o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	base := rec.Base
	if base.SessionID == "" { // it may have been drawn
		base.SessionID = rec.Session
		if n := intOf(base.Metadata["attempt"]) + 1; n > 1 {
			base.SessionID = strings.TrimSuffix(rec.Session, fmt.Sprintf("-a%d", n))
		}
	}
	call := g.Generate
	if rec.Mode == "evaluate" {
		call = g.Evaluate
	}
	samples, err := call(ctx, base, rec.Params)
	if err != nil {
		return nil, err
	}
	out := &Replayed{Samples: samples, Difference: p.difference()}
	if out.Difference == nil {
		out.Difference, err = differingSamples(rec.Samples, samples)
		if d := out.Difference; d != nil && d.Token < 0 {
			p.twin.locate(d, rec.Engine)
		}
	}
	return out, err
}

// newReplay makes a Generator whose stages are the recording's.
func newReplay(rec *Recording, o ReplayOptions) (*Generator, *player, error) {
	cfg, args := rec.Config, rec.Args
	if o.Checkpoint != "" {
		args.HFCheckpoint = o.Checkpoint
	}
	if args.SGLangURL == "" {
		args.SGLangURL = "http://engine.invalid"
	}
	protocol, eval := o.Protocol, o.Protocol
	if protocol == nil {
		var errs [2]error
		protocol, errs[0] = newProtocol(cfg, "SWE_TRAIN_PROTOCOL", cfg.TrainProtocol)
		eval, errs[1] = newProtocol(cfg, "SWE_EVAL_PROTOCOL", cfg.EvalProtocol)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, nil, err
		}
	}
	options, err := adapterOptions(cfg, args)
	if err != nil {
		return nil, nil, fmt.Errorf("replay: %w", err)
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &player{rec: rec, used: make([]bool, len(rec.Engine))}
	options.Engine, options.OnRequest, options.Logger = p, p.watch, log
	options.LocalURL, options.BaseURL = "http://adapter.invalid", "http://adapter.invalid"
	p.twin = &twin{recorded: options.Parser}
	if o.Adapter != nil {
		o.Adapter(&options)
	}
	p.twin.Parser, options.Parser = options.Parser, p.twin
	if p.server, err = adapter.New(options); err != nil {
		return nil, nil, err
	}
	g := &Generator{Config: cfg, Protocol: protocol, EvalProtocol: eval, Sandboxes: &boxPlayer{rec: rec}, Harness: p, Adapter: p.server,
		Reward: o.Reward, Logger: log, args: args, replayed: rec}
	return g, p, nil
}

// A player is the engine and the harness of a replay.
type player struct {
	rec    *Recording
	server *adapter.Server
	twin   *twin

	mu       sync.Mutex
	used     []bool // generations
	installs int
	diff     *Difference
	running  []func() // end the requests that outlive the agent, and wait for them
}

// numberHeader carries the number of a replayed request to watch.
const numberHeader = "X-Agentrl-Replay"

// watch names the turn as it was named.
func (p *player) watch(_ string, w http.ResponseWriter, r *http.Request, _ []byte) adapter.Watch {
	n, err := strconv.Atoi(r.Header.Get(numberHeader))
	watch := adapter.Watch{Writer: w, Over: func() {}}
	if err == nil && n >= 0 && n < len(p.rec.Requests) {
		watch.Turn = p.rec.Requests[n].Turn
	}
	return watch
}

// DialsBack is as it was.
func (p *player) DialsBack() bool { return p.rec.Agent.DialsBack }

// Install ends as it did.
func (p *player) Install(context.Context, sandbox.Sandbox) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.installs++
	if p.installs > len(p.rec.Agent.Installs) {
		return fmt.Errorf("replay: the recording has %d installations", len(p.rec.Agent.Installs))
	}
	return p.rec.Agent.Installs[p.installs-1].err()
}

// Run sends what the agent sent, in the order and with the overlaps that it
// had, and ends as the agent did.
func (p *player) Run(ctx context.Context, _ sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	if !p.rec.Agent.Ran {
		return harness.Report{}, errors.New("replay: the recording has no run of the agent")
	}
	live := map[int]func(){}
	for _, e := range p.rec.Events {
		if e.Request < 0 {
			break
		}
		if !e.End {
			live[e.Request] = p.send(ctx, e.Request, job.Token)
			continue
		}
		if end := live[e.Request]; end != nil {
			end()
			delete(live, e.Request)
		}
	}
	for _, end := range live {
		p.running = append(p.running, end)
	}
	return p.rec.Agent.Report, p.rec.Agent.Err.err()
}

func (p *player) close() {
	for _, end := range p.running {
		end()
	}
}

// send serves a request in the background. The function waits for its end,
// after leaving where the client left.
func (p *player) send(ctx context.Context, n int, token string) func() {
	t := p.rec.Requests[n]
	show := func(s string) string { return strings.ReplaceAll(s, tokenMark, token) }
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	body := show(string(t.Body))
	req, err := http.NewRequestWithContext(ctx, t.Method, show(t.URL), strings.NewReader(body))
	if err != nil {
		return cancel // the recorder took it from a request
	}
	for name, values := range t.Header {
		for _, v := range values {
			req.Header.Add(name, show(v))
		}
	}
	req.Header.Set(numberHeader, strconv.Itoa(n))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // http.ErrAbortHandler: an answer that was cut
		p.server.ServeHTTP(&unread{header: http.Header{}}, req)
	}()
	return func() {
		if t.Gone {
			cancel()
		}
		<-done
		cancel()
	}
}

// unread is the writer of an answer that nobody reads.
type unread struct{ header http.Header }

// Header implements http.ResponseWriter.
func (u *unread) Header() http.Header { return u.header }

// WriteHeader implements http.ResponseWriter.
func (u *unread) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (u *unread) Write(data []byte) (int, error) { return len(data), nil }

// Flush implements http.Flusher.
func (u *unread) Flush() {}

// Generate answers a prompt as the engine answered it. Another prompt than any
// that was recorded is the difference.
func (p *player) Generate(ctx context.Context, req sglang.Request) (sglang.Response, error) {
	p.mu.Lock()
	tape := p.take(req.InputIDs)
	p.mu.Unlock()
	switch {
	case tape == nil:
		return sglang.Response{}, &sglang.Error{Kind: sglang.Rejected, Message: "replay: " + p.difference().What, Attempts: 1}
	case tape.Failed != nil:
		failed := *tape.Failed
		failed.Err = tape.Err.err()
		return tape.Response, &failed
	case tape.Err != nil && len(tape.Response.OutputIDs) == 0:
		if context.Cause(ctx) == nil { // the client left, or the session ended: as soon as it does here
			<-ctx.Done()
		}
		return sglang.Response{}, context.Cause(ctx)
	}
	return tape.Response, nil
}

// take returns the recorded generation with this prompt; nil when there is
// none, and then notes how the prompt differs. p.mu is held.
func (p *player) take(ids []int32) *engineTape {
	best, same := -1, -1
	for i, t := range p.rec.Engine {
		if p.used[i] {
			continue
		}
		if slices.Equal(t.Input, ids) {
			p.used[i] = true
			return t
		}
		if n := common(t.Input, ids); n > same {
			best, same = i, n
		}
	}
	if p.diff == nil {
		p.diff = p.differs(best, same, ids)
	}
	return nil
}

// differs words how a prompt departs from that of recorded generation i.
func (p *player) differs(i, at int, ids []int32) *Difference {
	if i < 0 {
		return &Difference{Generation: -1, Turn: -1, Token: -1, What: fmt.Sprintf("the recording has %d generations; this is one more", len(p.rec.Engine))}
	}
	d := &Difference{Generation: i, Turn: -1, Token: at, Recorded: tokenAt(p.rec.Engine[i].Input, at, p.server.Decode), Now: tokenAt(ids, at, p.server.Decode)}
	for j := range i {
		if t := p.rec.Engine[j]; at >= len(t.Input) && at <= len(t.Input)+len(t.Response.OutputIDs) && common(t.Input, ids) == len(t.Input) {
			d.Turn = j
		}
	}
	where := "before any turn"
	if d.Turn >= 0 {
		where = fmt.Sprintf("in what turn %d sampled", d.Turn)
	} else if i > 0 {
		d.Turn = i - 1
		where = fmt.Sprintf("after turn %d", d.Turn)
	}
	d.What = fmt.Sprintf("the prompt of generation %d differs at token %d, %s: recorded %s, now %s", i, at, where, d.Recorded, d.Now)
	return d
}

func (p *player) difference() *Difference {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.diff
}

func common[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func tokenAt(ids []int32, at int, decode func([]int32) string) string {
	if at >= len(ids) {
		return "its end"
	}
	return fmt.Sprintf("%d %q", ids[at], decode(ids[at:at+1]))
}

// differingSamples compares what was returned with what is, byte for byte.
func differingSamples(recorded []json.RawMessage, now []Sample) (*Difference, error) {
	if len(recorded) != len(now) {
		return &Difference{Generation: -1, Turn: -1, Token: -1, Recorded: strconv.Itoa(len(recorded)), Now: strconv.Itoa(len(now)),
			What: fmt.Sprintf("%d samples were recorded, now there are %d", len(recorded), len(now))}, nil
	}
	for i := range now {
		text, err := marshal(now[i])
		if err != nil {
			return nil, err
		}
		var before Sample
		if bytes.Equal(text, recorded[i]) {
			continue
		}
		if err := json.Unmarshal(recorded[i], &before); err != nil {
			return nil, err
		}
		d := &Difference{Generation: -1, Turn: -1, Token: common(before.Tokens, now[i].Tokens)}
		if d.Token < max(len(before.Tokens), len(now[i].Tokens)) {
			d.What = fmt.Sprintf("sample %d differs at token %d of %d", i, d.Token, len(before.Tokens))
			return d, nil
		}
		at := common(recorded[i], text)
		d.Token, d.Recorded, d.Now = -1, around(recorded[i], at), around(text, at)
		d.What = fmt.Sprintf("sample %d has the same tokens and differs elsewhere: recorded …%s…, now …%s…", i, d.Recorded, d.Now)
		return d, nil
	}
	return nil, nil
}

func around(text []byte, at int) string {
	return strings.ToValidUTF8(string(text[max(0, at-60):min(len(text), at+40)]), "")
}

// A boxPlayer is the sandbox provider of a replay.
type boxPlayer struct {
	rec *Recording

	mu   sync.Mutex
	next int
}

// Create gives the next recorded sandbox, or its error.
func (p *boxPlayer) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next >= len(p.rec.Boxes) {
		return nil, fmt.Errorf("replay: the recording has %d sandboxes; this is one more, as %s", len(p.rec.Boxes), spec.Labels["role"])
	}
	box := p.rec.Boxes[p.next]
	p.next++
	if box.Role != spec.Labels["role"] {
		return nil, fmt.Errorf("replay: sandbox %d was created as %s, now as %s", p.next-1, box.Role, spec.Labels["role"])
	}
	if err := box.Err.err(); err != nil {
		return nil, err
	}
	return &playedBox{box: box}, nil
}

// A playedBox is a recorded sandbox: its calls end as they did, in their order.
type playedBox struct {
	box *boxTape

	mu   sync.Mutex
	next int
}

func (b *playedBox) take(op, what string) (callTape, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next >= len(b.box.Calls) {
		return callTape{}, fmt.Errorf("replay: sandbox %s: %s of %.200q, after all that was recorded", b.box.ID, op, what)
	}
	c := b.box.Calls[b.next]
	if c.Op != op || c.What != what {
		return callTape{}, fmt.Errorf("replay: sandbox %s, call %d: recorded %s of %.200q, now %s of %.200q", b.box.ID, b.next, c.Op, c.What, op, what)
	}
	b.next++
	return c, c.Err.err()
}

// ID is the recorded one.
func (b *playedBox) ID() string { return b.box.ID }

// Exec ends as it did.
func (b *playedBox) Exec(_ context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	c, err := b.take("exec", cmd.Script)
	return c.Result, err
}

// RunDetached ends as it did.
func (b *playedBox) RunDetached(_ context.Context, d sandbox.Detached) (sandbox.Exit, error) {
	c, err := b.take("detached", d.Script)
	return c.Exit, err
}

// WriteFile ends as it did.
func (b *playedBox) WriteFile(_ context.Context, path, _ string, _ io.ReadSeeker) error {
	_, err := b.take("write", path)
	return err
}

// ReadFile gives what was read.
func (b *playedBox) ReadFile(_ context.Context, path string) (io.ReadCloser, error) {
	c, err := b.take("read", path)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(c.Data)), nil
}

// Close ends as it did.
func (b *playedBox) Close() error { return b.box.Close.err() }
