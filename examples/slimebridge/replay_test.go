package main

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
)

var fields = []string{"top_p_token_ids", "top_p_token_offsets"}

// kept is a meta_info in which each of n tokens kept two ids.
func kept(n int) map[string]any {
	ids, offsets := []int32{}, []int32{0}
	for i := range n {
		ids = append(ids, int32(100+i), int32(200+i))
		offsets = append(offsets, int32(len(ids)))
	}
	return map[string]any{fields[0]: ids, fields[1]: offsets}
}

func metaOf(n int) json.RawMessage { return raw(kept(n)) }

// TestTopPIsLaidAlongTheResponse: two turns with two context tokens between
// them; the second took two requests, after one that was started again.
func TestTopPIsLaidAlongTheResponse(t *testing.T) {
	seg := &trajectory.Segment{
		Tokens: make([]int32, 9), PromptLen: 3, LossMask: []int8{1, 0, 0, 1, 1, 1},
		Turns: []trajectory.SegmentTurn{{ID: "a", Prompt: 3, Output: 1, Owned: true}, {ID: "b", Prompt: 6, Output: 3, Owned: true}},
	}
	turns := map[string]metas{"a": {metaOf(1)}, "b": {metaOf(5), metaOf(1), metaOf(2)}}
	ids, offsets, err := topP(seg, turns, fields)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int32{100, 200, 100, 200, 100, 200, 101, 201}, ids); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int32{0, 2, 2, 2, 4, 6, 8}, offsets); diff != "" {
		t.Error(diff)
	}
	for name, m := range map[string]metas{"too few": {metaOf(2)}, "none": nil, "no offsets": {json.RawMessage(`{"top_p_token_ids":[1,2,3]}`)}} {
		if _, _, err := topP(seg, map[string]metas{"a": {metaOf(1)}, "b": m}, fields); err == nil || !strings.Contains(err.Error(), "turn b") {
			t.Errorf("%s: topP: %v, want an error that names the turn", name, err)
		}
	}
}

func TestExpertsCoverAllTokensButTheLast(t *testing.T) {
	k := &keeper{want: replay{Experts: true, Layers: 2, TopK: 1}}
	seg := &trajectory.Segment{Tokens: make([]int32, 4), Turns: []trajectory.SegmentTurn{{ID: "a"}, {ID: "b"}}}
	data := []byte(strings.Repeat("abcdefgh", 3))
	meta := func(data []byte, start int) map[string]metas {
		return map[string]metas{"b": {raw(map[string]any{"routed_experts": base64.StdEncoding.EncodeToString(data), "routed_experts_start_len": start})}}
	}
	if got, err := k.experts(seg, meta(data, 0)); err != nil || string(got) != string(data) {
		t.Errorf("experts: %q, %v", got, err)
	}
	for name, turns := range map[string]map[string]metas{"short": meta(data[:16], 0), "odd": meta(data[:23], 0), "late": meta(data, 1), "none": {}} {
		if got, err := k.experts(seg, turns); err == nil {
			t.Errorf("%s: experts: %d bytes, want an error", name, len(got))
		}
	}
}

// FuzzMetaInfo: what an engine may send is laid along the response, or is an error.
func FuzzMetaInfo(f *testing.F) {
	f.Add([]byte(metaOf(3)))
	f.Add([]byte(`{"top_p_token_ids":"AQAAAA==","top_p_token_offsets":[0,1],"routed_experts":"AAAAAAAAAAAAAAAA"}`))
	f.Add([]byte(`{"top_p_token_ids":[1,2],"top_p_token_offsets":[0,5,-1,2],"routed_experts_start_len":-1}`))
	seg := &trajectory.Segment{
		Tokens: make([]int32, 4), PromptLen: 1, LossMask: []int8{1, 1, 1}, Turns: []trajectory.SegmentTurn{{ID: "a", Prompt: 1, Output: 3, Owned: true}},
	}
	k := &keeper{want: replay{Experts: true, Layers: 1, TopK: 1}}
	f.Fuzz(func(t *testing.T, meta []byte) {
		turns := map[string]metas{"a": {meta}}
		if ids, offsets, err := topP(seg, turns, fields); err == nil && (len(offsets) != 4 || int(offsets[3]) != len(ids) || !slices.IsSorted(offsets)) {
			t.Errorf("topP: %d ids, offsets %v", len(ids), offsets)
		}
		if rows, err := k.experts(seg, turns); err == nil && len(rows) != 12 {
			t.Errorf("experts: %d bytes, want 12", len(rows))
		}
	})
}

// TestReplayReachesEverySample has slime ask for both, in whole rollouts.
func TestReplayReachesEverySample(t *testing.T) {
	r := newRig(t, 2, demo.EngineOptions{Experts: true, Edit: func(answer map[string]any) {
		meta := answer["meta_info"].(map[string]any)
		for name, value := range kept(meta["completion_tokens"].(int)) {
			meta[name] = value
		}
	}})
	r.args["use_rollout_routing_replay"], r.args["num_layers"], r.args["moe_router_topk"] = true, 1, 1
	r.params["top_p"], r.params["custom_params"] = 0.9, map[string]any{"return_top_p_token_ids": true}
	r.rows[1]["metadata"] = map[string]any{"instance_id": "no image"}
	samples := of(r.drive(t, "group"))
	if len(samples) != 2 || samples[0].Sample["status"] != "completed" || samples[1].Sample["status"] != "aborted" {
		t.Fatalf("group: %+v", samples)
	}
	for _, l := range samples {
		s := l.Sample
		n, offsets := number(s, "response_length"), s["rollout_top_p_token_offsets"].([]any)
		if len(offsets) != n+1 || int(offsets[n].(float64)) != size(s, "rollout_top_p_token_ids") || size(s, "rollout_routed_experts") != size(s, "tokens")-1 {
			t.Errorf("sample %v: response_length %d, %d offsets, %d ids, %d tokens, %d rows of experts", s["status"], n, len(offsets), size(s, "rollout_top_p_token_ids"), size(s, "tokens"), size(s, "rollout_routed_experts"))
		}
		t.Logf("figure: %v sample: %d offsets for %d response tokens, %d rows of experts for %d tokens", s["status"], len(offsets), n, size(s, "rollout_routed_experts"), size(s, "tokens"))
	}
}
