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
