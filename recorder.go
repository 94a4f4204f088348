package agentrl

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A Recorder writes a Recording of every rollout of a Generator. New makes one
// when Config.RecordDir is set; with injected stages, set Generator.Recorder
// and pass the adapter's options through Adapter. It is safe for concurrent use.
type Recorder struct {
	dir string

	mu   sync.Mutex
	live map[string]*tape // by session
}

// NewRecorder returns a Recorder that writes into a directory, which is made
// if it is missing.
func NewRecorder(dir string) *Recorder { return &Recorder{dir: dir, live: map[string]*tape{}} }

// Adapter returns the options with what the recorder needs to see. It takes
// the place of OnRequest.
func (r *Recorder) Adapter(o adapter.Options) adapter.Options {
	o.Engine = recordedEngine{o.Engine, r}
	o.OnRequest = r.request
	return o
}

func (r *Recorder) tapeOf(session string) *tape {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[session]
}

// A tape is the recording of a rollout that is running. The methods of a nil
// tape pass everything through.
type tape struct {
	r     *Recorder
	token string

	mu  sync.Mutex
	rec Recording
}

// newTape begins the recording of a call with this base.
func newTape(r *rollout, base Sample) *tape {
	if r.g.Recorder == nil {
		return nil
	}
	cfg := r.g.Config
	cfg.E2BAPIKey, cfg.ClaudeCodeEnvs, cfg.CodexEnvs, cfg.RunDir, cfg.RecordDir, cfg.LedgerDir, cfg.AdminAddr = "", "", "", "", "", "", ""
	base.Metadata = maps.Clone(base.Metadata)
	return &tape{r: r.g.Recorder, rec: Recording{
		Version: RecordingVersion, Mode: r.export.mode, Start: r.start, Config: cfg, Args: r.g.args, Params: maps.Clone(r.params), Base: base,
		Clock: map[string]time.Duration{}, Agent: agentTape{DialsBack: r.g.Harness != nil && r.g.Harness.DialsBack()},
	}}
}

// opened makes the session's traffic come to the tape.
func (t *tape) opened(s adapter.Session) {
	if t == nil {
		return
	}
	t.token, t.rec.Session = s.Token, s.ID
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.r.live[s.ID] = t
}

// add changes the recording.
func (t *tape) add(f func(rec *Recording)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.rec)
}

// measure is d, noted by name; in a replay it is what was noted.
func (r *rollout) measure(name string, d time.Duration) time.Duration {
	if r.g.replayed != nil {
		return r.g.replayed.Clock[name]
	}
	if t := r.tape; t != nil {
		t.add(func(rec *Recording) { rec.Clock[name] = d })
	}
	return d
}

// created puts a new sandbox, or the error of its creation, on the tape.
func (t *tape) created(role string, sb sandbox.Sandbox, err error) (sandbox.Sandbox, error) {
	if t == nil {
		return sb, err
	}
	box := &boxTape{Role: role, Err: tapeError(err)}
	if err == nil {
		box.ID = sb.ID()
	}
	t.add(func(rec *Recording) { rec.Boxes = append(rec.Boxes, box) })
	if err != nil {
		return nil, err
	}
	return &recordedSandbox{sb, t, box}, nil
}

// bare is the sandbox as the harness gets it: what it does there is not replayed.
func bare(sb sandbox.Sandbox) sandbox.Sandbox {
	if r, ok := sb.(*recordedSandbox); ok {
		return r.Sandbox
	}
	return sb
}

func (t *tape) installed(err error) error {
	if t != nil {
		t.add(func(rec *Recording) { rec.Agent.Installs = append(rec.Agent.Installs, tapeError(err)) })
	}
	return err
}

func (t *tape) ran(report harness.Report, err error) {
	if t == nil {
		return
	}
	t.add(func(rec *Recording) {
		rec.Agent.Ran, rec.Agent.Report, rec.Agent.Err = true, report, tapeError(err)
		rec.Events = append(rec.Events, eventTape{Request: -1, End: true})
	})
}

// finish writes the recording. That it can't is a warning.
func (t *tape) finish(samples []Sample, log *slog.Logger) {
	if t == nil {
		return
	}
	t.r.mu.Lock()
	delete(t.r.live, t.rec.Session)
	t.r.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	err := func() error {
		for _, s := range samples {
			data, err := marshal(s)
			if err != nil {
				return err
			}
			t.rec.Samples = append(t.rec.Samples, data)
		}
		data, err := marshal(&t.rec) // without escapes, which would change the samples
		if err != nil {
			return err
		}
		if err := os.MkdirAll(t.r.dir, 0o755); err != nil {
			return err
		}
		name := t.rec.Start.UTC().Format("20060102T150405.000Z") + "-" + label(t.rec.Session) + "-" + randomID() + ".json"
		temp := filepath.Join(t.r.dir, "."+name+tempSuffix)
		if err := writeFile(temp, data); err != nil {
			return errors.Join(err, removed(temp))
		}
		return os.Rename(temp, filepath.Join(t.r.dir, name))
	}()
	if err != nil {
		log.Warn("recording was not written; the samples are not touched by that", "dir", t.r.dir, "err", err)
	}
}

