package adapter_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

func TestAnswerIsClampedToTheEnginesContext(t *testing.T) {
	// Nobody told the adapter how long the context is: the engine's refusal does.
	r := newRig(t, sglangtest.Options{Policy: say("short"), ContextLen: 500})
	ses := r.open("s", adapter.SessionOptions{})
	for i, text := range []string{"a", "b"} {
		status, body, err := r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user(text)}})
		if err != nil || status != 200 {
			t.Fatalf("turn %d: status %d, %v, %s", i, status, err, body)
		}
	}
	if n := len(r.engine.Log()); n != 3 {
		t.Errorf("%d requests reached the engine, want 3: the limit is learned once", n)
	}
	status, body, err := r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user(strings.Repeat("x", 600))}})
	if err != nil || status != 400 || !strings.Contains(string(body), "context_length_exceeded") {
		t.Errorf("overlong: status %d, %v, %s", status, err, body)
	}
	if rec := r.finish("s"); rec.Turns != 2 {
		t.Errorf("%d turns, want 2", rec.Turns)
	}
}

func TestWantedMetaReachesTheHook(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say("x"), ExpertsEnabled: true, Bodies: true}, func(o *adapter.Options) {
		o.Extra, o.Want, o.DPRanks = map[string]any{"return_routed_experts": true}, []string{"routed_experts"}, 4
	})
	ses := r.open("s", adapter.SessionOptions{})
	(&conversation{rig: r, token: ses.Token}).ask(user("x"))
	r.finish("s") // after which the hook is called no more
	var meta struct {
		Experts string `json:"routed_experts"`
		Rank    *int   `json:"dp_rank"`
	}
	if len(r.infos) != 1 || len(r.infos[0].Meta) != 1 || json.Unmarshal(r.infos[0].Meta[0], &meta) != nil || meta.Experts == "" || meta.Rank == nil {
		t.Errorf("the hook was told %+v", r.infos)
	}
	bare := newRig(t, sglangtest.Options{Policy: say("x")}, func(o *adapter.Options) {
		o.Extra, o.Want = map[string]any{"return_routed_experts": true}, []string{"routed_experts"}
	})
	ses = bare.open("s", adapter.SessionOptions{})
	if status, body, _ := bare.post(context.Background(), ses.Token, map[string]any{"messages": []any{user("x")}}); status != 400 {
		t.Errorf("an engine without the feature: status %d, %s; want a refusal", status, body)
	}
}

func TestSamplingIsTheTrainers(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say("x"), Bodies: true}, func(o *adapter.Options) { o.MaxContext = 1000 })
	for _, c := range []struct {
		name    string
		trainer map[string]any
		client  map[string]any
		want    string
	}{
		{"defaults", nil, nil, `{"max_new_tokens":FIT,"no_stop_trim":true,"skip_special_tokens":false}`},
		{"trainer", map[string]any{"temperature": json.Number("0.7"), "max_new_tokens": 50, "stop": "A", "skip_special_tokens": true}, nil,
			`{"max_new_tokens":50,"no_stop_trim":true,"skip_special_tokens":false,"stop":["A"],"temperature":0.7}`},
		{"client", map[string]any{"temperature": 1.0, "max_new_tokens": 50.0, "stop": []any{"A"}, "top_p": nil},
			map[string]any{"temperature": 0, "top_p": 0.1, "max_tokens": 20, "stop": []string{"A", "B", ""}},
			`{"max_new_tokens":20,"no_stop_trim":true,"skip_special_tokens":false,"stop":["A","B"],"temperature":1,"top_p":null}`},
		{"client wants more", map[string]any{"max_new_tokens": 50}, map[string]any{"max_tokens": 90}, `{"max_new_tokens":50,"no_stop_trim":true,"skip_special_tokens":false}`},
	} {
		ses := r.open(c.name, adapter.SessionOptions{Sampling: c.trainer})
		body := map[string]any{"messages": []any{user(c.name)}}
		for k, v := range c.client {
			body[k] = v
		}
		if status, data, err := r.post(context.Background(), ses.Token, body); err != nil || status != 200 {
			t.Fatalf("%s: %d, %v, %s", c.name, status, err, data)
		}
		log := r.engine.Log()
		var sent struct {
			Sampling json.RawMessage `json:"sampling_params"`
			IDs      []int32         `json:"input_ids"`
		}
		if err := json.Unmarshal(log[len(log)-1].Body, &sent); err != nil {
			t.Fatal(err)
		}
		fit, _ := json.Marshal(1000 - len(sent.IDs))
		if want := strings.Replace(c.want, "FIT", string(fit), 1); string(sent.Sampling) != want {
			t.Errorf("%s: sent %s, want %s", c.name, sent.Sampling, want)
		}
	}
	if n := strings.Count(r.log.String(), "are not obeyed"); n != 1 {
		t.Errorf("%d lines about the client's parameters, want 1: %s", n, r.log)
	}
}

func TestBadSamplingIsRefusedAtOpen(t *testing.T) {
	r := newRig(t, sglangtest.Options{})
	for _, c := range []struct {
		name   string
		params map[string]any
		says   string
	}{
		{"OpenAI's name", map[string]any{"max_tokens": 5}, `"max_tokens" is not SGLang's`},
		{"no tokens", map[string]any{"max_new_tokens": 0}, "at least 1"},
		{"fraction", map[string]any{"max_new_tokens": 1.5}, "whole number"},
		{"two answers", map[string]any{"n": 2}, "one answer"},
		{"stop of a wrong type", map[string]any{"stop": []any{1}}, "stop[0]"},
	} {
		if _, err := r.server.OpenSession(context.Background(), c.name, adapter.SessionOptions{Sampling: c.params}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.says)
		}
	}
}
