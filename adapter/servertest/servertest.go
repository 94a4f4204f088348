// Package servertest has a whole adapter for tests of its clients: a Server
// with every dialect over HTTP, a real tokenizer, template and parser, and an
// engine double that plays the model.
package servertest

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/anthropic"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/openai"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
)

// Cut at the end of a text makes the engine end it as if max_new_tokens were spent.
const Cut = "⏎CUT"

// Options of New.
type Options struct {
	Checkpoint string                     // directory with a tokenizer and a chat template in the manner of Qwen3
	Policy     func(prompt string) string // what the model says; called concurrently
	MaxContext int                        // tokens; 0 for no limit
	MaxTurns   int                        // of the session; 0 for no limit
	Bind       string                     // host to listen at; defaults to 127.0.0.1
}

// A Rig is an adapter with one open session.
type Rig struct {
	Port    string
	Session adapter.Session
	Server  *adapter.Server
	Engine  *sglangtest.Engine
	http    *httptest.Server
}

// New starts an adapter; it ends with the test.
func New(t testing.TB, o Options) *Rig {
	t.Helper()
	tok, err := token.Load(o.Checkpoint)
	must(t, err)
	tmpl, err := template.Load(o.Checkpoint)
	must(t, err)
	parser, err := parse.New("qwen25", "qwen3", parse.Strict)
	must(t, err)
	end, _ := tok.ID("<|im_end|>")
	engine := sglangtest.New(sglangtest.Options{EOS: []int32{end}, Decode: tok.Decode, Policy: func(c sglangtest.Call) sglangtest.Output {
		text, cut := strings.CutSuffix(o.Policy(tok.Decode(c.Prompt)), Cut)
		return sglangtest.Output{IDs: tok.AppendEncode(nil, text), Cut: cut}
	}})
	engineHTTP := httptest.NewServer(engine)
	t.Cleanup(engineHTTP.Close)
	client, err := sglang.New(engineHTTP.URL, sglang.Options{})
	must(t, err)
	server, err := adapter.New(adapter.Options{
		Engine: client, Tokenizer: tok, Template: tmpl, Parser: parser, MaxContext: o.MaxContext,
		Dialects: []chat.Dialect{anthropic.Messages{}, openai.Chat{}, openai.Responses{}}, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(server.Close)
	r := &Rig{Server: server, Engine: engine, http: listen(t, o.Bind, server)}
	t.Cleanup(r.http.Close)
	_, r.Port, err = net.SplitHostPort(r.http.Listener.Addr().String())
	must(t, err)
	r.Session, err = server.OpenSession(t.Context(), "session", adapter.SessionOptions{MaxContext: o.MaxContext, MaxTurns: o.MaxTurns})
	must(t, err)
	return r
}

// Vanish closes the adapter's listener and every connection to it.
func (r *Rig) Vanish() {
	r.http.Listener.Close()
	r.http.CloseClientConnections()
}

// Record seals and finishes the session.
func (r *Rig) Record(t testing.TB) adapter.Record {
	t.Helper()
	must(t, r.Server.SealSession(t.Context(), r.Session.ID))
	rec, err := r.Server.FinishSession(t.Context(), r.Session.ID)
	must(t, err)
	return rec
}

func listen(t testing.TB, host string, h http.Handler) *httptest.Server {
	t.Helper()
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	must(t, err)
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
