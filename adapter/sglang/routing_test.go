package sglang_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

// TestRouterThatGivesUpLeavesNothing: a router that times out has closed its
// connection to the worker, which does not notice, and its own next try meets the
// first as a duplicate. When Generate returns the engine holds neither.
func TestRouterThatGivesUpLeavesNothing(t *testing.T) {
	engine, url := start(t, sglangtest.Options{Policy: fixed(sglangtest.Output{IDs: make([]int32, 8)}), PerToken: time.Hour, DisconnectPoll: time.Hour})
	router := httptest.NewServer(sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{url}, Timeout: 400 * time.Millisecond}))
	defer router.Close()
	if _, err := client(t, router.URL, sglang.Options{Attempts: 2}).Generate(context.Background(), request(8)); err == nil {
		t.Fatal("Generate succeeded")
	}
	if n := engine.Live(); n != 0 {
		t.Errorf("%d generations are live", n)
	}
}

// TestRoutingKeyOfAnyText: a session's id is the trainer's, and may be any text.
func TestRoutingKeyOfAnyText(t *testing.T) {
	engine, url := start(t, sglangtest.Options{EOS: []int32{9}, Policy: fixed(sglangtest.Output{IDs: []int32{5}})})
	for _, key := range []string{"plain id-1", "two\nlines", "naïve", "two\nlines"} {
		req := request(4)
		req.RoutingKey = key
		if _, err := client(t, url, sglang.Options{Attempts: 1}).Generate(context.Background(), req); err != nil {
			t.Errorf("routing key %q: %v", key, err)
		}
	}
	log := engine.Log()
	if len(log) != 4 || log[0].RoutingKey != "plain id-1" || log[1].RoutingKey == log[2].RoutingKey || log[1].RoutingKey != log[3].RoutingKey {
		t.Errorf("the engine was sent %+v", log)
	}
}

// TestNothingIsLostOnTheWay: a router leaves these out without a word, a server
// takes them.
func TestNothingIsLostOnTheWay(t *testing.T) {
	values := map[string]any{"custom_params": map[string]any{"x": 1}, "logit_bias": map[string]any{"7": -100}, "stop_regex": "x+", "structural_tag": "{}"}
	engine, server := start(t, sglangtest.Options{EOS: []int32{9}, Policy: fixed(sglangtest.Output{IDs: []int32{5}})})
	router := httptest.NewServer(sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{server}}))
	t.Cleanup(router.Close)
	direct, routed := client(t, server, sglang.Options{}), client(t, router.URL, sglang.Options{})
	for name, value := range values {
		req := request(8)
		req.Sampling[name] = value
		var e *sglang.Error
		if _, err := routed.Generate(t.Context(), req); !errors.As(err, &e) || e.Kind != sglang.Rejected || !strings.Contains(e.Message, name) {
			t.Errorf("%s through a router: %v, want a refusal that names it", name, err)
		}
		if _, err := direct.Generate(t.Context(), req); err != nil {
			t.Errorf("%s directly: %v", name, err)
		}
	}
	if log := engine.Log(); len(log) != len(values) {
		t.Errorf("%d generations, want the direct ones alone", len(log))
	}
}
