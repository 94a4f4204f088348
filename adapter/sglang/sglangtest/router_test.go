package sglangtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

// routed starts engines behind a router.
func routed(t *testing.T, o sglangtest.RouterOptions, engines ...http.Handler) *sglangtest.Router {
	t.Helper()
	for _, e := range engines {
		server := httptest.NewServer(e)
		t.Cleanup(server.Close)
		o.Workers = append(o.Workers, server.URL)
	}
	return sglangtest.NewRouter(o)
}

func TestRouterDropsFields(t *testing.T) {
	e := engine(sglangtest.Options{Policy: says("x"), Bodies: true})
	r := routed(t, sglangtest.RouterOptions{}, e)
	generate(t, r, `{"rid":"r","input_ids":[1],"return_routed_experts":true,"routed_dp_rank":1,"session_id":"s","sampling_params":{"temperature":1,"spaces_between_special_tokens":false,"logit_bias":{}}}`)
	var sent map[string]any
	if err := json.Unmarshal(e.Log()[0].Body, &sent); err != nil {
		t.Fatal(err)
	}
	sampling := sent["sampling_params"].(map[string]any)
	if len(sent) != 3 || sent["rid"] != "r" || len(sampling) != 1 || sampling["temperature"] != 1.0 {
		t.Errorf("the worker was sent %v", sent)
	}
}

func TestRouterPathsThatItDoesNotHave(t *testing.T) {
	r := routed(t, sglangtest.RouterOptions{}, engine(sglangtest.Options{}))
	for _, path := range []string{"/abort_request", "/pause_generation", "/v1/messages", "/x"} {
		if status, body := post(r, path, `{}`); status != 404 || body != "" {
			t.Errorf("%s: status %d, body %q; want an empty 404", path, status, body)
		}
	}
}

func TestRouterKeepsKeysTogether(t *testing.T) {
	engines := []*sglangtest.Engine{engine(sglangtest.Options{Policy: says("x")}), engine(sglangtest.Options{Policy: says("x")}), engine(sglangtest.Options{Policy: says("x")})}
	r := routed(t, sglangtest.RouterOptions{}, engines[0], engines[1], engines[2])
	const keys = 200 // ports are random: with few keys a worker may have none
	for i := range 2 * keys {
		req := httptest.NewRequest(http.MethodPost, "/generate", strings.NewReader(`{"input_ids":[1]}`))
		req.Header.Set("X-SMG-Routing-Key", fmt.Sprint("key", i%keys))
		r.ServeHTTP(httptest.NewRecorder(), req)
	}
	seen := map[string]int{}
	for _, e := range engines {
		keys := map[string]bool{}
		for _, g := range e.Log() {
			keys[g.RoutingKey] = true
		}
		for k := range keys {
			seen[k]++
		}
		if len(keys) == 0 {
			t.Error("a worker was given no key at all")
		}
	}
	for k, n := range seen {
		if n != 1 {
			t.Errorf("%s was served by %d workers", k, n)
		}
	}
}

func TestRouterRetriesUnderOneID(t *testing.T) {
	failing := 2
	e := engine(sglangtest.Options{Policy: func(c sglangtest.Call) sglangtest.Output {
		if c.N < failing {
			return sglangtest.Output{Fault: &sglangtest.Fault{Status: 503, Body: "{}"}}
		}
		return sglangtest.Output{IDs: idsOf("ok")}
	}})
	r := routed(t, sglangtest.RouterOptions{}, e)
	if a := generate(t, r, `{"rid":"same","input_ids":[1]}`); a.Text != "ok" {
		t.Errorf("text %q", a.Text)
	}
	for _, g := range e.Log() {
		if g.RID != "same" {
			t.Errorf("a try had the id %q", g.RID)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	dead := sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{gone.URL}})
	w := httptest.NewRecorder()
	dead.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/generate", strings.NewReader(`{"input_ids":[1]}`)))
	if w.Code != 500 || w.Header().Get("X-SMG-Error-Code") != "call_upstream_connection_failed" {
		t.Errorf("no worker reached: status %d, code %q", w.Code, w.Header().Get("X-SMG-Error-Code"))
	}
}

func TestRouterBreakerCounts400(t *testing.T) {
	r := routed(t, sglangtest.RouterOptions{Breaker: true}, engine(sglangtest.Options{Policy: says("x")}))
	for range 10 {
		post(r, "/generate", `{"input_ids":[]}`)
	}
	if status, body := post(r, "/generate", `{"input_ids":[1]}`); status != 503 || !strings.Contains(body, "no_available_workers") {
		t.Errorf("after ten refusals: status %d, body %s; want the open breaker's 503", status, body)
	}
}

func TestRouterLimit(t *testing.T) {
	r := routed(t, sglangtest.RouterOptions{RateLimit: 1}, engine(sglangtest.Options{Policy: says("x")}))
	if status, body := post(r, "/generate", `{"input_ids":[1]}`); status != 429 || body != "" {
		t.Errorf("status %d, body %q; want an empty 429", status, body)
	}
	generate(t, r, `{"input_ids":[1]}`)
}
