package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
)

// TestSpecCountsOwnTurns: newer names and older ones, several requests a turn,
// and what is not a count.
func TestSpecCountsOwnTurns(t *testing.T) {
	seg := &trajectory.Segment{Turns: []trajectory.SegmentTurn{{ID: "a", Owned: true}, {ID: "b"}, {ID: "c", Owned: true}, {ID: "d", Owned: true}}}
	older := json.RawMessage(`{"spec_accept_token_num":5,"spec_draft_token_num":9,"spec_verify_ct":3,"completion_tokens":8}`)
	newer := json.RawMessage(`{"spec_num_correct_drafts":1,"spec_num_proposed_drafts":4,"spec_accept_token_num":100,"spec_verify_ct":1,"completion_tokens":2}`)
	turns := map[string]metas{"a": {older, newer}, "b": {older}, "c": {json.RawMessage(`{"completion_tokens":3}`), json.RawMessage(`{"spec_verify_ct":"x"}`)}}
	if diff := cmp.Diff(specInfo{6, 13, 4, 13}, specOf(seg, turns)); diff != "" {
		t.Error(diff)
	}
}

// TestInfosReachEverySample: a trained sample has the counts of its own turns,
// an aborted one none, and what a former attempt left is on neither.
func TestInfosReachEverySample(t *testing.T) {
	r := newRig(t, 2, demo.EngineOptions{Edit: func(answer map[string]any) {
		meta := answer["meta_info"].(map[string]any)
		meta["spec_num_correct_drafts"], meta["spec_num_proposed_drafts"], meta["spec_verify_ct"] = 2, 4, 1
	}})
	r.args["sglang_speculative_algorithm"] = "EAGLE"
	r.rows[1]["metadata"] = map[string]any{"instance_id": "no image"}
	samples := of(r.drive(t, "group"))
	if len(samples) != 2 || samples[0].Sample["status"] != "completed" || samples[1].Sample["status"] != "aborted" {
		t.Fatalf("group: %+v", samples)
	}
	calls, sampled := 0.0, 0
	for _, g := range r.engine.Log() {
		calls++
		sampled += len(g.Output)
	}
	spec, cache := samples[0].Sample["spec_info"].(map[string]any), samples[0].Sample["prefix_cache_info"].(map[string]any)
	want := map[string]any{"spec_accept_token_num": 2 * calls, "spec_draft_token_num": 4 * calls, "spec_verify_ct": calls, "completion_token_num": float64(sampled)}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec_info after %v requests (-want +got):\n%s", calls, diff)
	}
	if cache["total_prompt_tokens"].(float64) <= 77 || cache["cached_tokens"].(float64) <= 7 {
		t.Errorf("prefix_cache_info = %v", cache)
	}
	for _, name := range []string{"spec_info", "prefix_cache_info"} {
		for key, value := range samples[1].Sample[name].(map[string]any) {
			if value != 0.0 {
				t.Errorf("an aborted sample has %s.%s = %v, want 0", name, key, value)
			}
		}
	}
	t.Logf("figure: spec_info %v, prefix_cache_info %v; on an aborted sample all 0, a former attempt's cleared", spec, cache)
}
