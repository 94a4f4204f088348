package adapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/anthropic"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/openai"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/internal/memhttp"
)

// A rig is a Server between an engine double and HTTP clients.
type rig struct {
	t      testing.TB
	engine *sglangtest.Engine
	server *adapter.Server
	client *http.Client
	url    string
	log    *syncBuffer

	engineURL  string       // of the engine, or of the router before it
	engineHTTP *http.Client // the adapter's

	mu    sync.Mutex
	infos []adapter.TurnInfo
}

// say makes a policy that speaks the texts in turn, the last one forever.
func say(texts ...string) sglangtest.Policy {
	return func(c sglangtest.Call) sglangtest.Output {
		return sglangtest.Output{IDs: byteTokenizer{}.AppendEncode(nil, texts[min(c.N, len(texts)-1)])}
	}
}

// newRig makes a rig over loopback connections.
func newRig(t testing.TB, eo sglangtest.Options, tweak ...func(*adapter.Options)) *rig {
	t.Helper()
	return rigOn(t, eo, func(_ string, h http.Handler) (string, *http.Client) {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL, server.Client()
	}, tweak)
}

// newRoutedRig makes a rig over loopback connections with a router before the
// engine.
func newRoutedRig(t testing.TB, eo sglangtest.Options, tweak ...func(*adapter.Options)) *rig {
	t.Helper()
	return rigOn(t, eo, func(name string, h http.Handler) (string, *http.Client) {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		if name == "engine" {
			router := httptest.NewServer(sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{server.URL}}))
			t.Cleanup(router.Close)
			return router.URL, router.Client()
		}
		return server.URL, server.Client()
	}, tweak)
}

// newMemRig makes a rig over in-memory connections, for use in a bubble.
func newMemRig(t testing.TB, eo sglangtest.Options, tweak ...func(*adapter.Options)) *rig {
	t.Helper()
	network := memhttp.New()
	t.Cleanup(network.Close)
	return rigOn(t, eo, func(name string, h http.Handler) (string, *http.Client) {
		return network.Handle(name, h), network.Client()
	}, tweak)
}

func rigOn(t testing.TB, eo sglangtest.Options, serve func(string, http.Handler) (string, *http.Client), tweak []func(*adapter.Options)) *rig {
	t.Helper()
	if eo.EOS == nil {
		eo.EOS, eo.Decode = []int32{imEnd}, byteTokenizer{}.Decode
	}
	r := &rig{t: t, engine: sglangtest.New(eo), log: &syncBuffer{}}
	url, client := serve("engine", r.engine)
	r.engineURL, r.engineHTTP = url, client
	engine, err := sglang.New(url, sglang.Options{Attempts: 2, FirstWait: time.Millisecond, HTTP: client})
	if err != nil {
		t.Fatal(err)
	}
	o := adapter.Options{
		Engine: engine, Tokenizer: byteTokenizer{}, Template: chatml{}, Parser: hermesish{},
		Dialects: []chat.Dialect{openai.Chat{}, openai.Responses{}, anthropic.Messages{}}, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	for _, f := range tweak {
		f(&o)
	}
	if r.server, err = adapter.New(o); err != nil {
		t.Fatal(err)
	}
	r.url, r.client = serve("adapter", r.server)
	t.Cleanup(r.server.Close)
	return r
}

// A syncBuffer is a buffer for the log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (r *rig) open(id string, o adapter.SessionOptions) adapter.Session {
	r.t.Helper()
	o.OnTurn = func(i adapter.TurnInfo) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.infos = append(r.infos, i)
	}
	ses, err := r.server.OpenSession(context.Background(), id, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return ses
}

// post sends a chat completion and returns the status and the body.
func (r *rig) post(ctx context.Context, token string, body map[string]any) (int, []byte, error) {
	return r.postTo(ctx, "/v1/chat/completions", token, body)
}

func (r *rig) postTo(ctx context.Context, path, token string, body any) (int, []byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	return res.StatusCode, out, err
}

// A conversation is a chat client that keeps its history.
type conversation struct {
	rig      *rig
	token    string
	messages []any
	tools    []any
}

// ask sends what is new and returns the assistant's message.
func (c *conversation) ask(messages ...any) map[string]any {
	c.rig.t.Helper()
	c.messages = append(c.messages, messages...)
	body := map[string]any{"model": "m", "messages": c.messages}
	if c.tools != nil {
		body["tools"] = c.tools
	}
	status, data, err := c.rig.post(context.Background(), c.token, body)
	if err != nil || status != 200 {
		c.rig.t.Fatalf("turn: status %d, error %v, body %s", status, err, data)
	}
	reply := replyOf(c.rig.t, data)
	c.messages = append(c.messages, reply)
	return reply
}

// replyOf returns the message of a chat completion.
func replyOf(t testing.TB, data []byte) map[string]any {
	t.Helper()
	var res struct {
		Choices []struct {
			Message map[string]any `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &res); err != nil || len(res.Choices) == 0 {
		t.Fatalf("no completion: %v: %s", err, data)
	}
	return res.Choices[0].Message
}

func user(text string) any { return map[string]any{"role": "user", "content": text} }

func toolResult(id, text string) any {
	return map[string]any{"role": "tool", "tool_call_id": id, "content": text}
}

func bashTool() []any {
	return []any{map[string]any{"type": "function", "function": map[string]any{
		"name": "bash", "parameters": map[string]any{"type": "object", "properties": map[string]any{"command": map[string]any{"type": "string"}}},
	}}}
}

func callIDOf(t testing.TB, message map[string]any, i int) string {
	t.Helper()
	calls, _ := message["tool_calls"].([]any)
	if len(calls) <= i {
		t.Fatalf("message has %d calls, want more than %d: %v", len(calls), i, message)
	}
	return calls[i].(map[string]any)["id"].(string)
}

// finish seals and finishes the session.
func (r *rig) finish(id string) adapter.Record {
	r.t.Helper()
	if err := r.server.SealSession(context.Background(), id); err != nil {
		r.t.Fatalf("SealSession: %v", err)
	}
	rec, err := r.server.FinishSession(context.Background(), id)
	if err != nil {
		r.t.Fatalf("FinishSession: %v", err)
	}
	return rec
}

// checkPrefixes asserts that each prompt begins with the one before it and
// what was sampled on it.
func checkPrefixes(t *testing.T, log []sglangtest.Generation) {
	t.Helper()
	for i := 1; i < len(log); i++ {
		before := slices.Concat(log[i-1].Prompt, log[i-1].Output)
		if len(log[i].Prompt) < len(before) || !slices.Equal(log[i].Prompt[:len(before)], before) {
			t.Errorf("prompt %d does not begin with prompt and output %d", i, i-1)
		}
	}
}
