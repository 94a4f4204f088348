package sglang_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

// fixed makes a policy that always says the same.
func fixed(o sglangtest.Output) sglangtest.Policy {
	return func(sglangtest.Call) sglangtest.Output { return o }
}

func start(t *testing.T, o sglangtest.Options) (*sglangtest.Engine, string) {
	t.Helper()
	engine := sglangtest.New(o)
	server := httptest.NewServer(engine)
	t.Cleanup(server.Close)
	return engine, server.URL
}

func client(t *testing.T, url string, o sglang.Options) *sglang.Client {
	t.Helper()
	if o.FirstWait == 0 {
		o.FirstWait = time.Millisecond
	}
	c, err := sglang.New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func request(max int) sglang.Request {
	return sglang.Request{InputIDs: []int32{1, 2, 3}, Sampling: map[string]any{"max_new_tokens": max, "no_stop_trim": true, "skip_special_tokens": false}}
}

func TestGenerate(t *testing.T) {
	engine, url := start(t, sglangtest.Options{EOS: []int32{9}, WeightVersion: "w1", Policy: fixed(sglangtest.Output{IDs: []int32{5, 6}, LogProbs: []float32{-1.5, -2.25}})})
	req := request(8)
	req.RoutingKey = "ses"
	resp, err := client(t, url, sglang.Options{}).Generate(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(resp.OutputIDs, []int32{5, 6, 9}) || !slices.Equal(resp.LogProbs, []float32{-1.5, -2.25, -0.25}) {
		t.Errorf("output %v, logprobs %v", resp.OutputIDs, resp.LogProbs)
	}
	if id, ok := resp.Finish.StopID(); !ok || id != 9 || resp.Finish.Type != "stop" {
		t.Errorf("finish %+v, want stop at id 9", resp.Finish)
	}
	if resp.WeightVersion != "w1" || resp.PromptTokens != 3 {
		t.Errorf("weight version %q, %d prompt tokens", resp.WeightVersion, resp.PromptTokens)
	}
	if log := engine.Log(); log[0].RoutingKey != "ses" || !slices.Equal(log[0].Prompt, req.InputIDs) {
		t.Errorf("the engine was sent %+v", log[0])
	}
}

func TestAnswersThatLieAreRefused(t *testing.T) {
	meta := func(edit func(map[string]any)) *sglangtest.Fault {
		return &sglangtest.Fault{Edit: func(a map[string]any) { edit(a["meta_info"].(map[string]any)) }}
	}
	for _, c := range []struct {
		name  string
		fault *sglangtest.Fault
		says  string
	}{
		{"null logprob", &sglangtest.Fault{Null: true}, "logprob is null"},
		{"NaN", &sglangtest.Fault{NaN: true}, "not a number"},
		{"no logprobs", meta(func(m map[string]any) { delete(m, "output_token_logprobs") }), "no output_token_logprobs"},
		{"too few output ids", &sglangtest.Fault{Edit: func(a map[string]any) { a["output_ids"] = []int32{5} }}, "name different tokens"},
		{"other output ids", &sglangtest.Fault{Edit: func(a map[string]any) { a["output_ids"] = []int32{5, 7, 9} }}, "name different tokens"},
		{"completion count", meta(func(m map[string]any) { m["completion_tokens"] = 2 }), "completion_tokens 2"},
		{"logprob count", meta(func(m map[string]any) { m["output_token_logprobs_length"] = 4 }), "output_token_logprobs_length 4"},
		{"truncated prompt", meta(func(m map[string]any) { m["prompt_tokens"] = 2 }), "auto-truncate"},
		{"unknown finish", meta(func(m map[string]any) { m["finish_reason"] = map[string]any{"type": "magic"} }), `finish_reason "magic"`},
		{"no finish", meta(func(m map[string]any) { m["finish_reason"] = nil }), "no finish_reason"},
		{"no meta", &sglangtest.Fault{Edit: func(a map[string]any) { delete(a, "meta_info") }}, "meta_info"},
		{"text as id", meta(func(m map[string]any) { m["output_token_logprobs"] = []any{[]any{-1, "x", nil}} }), "no token id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, url := start(t, sglangtest.Options{EOS: []int32{9}, Policy: fixed(sglangtest.Output{IDs: []int32{5, 6}, Fault: c.fault})})
			_, err := client(t, url, sglang.Options{}).Generate(context.Background(), request(8))
			var e *sglang.Error
			if !errors.As(err, &e) || e.Kind != sglang.BadOutput || !strings.Contains(e.Message, c.says) || e.Attempts != 1 {
				t.Errorf("Generate: %v, want bad output that says %q after one attempt", err, c.says)
			}
		})
	}
}

func TestRetriesUnderNewIDs(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    sglangtest.Fault
		kind     sglang.Kind
		attempts int
	}{
		{"503", sglangtest.Fault{Status: 503, Body: `{"object":"error","message":"The request queue is full."}`}, sglang.Unavailable, 4},
		{"429 without body", sglangtest.Fault{Status: 429}, sglang.Unavailable, 4},
		{"reset", sglangtest.Fault{Reset: true}, sglang.Unavailable, 4},
		{"cut answer", sglangtest.Fault{CutBody: true}, sglang.Unavailable, 4},
		{"router without worker", sglangtest.Fault{Status: 500, Body: `{"error":{"code":"call_upstream_connection_failed","message":"refused"}}`}, sglang.Unavailable, 4},
		{"500 once more", sglangtest.Fault{Status: 500, Body: "Internal Server Error"}, sglang.Failed, 2},
		{"400 never", sglangtest.Fault{Status: 400, Body: `{"error":{"message":"top_p must be in (0, 1], got 2."}}`}, sglang.Rejected, 1},
		{"401 never", sglangtest.Fault{Status: 401, Body: `{"error":"Unauthorized"}`}, sglang.Unauthorized, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine, url := start(t, sglangtest.Options{Policy: fixed(sglangtest.Output{IDs: []int32{5}, Fault: &c.fault})})
			_, err := client(t, url, sglang.Options{Attempts: 4}).Generate(context.Background(), request(8))
			var e *sglang.Error
			if !errors.As(err, &e) || e.Kind != c.kind || e.Attempts != c.attempts {
				t.Fatalf("Generate: %v, want kind %v after %d attempts", err, c.kind, c.attempts)
			}
			seen := map[string]bool{}
			for _, g := range engine.Log() {
				seen[g.RID] = true
			}
			if len(seen) != c.attempts {
				t.Errorf("%d different request ids, want %d", len(seen), c.attempts)
			}
		})
	}
}

