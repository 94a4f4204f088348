package agentrl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// A wired Generator is one that New made, whose sandboxes and agents are fakes:
// what Config says goes all the way to an engine double over HTTP.
type wired struct {
	*agentrl.Generator
	engine *sglangtest.Engine
	tok    *token.Tokenizer
}

func newWired(t *testing.T, cfg agentrl.Config, front func(engine string) http.Handler) *wired {
	t.Helper()
	w := &wired{tok: must(token.Load(checkpoint))(t)}
	answer := w.tok.Encode("I look.<|im_end|>")
	w.engine = sglangtest.New(sglangtest.Options{EOS: answer[len(answer)-1:], Bodies: true,
		Policy: func(sglangtest.Call) sglangtest.Output { return sglangtest.Output{IDs: answer} }})
	server := httptest.NewServer(w.engine)
	t.Cleanup(server.Close)
	if front != nil {
		server = httptest.NewServer(front(server.URL))
		t.Cleanup(server.Close)
	}
	cfg.Agent, cfg.Command, cfg.Sandbox = "shell", "true", "local"
	w.Generator = must(agentrl.New(cfg, agentrl.Args{HFCheckpoint: checkpoint, SGLangURL: server.URL}))(t)
	t.Cleanup(func() { w.Close() })
	w.Sandboxes, w.Protocol, w.Harness = &sandboxtest.Fake{}, &swetest.Protocol{}, &harnesstest.Agent{Turns: 2}
	w.Logger = slog.New(slog.DiscardHandler)
	return w
}

// prompts are what the engine was given, as text.
func (w *wired) prompts() (texts []string) {
	for _, g := range w.engine.Log() {
		texts = append(texts, w.tok.Decode(g.Prompt))
	}
	return texts
}

const (
	noThought = "<think>\n\n</think>" // what the template opens a turn with when thinking is off
	kwargsKey = "apply_chat_template_kwargs"
)

// TestTemplateKwargs: the row's own win over its metadata's, which win over the Config's.
func TestTemplateKwargs(t *testing.T) {
	const on, off = `{"enable_thinking": true}`, `{"enable_thinking": false}`
	for _, c := range []struct {
		name, config, sample, metadata string
		off                            bool
	}{
		{"none", "", "", "", false},
		{"config", off, "", "", true},
		{"sample", "", off, "", true},
		{"metadata", "", "", off, true},
		{"sample over config", off, on, "", false},
		{"metadata over config", on, "", off, true},
		{"sample over metadata", "", on, off, false},
		{"empty sample", off, "{}", "", true},
		{"metadata beside an empty sample", "", "{}", off, true},
		{"null", off, "null", "", true},
		{"others are kept", off, `{"custom": 1}`, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWired(t, agentrl.Config{TemplateKwargs: c.config}, nil)
			base := row()
			if c.sample != "" {
				base.Extra = map[string]json.RawMessage{kwargsKey: json.RawMessage(c.sample)}
			}
			if c.metadata != "" {
				base.Metadata[kwargsKey] = json.RawMessage(c.metadata)
			}
			samples, err := w.Generate(t.Context(), base, nil)
			if err != nil || len(samples) != 1 || samples[0].Status != agentrl.Completed {
				t.Fatalf("Generate: %v, %+v", err, samples)
			}
			prompts := w.prompts()
			if len(prompts) != 2 {
				t.Fatalf("%d turns, want 2", len(prompts))
			}
			for i, p := range prompts {
				if got := strings.HasSuffix(strings.TrimSpace(p), noThought); got != c.off {
					t.Errorf("prompt %d ends in %q, want thinking off: %v", i, p[max(0, len(p)-60):], c.off)
				}
			}
		})
	}
}

func TestBadTemplateKwargs(t *testing.T) {
	for _, bad := range []string{`[]`, `{"messages": []}`, `3`} {
		if _, err := agentrl.New(agentrl.Config{TemplateKwargs: bad, Agent: "shell", Command: "true", Sandbox: "local"},
			agentrl.Args{HFCheckpoint: checkpoint, SGLangURL: "http://h:1"}); err == nil || !strings.Contains(err.Error(), "AGENTRL_CHAT_TEMPLATE_KWARGS") {
			t.Errorf("New with %s: %v, want an error that names the variable", bad, err)
		}
		w := newWired(t, agentrl.Config{}, nil)
		base := row()
		base.Extra = map[string]json.RawMessage{kwargsKey: json.RawMessage(bad)}
		samples, err := w.Generate(t.Context(), base, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f := aborted(t, samples, "exception:bad_row"); !strings.Contains(fmt.Sprint(f["message"]), kwargsKey) {
			t.Errorf("failure %v, want one that names the field", f)
		}
	}
}

// TestDPRanks: a session stays on one rank, sessions are spread over all of
// them, and a router that drops the field is told of once.
func TestDPRanks(t *testing.T) {
	const ranks, calls = 4, 40
	w := newWired(t, agentrl.Config{DPRanks: ranks}, nil)
	used := map[int]int{}
	for i := range calls {
		base := row()
		index := int64(i)
		base.Index = &index
		if _, err := w.Generate(t.Context(), base, nil); err != nil {
			t.Fatal(err)
		}
	}
	of := map[string]int{}
	for _, g := range w.engine.Log() {
		var body struct {
			Rank *int `json:"routed_dp_rank"`
		}
		if err := json.Unmarshal(g.Body, &body); err != nil || body.Rank == nil {
			t.Fatalf("body %s: %v", g.Body, err)
		}
		if before, ok := of[g.RoutingKey]; ok && before != *body.Rank {
			t.Errorf("session %s moved from rank %d to %d", g.RoutingKey, before, *body.Rank)
		}
		of[g.RoutingKey] = *body.Rank
		used[*body.Rank]++
	}
	if len(of) != calls || len(used) != ranks {
		t.Errorf("%d sessions on ranks %v, want %d on %d", len(of), used, calls, ranks)
	}
	t.Logf("figure: %d sessions of 2 turns on ranks %v, each on one", calls, used)
}

func TestDPRanksThroughARouter(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&lockedWriter{&mu, &log}, nil)))
	defer slog.SetDefault(before)
	w := newWired(t, agentrl.Config{DPRanks: 4}, func(engine string) http.Handler {
		return sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{engine}})
	})
	samples, err := w.Generate(t.Context(), row(), nil)
	if err != nil || samples[0].Status != agentrl.Completed {
		t.Fatalf("Generate: %v, %+v", err, samples)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(log.String(), "a router drops routed_dp_rank"); n != 1 {
		t.Errorf("warned %d times of 2 turns, want once; log:\n%s", n, log.String())
	}
}

// A lockedWriter is a writer for a log.
type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestSessionBudgets: the Config's budgets reach the session.
func TestSessionBudgets(t *testing.T) {
	b := newBench(agentrl.Config{MaxTurns: 3, MaxTokens: 4, MaxTime: 5 * time.Second})
	run := b.agent.OnRun
	b.agent.OnRun = func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
		o, live := b.adapter.Options("cagent-sum-0-0")
		if !live || o.MaxTurns != 3 || o.MaxTokens != 4 || o.MaxTime != 5*time.Second {
			t.Errorf("session options %+v, live %v, want the Config's budgets", o, live)
		}
		return run(ctx, sb, job)
	}
	b.generate(t)
}