// request puts a request on the tape and names its turn.
func (r *Recorder) request(session string, w http.ResponseWriter, req *http.Request, body []byte) adapter.Watch {
	t := r.tapeOf(session)
	if t == nil {
		return adapter.Watch{Writer: w, Over: func() {}}
	}
	hide := func(s string) string { return strings.ReplaceAll(s, t.token, tokenMark) } // a session that has requests has a token
	tape := &requestTape{At: time.Since(t.rec.Start).Seconds(), Turn: strings.ToLower(rand.Text()[:16]), Method: req.Method, URL: hide(req.URL.String()),
		Header: http.Header{}, Body: []byte(hide(string(body)))}
	for name, values := range req.Header {
		for _, v := range values {
			tape.Header.Add(name, hide(v))
		}
	}
	watched := &watchedWriter{ResponseWriter: w, t: t}
	t.add(func(rec *Recording) {
		watched.request = len(rec.Requests)
		rec.Requests = append(rec.Requests, tape)
		rec.Events = append(rec.Events, eventTape{Request: watched.request})
	})
	return adapter.Watch{Turn: tape.Turn, Writer: watched, Over: func() {
		t.add(func(rec *Recording) { tape.Gone = req.Context().Err() != nil })
		if !watched.wrote {
			watched.ends()
		}
	}}
}

// A watchedWriter puts the end of its request where the last of its answer was
// written: from then on the client may send the next.
type watchedWriter struct {
	http.ResponseWriter
	t       *tape
	request int
	wrote   bool
}

func (w *watchedWriter) Write(data []byte) (int, error) {
	w.wrote = true
	w.ends()
	return w.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ends moves the request's end to now.
func (w *watchedWriter) ends() {
	end := eventTape{Request: w.request, End: true}
	w.t.add(func(rec *Recording) {
		rec.Events = append(slices.DeleteFunc(rec.Events, func(e eventTape) bool { return e == end }), end)
	})
}

type recordedEngine struct {
	adapter.Engine
	r *Recorder
}

// Generate generates, and puts the generation on its session's tape.
func (e recordedEngine) Generate(ctx context.Context, req sglang.Request) (sglang.Response, error) {
	t := e.r.tapeOf(req.RoutingKey)
	if t == nil {
		return e.Engine.Generate(ctx, req)
	}
	tape := &engineTape{Input: slices.Clone(req.InputIDs), Sampling: maps.Clone(req.Sampling)}
	t.add(func(rec *Recording) { rec.Engine = append(rec.Engine, tape) })
	resp, err := e.Engine.Generate(ctx, req)
	t.add(func(*Recording) {
		tape.Response = resp
		var failed *sglang.Error
		if errors.As(err, &failed) {
			inner := *failed
			tape.Failed, err, inner.Err = &inner, failed.Err, nil
		}
		tape.Err = tapeError(err)
	})
	return resp, err
}

// A recordedSandbox puts what is done in it on the tape.
type recordedSandbox struct {
	sandbox.Sandbox
	t   *tape
	box *boxTape
}

func (s *recordedSandbox) note(c callTape) {
	s.t.add(func(*Recording) { s.box.Calls = append(s.box.Calls, c) })
}

// Exec runs the command.
func (s *recordedSandbox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	result, err := s.Sandbox.Exec(ctx, cmd)
	s.note(callTape{Op: "exec", What: cmd.Script, Result: result, Err: tapeError(err)})
	return result, err
}

// RunDetached runs the command in the backend's own way, or as anywhere.
func (s *recordedSandbox) RunDetached(ctx context.Context, d sandbox.Detached) (sandbox.Exit, error) {
	exit, err := sandbox.RunDetached(ctx, s.Sandbox, d)
	s.note(callTape{Op: "detached", What: d.Script, Exit: exit, Err: tapeError(err)})
	return exit, err
}

// WriteFile writes the file.
func (s *recordedSandbox) WriteFile(ctx context.Context, path, user string, content io.ReadSeeker) error {
	err := s.Sandbox.WriteFile(ctx, path, user, content)
	s.note(callTape{Op: "write", What: path, Err: tapeError(err)})
	return err
}

// ReadFile reads the whole file before it returns.
func (s *recordedSandbox) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	c := callTape{Op: "read", What: path}
	defer func() { s.note(c) }()
	f, err := s.Sandbox.ReadFile(ctx, path)
	if err != nil {
		c.Err = tapeError(err)
		return nil, err
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		c.Err = tapeError(err)
		return nil, err
	}
	c.Data = data
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Close closes it.
func (s *recordedSandbox) Close() error {
	err := s.Sandbox.Close()
	s.t.add(func(*Recording) { s.box.Close = tapeError(err) })
	return err
}

// Extend extends a sandbox that can be.
func (s *recordedSandbox) Extend(ctx context.Context, d time.Duration) error {
	if e, ok := s.Sandbox.(sandbox.Extender); ok {
		return e.Extend(ctx, d)
	}
	return nil
}