func TestTooLongNamesTheLimit(t *testing.T) {
	_, url := start(t, sglangtest.Options{ContextLen: 100})
	for _, c := range []struct {
		name        string
		prompt, max int
	}{{"prompt", 100, 1}, {"prompt and answer", 50, 60}} {
		req := request(c.max)
		req.InputIDs = make([]int32, c.prompt)
		_, err := client(t, url, sglang.Options{}).Generate(context.Background(), req)
		var e *sglang.Error
		if !errors.As(err, &e) || e.Kind != sglang.TooLong || e.Limit != 100 {
			t.Errorf("%s: %v, want too long with limit 100", c.name, err)
		}
	}
}

func TestCancelAbortsInTheEngine(t *testing.T) {
	slow := sglangtest.Options{Policy: fixed(sglangtest.Output{IDs: make([]int32, 10000)}), PerToken: 10 * time.Millisecond, DisconnectPoll: 4 * time.Second}
	direct, url := start(t, slow)
	workers := []*sglangtest.Engine{sglangtest.New(slow), sglangtest.New(slow)}
	var urls []string
	for _, w := range workers {
		server := httptest.NewServer(w)
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	router := httptest.NewServer(sglangtest.NewRouter(sglangtest.RouterOptions{Workers: urls}))
	t.Cleanup(router.Close)
	for _, c := range []struct {
		name    string
		url     string
		engines []*sglangtest.Engine
	}{{"direct", url, []*sglangtest.Engine{direct}}, {"router", router.URL, workers}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			cause := errors.New("enough")
			done := make(chan error, 1)
			go func() {
				_, err := client(t, c.url, sglang.Options{}).Generate(ctx, request(10000))
				done <- err
			}()
			live := func() (n int) {
				for _, e := range c.engines {
					n += e.Live()
				}
				return n
			}
			for deadline := time.Now().Add(5 * time.Second); live() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nothing is generated")
				}
			}
			began := time.Now()
			cancel(cause)
			if err := <-done; !errors.Is(err, cause) {
				t.Errorf("Generate: %v, want the cause", err)
			}
			if live() != 0 {
				t.Error("the engine still holds the generation when Generate returns")
			}
			t.Logf("figure: %s slot free after %v", c.name, time.Since(began).Round(time.Millisecond))
		})
	}
}

