package sglang_test

import (
	"context"
	"net/http/httptest"
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
	router := httptest.NewServer(sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{url}, Timeout: 50 * time.Millisecond}))
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
