package sglang

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestRequestBody(t *testing.T) {
	rank := 3
	parts, err := encode("rid", Request{
		InputIDs: []int32{0, 17, 151643}, Sampling: map[string]any{"temperature": 0.7, "stop": []string{"<x>"}},
		DPRank: &rank, Extra: map[string]any{"return_routed_experts": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Join(parts, nil)
	const want = `{"rid":"rid","input_ids":[0,17,151643],"return_logprob":true,"stream":false,"sampling_params":{"stop":["\u003cx\u003e"],"temperature":0.7},"routed_dp_rank":3,"return_routed_experts":true}`
	if string(body) != want {
		t.Errorf("body = %s\nwant %s", body, want)
	}
	if _, err := encode("rid", Request{Sampling: map[string]any{"temperature": math.NaN()}}); err == nil {
		t.Error("NaN was written")
	}
}

func TestIDsAreNotPrefixes(t *testing.T) {
	if a, b := newID(), newID(); len(a) != 32 || len(b) != 32 || a == b {
		t.Errorf("ids %q and %q: want two different ones of one length", a, b)
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte(`{"text":"","output_ids":[5,9],"meta_info":{"id":"x","finish_reason":{"type":"stop","matched":9},"prompt_tokens":1,"completion_tokens":2,"output_token_logprobs":[[-0.5,5,null],[-1e-3,9,"x"]],"output_token_logprobs_length":2}}`))
	f.Add([]byte(`[{"output_ids":[1]}]`))
	f.Add([]byte(`{"output_ids":[5],"meta_info":{"finish_reason":{"type":"length","length":1},"output_token_logprobs":[[null,5,null]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		resp, err := decodeResponse(data, Request{InputIDs: []int32{1}})
		if err != nil {
			return
		}
		if len(resp.OutputIDs) != len(resp.LogProbs) {
			t.Fatalf("%d ids, %d logprobs", len(resp.OutputIDs), len(resp.LogProbs))
		}
		if resp.Finish.Type != "abort" && len(resp.OutputIDs) == 0 {
			t.Fatal("an answer without tokens was accepted")
		}
		for _, lp := range resp.LogProbs {
			if math.IsNaN(float64(lp)) || math.IsInf(float64(lp), -1) {
				t.Fatalf("logprob %v was accepted", lp)
			}
		}
	})
}

func BenchmarkDecodeResponse(b *testing.B) {
	const n = 8000
	ids := slices.Repeat([]string{"12345"}, n)
	entries := slices.Repeat([]string{"[-0.12345678,12345,null]"}, n)
	data := []byte(`{"text":"","output_ids":[` + strings.Join(ids, ",") + `],"meta_info":{"finish_reason":{"type":"length","length":8000},"output_token_logprobs":[` + strings.Join(entries, ",") + `]}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeResponse(data, Request{}); err != nil {
			b.Fatal(err)
		}
	}
}