func TestInterruptReturnsWhatWasSampled(t *testing.T) {
	engine, url := start(t, sglangtest.Options{Policy: fixed(sglangtest.Output{IDs: make([]int32, 10000)}), PerToken: 5 * time.Millisecond})
	interrupt := make(chan struct{})
	req := request(10000)
	req.Interrupt = interrupt
	go func() {
		time.Sleep(100 * time.Millisecond)
		close(interrupt)
	}()
	resp, err := client(t, url, sglang.Options{}).Generate(context.Background(), req)
	if err != nil || resp.Finish.Type != "abort" || len(resp.OutputIDs) == 0 || len(resp.OutputIDs) > 5000 {
		t.Fatalf("Generate = %d tokens, %+v, %v; want a few, aborted", len(resp.OutputIDs), resp.Finish, err)
	}
	if engine.Live() != 0 {
		t.Error("the engine still holds it")
	}
}

func TestWantedFieldsMustComeBack(t *testing.T) {
	engine, url := start(t, sglangtest.Options{EOS: []int32{9}, ExpertsEnabled: true, Policy: fixed(sglangtest.Output{IDs: []int32{5}})})
	router := httptest.NewServer(sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{url}}))
	defer router.Close()
	req := request(4)
	req.Extra, req.Want = map[string]any{"return_routed_experts": true}, []string{"routed_experts"}
	resp, err := client(t, url, sglang.Options{}).Generate(context.Background(), req)
	var meta struct {
		Experts string `json:"routed_experts"`
	}
	if err != nil || json.Unmarshal(resp.Meta, &meta) != nil || meta.Experts == "" {
		t.Errorf("direct: %v, experts %q", err, meta.Experts)
	}
	var e *sglang.Error
	if _, err := client(t, router.URL, sglang.Options{}).Generate(context.Background(), req); !errors.As(err, &e) || e.Kind != sglang.BadOutput {
		t.Errorf("through a router, which drops the field: %v, want bad output", err)
	}
	if engine.Live() != 0 {
		t.Error("generations are left")
	}
}

func TestInfo(t *testing.T) {
	_, url := start(t, sglangtest.Options{ContextLen: 777})
	router := httptest.NewServer(sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{url}}))
	defer router.Close()
	for _, c := range []struct {
		url    string
		router bool
	}{{url, false}, {router.URL, true}} {
		info, err := client(t, c.url, sglang.Options{}).Info(context.Background())
		if err != nil || info.MaxContext != 777 || info.Router != c.router {
			t.Errorf("Info = %+v, %v; want context 777, router %v", info, err, c.router)
		}
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var e *sglang.Error
	if _, err := client(t, gone.URL, sglang.Options{}).Info(context.Background()); !errors.As(err, &e) || e.Kind != sglang.Unavailable {
		t.Errorf("Info of nobody: %v, want unavailable", err)
	}
}

func TestNewRefusesBadURLs(t *testing.T) {
	for _, url := range []string{"", "10.0.0.2:30000", "ftp://x", "http://"} {
		if _, err := sglang.New(url, sglang.Options{}); err == nil {
			t.Errorf("New(%q) succeeded", url)
		}
	}
}
