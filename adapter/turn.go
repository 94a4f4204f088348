package adapter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// serve answers one request of a dialect's route.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route) {
	arrived := time.Now()
	ses := s.byTokenOf(r)
	if ses == nil {
		rt.dialect.Respond(w, nil).Refuse(unknownSession())
		return
	}
	body, err := s.readBody(w, r)
	if err != nil {
		rt.dialect.Respond(w, nil).Refuse(bodyRefusal(err, s.o.MaxBody))
		return
	}
	if err := checkText(body); err != nil {
		rt.dialect.Respond(w, nil).Refuse(&chat.Refusal{Kind: chat.Stop, Message: err.Error()})
		return
	}
	watch := s.announce(ses, rt, w, r, body)
	w = watch.Writer
	defer watch.Over()
	req, err := rt.dialect.Decode(r, body)
	if err != nil {
		ses.misunderstood(servedPath(r), body, err)
		rt.dialect.Respond(w, nil).Refuse(misunderstanding(err))
		return
	}
	resp := rt.dialect.Respond(w, req)
	if rt.op == chat.OpCount {
		s.count(resp, ses, req)
		return
	}
	if err := ses.enter(); err != nil {
		resp.Refuse(unknownSession())
		return
	}
	defer ses.exit()
	f := ses.join(keyOf(servedPath(r), req.Agent, body), req, rt.dialect, watch.Turn)
	defer ses.leave(f)
	s.await(r.Context(), resp, ses, f, arrived)
}

// announce tells Options.OnRequest of a request for a turn.
func (s *Server) announce(ses *session, rt route, w http.ResponseWriter, r *http.Request, body []byte) Watch {
	if s.o.OnRequest == nil || rt.op != chat.OpTurn {
		return Watch{Writer: w, Over: func() {}}
	}
	return s.o.OnRequest(ses.id, w, r, body)
}

// readBody reads the body to its end. net/http watches for a disconnect only
// from then on: with a decoder that stops earlier, a client that leaves would
// never be noticed, and its generation would run to its end.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, fmt.Errorf("content-encoding %q: send the body as it is", enc)
	}
	if r.ContentLength > s.o.MaxBody {
		return nil, &http.MaxBytesError{Limit: s.o.MaxBody}
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(s.o.BodyTimeout))
	var body bytes.Buffer
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, s.o.MaxBody)); err != nil {
		return nil, err
	}
	// The deadline would end the watch for a disconnect, and with it the turn.
	rc.SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

// await waits for the turn, showing signs of life, and hands it to the client.
// Where that is not done whole the connection is cut: a client that is still
// there, behind a proxy or with a half closed connection, would take a response
// that ends like any other for the answer.
func (s *Server) await(ctx context.Context, resp chat.Responder, ses *session, f *flight, arrived time.Time) {
	timer := time.NewTimer(s.o.KeepAlive - time.Since(arrived))
	defer timer.Stop()
	for {
		select {
		case <-f.done:
			if f.err != nil {
				resp.Refuse(refusalOf(f.err))
				return
			}
			if ctx.Err() != nil || ses.deliver(f, resp.Answer) != nil {
				panic(http.ErrAbortHandler)
			}
			return
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		case <-timer.C:
			if resp.KeepAlive() != nil {
				panic(http.ErrAbortHandler)
			}
			timer.Reset(s.o.KeepAlive)
		}
	}
}

// generate makes one turn: everything between a decoded request and an answer.
// It sets the flight's turn, as far as it comes, its answer and its meta.
func (ses *session) generate(f *flight, d chat.Dialect) error {
	req, turn := f.req, &f.turn
	*turn = trajectory.Turn{ID: cmp.Or(f.name, newTurnID()), Prompt: req.Messages, Tools: req.Tools, Kind: req.Kind, Agent: req.Agent, Start: f.started}
	if err := ses.admit(f); err != nil {
		return err
	}
	if err := ses.settled(f.ctx); err != nil {
		return err
	}
	ses.logDifference(req)
	p, err := ses.prompt(req)
	if err != nil {
		return fmt.Errorf("build the prompt: %w", err)
	}
	turn.PromptIDs = p.ids
	sampling, err := ses.sampling(req, len(p.ids))
	if err != nil {
		return err
	}
	out, err := ses.sample(f.ctx, p, sampling)
	if err != nil {
		return err
	}
	turn.OutputIDs, turn.LogProbs, turn.Finish = out.ids, out.logProbs, out.finish.Type
	turn.Versions, turn.Cached, f.meta = out.versions, out.cached, out.meta
	said, err := ses.read(req, p, out)
	if err != nil {
		return err
	}
	said.answer.Turn = turn.ID
	turn.IllFormed = said.illFormed
	ses.noteEnding(turn.ID, out, said.thinking)
	turn.Echo = d.Echo(req, said.answer)
	f.answer = said.answer
	return nil
}

// count answers how many tokens the request's prompt has.
func (s *Server) count(resp chat.Responder, ses *session, req *chat.Request) {
	p, err := ses.prompt(req)
	if err != nil {
		resp.Refuse(refusalOf(err))
		return
	}
	resp.Count(len(p.ids))
}

// misunderstood notes a request that no dialect could decode: the client is a
// program, so that is a fault of the adapter until shown otherwise. What is no
// JSON shows it: no client library sends that, but an agent's own script may,
// and nothing was sampled for it.
func (ses *session) misunderstood(path string, body []byte, err error) {
	var refusal *chat.Refusal
	if errors.As(err, &refusal) || !json.Valid(body) {
		return
	}
	err = fmt.Errorf("%s: %w: %w", path, ErrBadRequest, err)
	ses.mu.Lock()
	ses.noteFailure(keyOf(path, "", body), nil, err)
	ses.mu.Unlock()
	if ses.once("misunderstood") {
		ses.server.o.Logger.Warn("turn failed", "session", ses.id, "err", err)
	}
}

func unknownSession() *chat.Refusal {
	return &chat.Refusal{Kind: chat.Unknown, Message: "no session has this token, or it is over"}
}

func bodyRefusal(err error, limit int64) *chat.Refusal {
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return &chat.Refusal{Kind: chat.TooLarge, Message: fmt.Sprintf("the body is larger than %d bytes", limit)}
	}
	return &chat.Refusal{Kind: chat.Stop, Message: "reading the body: " + err.Error()}
}

// refusalOf says what the client is told about err, and so what it does next.
func refusalOf(err error) *chat.Refusal {
	var refusal *chat.Refusal
	var engine *sglang.Error
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, ErrSessionSealed), errors.Is(err, ErrSessionDropped):
		return unknownSession()
	case errors.As(err, &engine) && engine.Kind == sglang.Unavailable:
		return &chat.Refusal{Kind: chat.TryAgain, Message: "the engine is not available"}
	}
	return failedSession()
}

// failedSession tells the client no more than that: what went wrong is for the
// trainer to know, not for the policy.
func failedSession() *chat.Refusal {
	return &chat.Refusal{Kind: chat.Stop, Message: "the session has failed"}
}

// misunderstanding says what was wrong with a request.
func misunderstanding(err error) *chat.Refusal {
	var refusal *chat.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return &chat.Refusal{Kind: chat.Stop, Message: err.Error()}
}
