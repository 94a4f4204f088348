package adapter

import (
	"slices"
	"strings"
	"time"
)

// A LiveSession is what a session is doing at one moment.
type LiveSession struct {
	ID       string    `json:"id"`
	Opened   time.Time `json:"opened"`
	Sealed   bool      `json:"sealed"`
	Turns    int       `json:"turns"`     // recorded, side calls not counted
	Sampled  int       `json:"sampled"`   // tokens of recorded turns
	InFlight int       `json:"in_flight"` // turns being generated or waiting for it
	Since    time.Time `json:"since"`     // when the oldest of those began; zero when there is none
	Failed   string    `json:"failed"`    // why the session can't be saved; "" when it can
	Budget   string    `json:"budget"`    // the budget that is spent: "turns", "tokens", "time" or ""
	Agent    string    `json:"agent"`     // of the oldest turn in flight: the client's name for it
	Kind     string    `json:"kind"`      // of that turn
}

// Live lists the sessions that are not dropped, ordered by id.
func (s *Server) Live() []LiveSession {
	s.mu.Lock()
	all := make([]*session, 0, len(s.byID))
	for _, ses := range s.byID {
		all = append(all, ses)
	}
	s.mu.Unlock()
	out := make([]LiveSession, len(all))
	for i, ses := range all {
		out[i] = ses.live()
	}
	slices.SortFunc(out, func(a, b LiveSession) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (ses *session) live() LiveSession {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	l := LiveSession{ID: ses.id, Opened: ses.opened, Sealed: ses.over, Turns: ses.turns, Sampled: ses.sampled,
		InFlight: len(ses.flights), Budget: ses.budget}
	if ses.fatal != nil {
		l.Failed = ses.fatal.Error()
	}
	for _, f := range ses.flights {
		if l.Since.IsZero() || f.started.Before(l.Since) {
			l.Since, l.Agent, l.Kind = f.started, f.req.Agent, string(f.req.Kind)
		}
	}
	return l
}

// Decode returns the text of ids, special tokens included, as the served model
// has it.
func (s *Server) Decode(ids []int32) string { return s.o.Tokenizer.Decode(ids) }
