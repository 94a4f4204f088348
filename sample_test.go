package agentrl

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSampleRoundTrip(t *testing.T) {
	for name, text := range map[string]string{
		"slime":          `{"group_index":0,"index":9223372036854775807,"rollout_id":null,"prompt":"fix it","tokens":[1,2],"multimodal_inputs":null,"response":"","response_length":0,"label":"x","reward":null,"loss_mask":null,"weight_versions":[],"rollout_log_probs":[-0.25],"remove_sample":false,"status":"pending","metadata":{"n":9007199254740993,"f":1e3,"u":1.0},"session_id":null,"spec_info":{"spec_verify_ct":0},"train_metadata":{"a":[1,2.50]}}`,
		"messages":       `{"index":1,"prompt":[{"role":"user","content":"a<b & c"}],"metadata":{},"status":"completed","reward":1}`,
		"reward object":  `{"index":1,"prompt":"","reward":{"acc":1,"fmt":0.50},"metadata":{}}`,
		"unknown case":   `{"index":1,"Index":2,"STATUS":"mine","prompt":"","metadata":{}}`,
		"label object":   `{"prompt":"","label":{"gold":18446744073709551616},"metadata":{}}`,
		"wrong prompt":   `{"prompt":17,"metadata":{}}`,
		"unicode and \\": "{\"prompt\":\"\\u2028 < \\\\ \\\"\",\"metadata\":{\"k\":\"é\"},\"x\\\"y\":[null]}",
	} {
		var s Sample
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Errorf("%s: Unmarshal: %v", name, err)
			continue
		}
		out, err := json.Marshal(s)
		if err != nil {
			t.Errorf("%s: Marshal: %v", name, err)
			continue
		}
		want, got := fieldsOf(t, []byte(text)), fieldsOf(t, out)
		for key, value := range want {
			if diff := cmp.Diff(value, got[key]); diff != "" {
				t.Errorf("%s: %s comes back changed (-want +got):\n%s", name, key, diff)
			}
		}
		var again Sample
		if err := json.Unmarshal(out, &again); err != nil {
			t.Errorf("%s: second Unmarshal: %v", name, err)
		}
		if diff := cmp.Diff([]any{s.Prompt, s.Extra, s.Metadata, s.Label}, []any{again.Prompt, again.Extra, again.Metadata, again.Label}); diff != "" {
			t.Errorf("%s: second reading differs:\n%s", name, diff)
		}
	}
}

// fieldsOf are the fields of an object with numbers as they are spelled.
func fieldsOf(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var all map[string]any
	if err := unmarshal(data, &all); err != nil {
		t.Fatalf("unmarshal %s: %v", data, err)
	}
	return all
}

func TestSampleWrongFieldIsNamed(t *testing.T) {
	var s Sample
	err := json.Unmarshal([]byte(`{"index":"seven"}`), &s)
	if err == nil || !contains(err.Error(), "index") {
		t.Errorf("Unmarshal of a string index = %v, want an error that names the field", err)
	}
}

func TestArgsAndParamsRoundTrip(t *testing.T) {
	args := Args{HFCheckpoint: "/m", SGLangURL: "http://h:1", ToolCallParser: "qwen25", ReasoningParser: "qwen3", MaxContextLen: math.MaxInt}
	var back Args
	roundTrip(t, args, &back)
	if back != args {
		t.Errorf("Args come back as %+v, want %+v", back, args)
	}
	params := SamplingParams{"temperature": json.Number("1.0"), "sampling_seed": json.Number("9223372036854775807"),
		"stop": []any{"a", "b"}, "custom_params": map[string]any{"big": json.Number("18446744073709551616"), "e": json.Number("1e3")}, "min_p": nil}
	var backParams SamplingParams
	roundTrip(t, params, &backParams)
	if diff := cmp.Diff(params, backParams); diff != "" {
		t.Errorf("SamplingParams come back changed:\n%s", diff)
	}
}

func roundTrip(t *testing.T, in, out any) {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
}

func TestSessionIDByAttempt(t *testing.T) {
	zero := int64(0)
	random := func() string { return "0123456789abcdef" }
	for _, c := range []struct {
		name    string
		base    Sample
		attempt int
		want    string
	}{
		{"own", Sample{SessionID: "mine"}, 1, "mine"},
		{"own, second attempt", Sample{SessionID: "mine"}, 2, "mine-a2"},
		{"own, third attempt", Sample{SessionID: "mine-a2"}, 3, "mine-a3"},
		{"indices", Sample{Index: &zero, GroupIndex: &zero}, 1, "cagent-i-0-0"},
		{"indices, second attempt", Sample{Index: &zero, GroupIndex: &zero}, 2, "cagent-i-0-0-a2"},
		{"one index", Sample{Index: &zero}, 1, "cagent-i-0123456789abcdef"},
		{"none", Sample{}, 1, "cagent-i-0123456789abcdef"},
	} {
		if got := sessionID(c.base, "i", c.attempt, random); got != c.want {
			t.Errorf("%s: sessionID = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAbortedSampleIsABaseAgain(t *testing.T) {
	s := Sample{Status: Aborted, Tokens: []int32{0, 0}, ResponseLength: 1, LossMask: []int8{0}, RolloutLogProbs: []float32{0},
		Reward: new(float64), RemoveSample: true, SessionID: "s",
		Metadata: map[string]any{"abort_reason": "x", "failure": map[string]any{}, "attempt": json.Number("3"), "mine": 1}}
	base, attempt := s.asBase()
	if attempt != 3 {
		t.Errorf("asBase: attempt %d, want 3", attempt)
	}
	want := Sample{Status: Pending, SessionID: "s", Metadata: map[string]any{"mine": 1}}
	if diff := cmp.Diff(want, base); diff != "" {
		t.Errorf("asBase (-want +got):\n%s", diff)
	}
	if s.Metadata["abort_reason"] != "x" {
		t.Error("asBase changed the sample it was given")
	}
}

func FuzzSample(f *testing.F) {
	f.Add([]byte(`{"index":1,"reward":{"a":1},"metadata":{"x":[1.0]},"Index":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Sample
		if json.Unmarshal(data, &s) != nil {
			return
		}
		out, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("Marshal of what was read: %v", err)
		}
		var again Sample
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("Unmarshal of what was written: %v\n%s", err, out)
		}
		if out2, _ := json.Marshal(again); string(out2) != string(out) {
			t.Fatalf("written differently the second time:\n%s\n%s", out, out2)
		}
	})
}

func TestAttemptIsCountedHoweverItIsHeld(t *testing.T) {
	for name, v := range map[string]any{"int": 3, "int32": int32(3), "uint": uint(3), "float64": 3.0, "number": json.Number("3"),
		"number with a point": json.Number("3.0"), "number with an exponent": json.Number("3e0")} {
		if _, attempt := (Sample{Metadata: map[string]any{"attempt": v}}).asBase(); attempt != 3 {
			t.Errorf("%s: attempt %d, want 3", name, attempt)
		}
	}
	for name, v := range map[string]any{"nil": nil, "string": "3", "list": []any{3}} {
		if _, attempt := (Sample{Metadata: map[string]any{"attempt": v}}).asBase(); attempt != 0 {
			t.Errorf("%s: attempt %d, want 0", name, attempt)
		}
	}
}
