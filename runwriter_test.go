package agentrl

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/swe"
)

func TestBigRecordsLeaveTheirBiggestPartsOut(t *testing.T) {
	rec := &RunRecord{Version: RunRecordVersion, InstanceID: "i", Messages: []MessageRecord{{Content: strings.Repeat("x", 5000), Parent: -1, Toolset: -1}},
		Segments: []trajectory.Segment{{Tokens: make([]int32, 2000), LossMask: make([]int8, 2000), LogProbs: make([]float32, 2000), Owned: 7}}}
	for limit, want := range map[int64][]string{1 << 20: nil, 9000: {"tokens"}, 4000: {"tokens", "messages"}} {
		data, err := encodeRecord(rec, limit)
		if err != nil || int64(len(data)) > limit {
			t.Fatalf("%d bytes for a limit of %d: %v", len(data), limit, err)
		}
		var back RunRecord
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(back.Omitted, want) || back.Segments[0].Owned != 7 {
			t.Errorf("limit %d: omitted %v, want %v", limit, back.Omitted, want)
		}
	}
	rec.Row = Sample{Metadata: map[string]any{"tests": strings.Repeat("x", 20_000)}}
	if data, err := encodeRecord(rec, 20_000); err != nil || !strings.Contains(string(data), `"omitted":["row"]`) {
		t.Errorf("a record with a big row: %v, want it without the row alone:\n%.300s", err, data)
	}
	rec.Row = Sample{}
	if len(rec.Segments[0].Tokens) != 2000 || rec.Messages == nil {
		t.Error("encoding changed the record")
	}
	if _, err := encodeRecord(rec, 100); err == nil {
		t.Error("a record that can't be small enough was encoded")
	}
}

func TestRecordsOfWhatJSONCannotHold(t *testing.T) {
	nan, minus := math.NaN(), float32(math.Inf(-1))
	rec := &RunRecord{Version: RunRecordVersion, InstanceID: "i", Params: SamplingParams{"temperature": nan}, Row: Sample{Metadata: map[string]any{"x": nan}},
		Eval: &swe.Evaluation{Reward: nan}, Reward: nan, Failure: &FailureRecord{Code: CodeInvariant},
		Segments: []trajectory.Segment{{Tokens: []int32{1}, LossMask: []int8{1}, LogProbs: []float32{minus}, Owned: 7}}}
	data, err := encodeRecord(rec, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	back, err := parseRunRecord(data)
	if err != nil || back.Failure.Code != CodeInvariant || back.Segments[0].Owned != 7 {
		t.Fatalf("%+v, %v", back, err)
	}
	if want := []string{"row", "params", "evaluation", "reward"}; !slices.Equal(back.Omitted, want) {
		t.Errorf("omitted %v, want %v", back.Omitted, want)
	}
	if rec.Eval == nil || rec.Omitted != nil {
		t.Error("encoding changed the record")
	}
}

func FuzzParseRunRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"messages":[{"role":"user","parent":-1,"toolset":-1},{"role":"assistant","parent":0,"toolset":-1,"turn":"a"}],"segments":[{"turns":[{"id":"a"}]}]}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"row":{"metadata":{}},"pieces":{"1":"x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := parseRunRecord(data)
		if err != nil {
			return
		}
		for i := range rec.Segments {
			if n := len(rec.Conversation(i)); n > len(rec.Messages) {
				t.Errorf("a conversation of %d among %d messages", n, len(rec.Messages))
			}
		}
	})
}

func FuzzParseRecording(f *testing.F) {
	f.Add([]byte(`{"version":1,"boxes":[{"role":"agent","calls":[{"op":"exec","what":"ls"}]}],"requests":[{"url":"/v1/messages"}],"events":[{"request":0},{"request":-1,"end":true}],"engine":[{"input_ids":[1]}]}`))
	f.Add([]byte(`{"version":1,"boxes":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := parseRecording(data)
		if err != nil {
			return
		}
		p := &player{rec: rec, used: make([]bool, len(rec.Engine))}
		for _, b := range rec.Boxes {
			_, _ = (&playedBox{box: b}).take("exec", "ls")
			_ = b.Err.err()
		}
		for _, e := range rec.Engine {
			if p.take(e.Input) == nil {
				t.Error("a recorded prompt is not found")
			}
		}
	})
}

// BenchmarkRunRecord writes the record of a rollout of 100,000 tokens.
func BenchmarkRunRecord(b *testing.B) {
	const tokens = 100_000
	seg := trajectory.Segment{Tokens: make([]int32, tokens), LossMask: make([]int8, tokens), LogProbs: make([]float32, tokens)}
	for i := range tokens {
		seg.Tokens[i], seg.LogProbs[i] = int32(i*7919%150_000), -float32(i%997)/997
	}
	w := newRunWriter(Config{RunDir: b.TempDir(), RunSample: 1, RunKeep: 10})
	for b.Loop() {
		size, err := w.save(&RunRecord{Version: RunRecordVersion, InstanceID: "i", Segments: []trajectory.Segment{seg}})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.retain(size); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(size)
	}
}
