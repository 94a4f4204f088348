package agentrl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/swe"
)

// Status of a Sample, as slime words it.
type Status string

// Statuses. Generate returns completed, truncated and aborted ones.
const (
	Pending   Status = "pending"
	Completed Status = "completed"
	Truncated Status = "truncated"
	Aborted   Status = "aborted"
	Failed    Status = "failed"
)

// A Sample is one training sample, and the dataset row that a rollout starts
// from: slime's Sample with slime's JSON names. Fields that are not named here
// are kept in Extra and written back. Numbers inside Metadata, Label and Extra
// come back with the spelling that they had: as json.Number.
type Sample struct {
	GroupIndex      *int64         // nil when unset; 0 is set
	Index           *int64         // nil when unset; 0 is set
	RolloutID       *int64         // the same in all samples of one rollout, so that a loss can count the rollout once
	Prompt          Prompt         // a string or a list of chat messages
	Tokens          []int32        // first prompt and response part
	Response        string         // the response part, decoded
	ResponseLength  int            // tokens of the response part
	Label           any            // a string, or whatever the dataset has
	Reward          *float64       // nil is null; an object of rewards is kept in Extra
	LossMask        []int8         // of the response part: 1 is trained; nil is null
	RolloutLogProbs []float32      // of the response part; nil is null
	WeightVersions  []string       // distinct, in the order they sampled
	RemoveSample    bool           // not to be trained on
	Status          Status         // "" is read and written as pending
	Metadata        map[string]any // the row's own and, in a result, what the rollout adds; the samples of a rollout share what is nested in it
	SessionID       string         // "" is null

	// Extra holds the JSON fields that are not named above.
	Extra map[string]json.RawMessage

	// Segment is the token sequence that the sample was made of, with its turns
	// and its proof; nil where there is none. It is not part of the JSON.
	Segment *trajectory.Segment

	// Err is why an aborted sample was aborted. It is not part of the JSON,
	// where metadata.failure says the same.
	Err error
}

// A Prompt is a string, or a list of chat messages as JSON.
type Prompt struct {
	Text     string          // when Messages is nil
	Messages json.RawMessage // as it was given; nil for a string. A wrong shape is reported by the row's protocol
}

// MarshalJSON writes what was read.
func (p Prompt) MarshalJSON() ([]byte, error) {
	if p.Messages != nil {
		return p.Messages, nil
	}
	return marshal(p.Text)
}

// UnmarshalJSON keeps everything but a string as it is.
func (p *Prompt) UnmarshalJSON(data []byte) error {
	*p = Prompt{}
	switch {
	case bytes.Equal(data, []byte("null")):
		return nil
	case data[0] == '"':
		return json.Unmarshal(data, &p.Text)
	}
	p.Messages = plain(data)
	return nil
}

// plain returns the JSON without the escapes that json.Marshal adds to what a
// MarshalJSON method wrote, so that raw JSON comes back as it went.
func plain(raw []byte) json.RawMessage {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		if i+6 <= len(raw) {
			if c, ok := added[string(raw[i:i+6])]; ok {
				out = append(out, c...)
				i += 5
				continue
			}
		}
		out = append(out, raw[i], raw[i+1])
		i++
	}
	return out
}

// added are the escapes that encoding/json writes for the sake of HTML and JavaScript.
var added = map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&", `\u2028`: "\u2028", `\u2029`: "\u2029"}

// A field is one JSON name of a Sample and where its value is held.
type field struct {
	name  string
	value any // a pointer
}

// fields are the named fields in slime's order; the reward and the session id
// are held by the caller, since null and an object are values of theirs.
func (s *Sample) fields(reward, session any) []field {
	return []field{
		{"group_index", &s.GroupIndex}, {"index", &s.Index}, {"rollout_id", &s.RolloutID}, {"prompt", &s.Prompt},
		{"tokens", &s.Tokens}, {"response", &s.Response}, {"response_length", &s.ResponseLength}, {"label", &s.Label},
		{"reward", reward}, {"loss_mask", &s.LossMask}, {"rollout_log_probs", &s.RolloutLogProbs},
		{"weight_versions", &s.WeightVersions}, {"remove_sample", &s.RemoveSample}, {"status", &s.Status},
		{"metadata", &s.Metadata}, {"session_id", session},
	}
}

// MarshalJSON writes slime's names, then Extra in the order of its keys.
func (s Sample) MarshalJSON() ([]byte, error) {
	if s.Tokens == nil {
		s.Tokens = []int32{}
	}
	if s.WeightVersions == nil {
		s.WeightVersions = []string{}
	}
	if s.Metadata == nil {
		s.Metadata = map[string]any{}
	}
	if s.Status == "" {
		s.Status = Pending
	}
	var reward, session any
	if s.Reward != nil {
		reward = *s.Reward
	} else if raw, ok := s.Extra["reward"]; ok {
		reward = raw
	}
	if s.SessionID != "" {
		session = s.SessionID
	}
	fields := s.fields(&reward, &session)
	for _, name := range slices.Sorted(maps.Keys(s.Extra)) {
		if name != "reward" && !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
			fields = append(fields, field{name, s.Extra[name]})
		}
	}
	return marshalFields(fields)
}

func marshalFields(fields []field) ([]byte, error) {
	out := []byte{'{'}
	for i, f := range fields {
		name, err := marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("sample: %s: %w", f.name, err)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads slime's names and keeps the rest in Extra.
func (s *Sample) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("sample: want a JSON object: %w", err)
	}
	*s = Sample{}
	var (
		reward  json.RawMessage
		session *string
	)
	for _, f := range s.fields(&reward, &session) {
		raw, ok := all[f.name]
		if !ok {
			continue
		}
		if err := unmarshal(raw, f.value); err != nil {
			return fmt.Errorf("sample: %s: %w", f.name, err)
		}
		delete(all, f.name)
	}
	if session != nil {
		s.SessionID = *session
	}
	if reward != nil && string(reward) != "null" {
		s.Reward = new(float64)
		if json.Unmarshal(reward, s.Reward) != nil {
			s.Reward = nil
			all["reward"] = reward
		}
	}
	for name, raw := range all {
		if s.Extra == nil {
			s.Extra = make(map[string]json.RawMessage, len(all))
		}
		s.Extra[name] = plain(raw)
	}
	return nil
}

// SamplingParams are SGLang's own names. A map, because absent and zero
// differ. Numbers come back from JSON with the spelling that they had.
type SamplingParams map[string]any

// UnmarshalJSON reads numbers as json.Number.
func (p *SamplingParams) UnmarshalJSON(data []byte) error {
	return unmarshal(data, (*map[string]any)(p))
}

// marshal is json.Marshal without HTML escapes.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// unmarshal is json.Unmarshal with numbers as json.Number.
func unmarshal(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}

// row is what a protocol reads of the sample.
func (s Sample) row() (swe.Row, error) {
	var row swe.Row
	if s.Prompt.Messages != nil {
		row.Prompt = s.Prompt.Messages
	} else if s.Prompt.Text != "" {
		row.Prompt, _ = marshal(s.Prompt.Text)
	}
	if s.Label != nil {
		label, err := marshal(s.Label)
		if err != nil {
			return row, fmt.Errorf("label: %w", err)
		}
		row.Label = label
	}
	row.Metadata = make(map[string]json.RawMessage, len(s.Metadata))
	for key, value := range s.Metadata {
		raw, err := marshal(value)
		if err != nil {
			return row, fmt.Errorf("metadata.%s: %w", key, err)
		}
		row.Metadata[key] = raw
	}
	return row, nil
}

// templateKwargs is the row's apply_chat_template_kwargs, a field of slime's
// Sample, or else those in its metadata; nil where neither has any.
func (s Sample) templateKwargs() (json.RawMessage, error) {
	const key = "apply_chat_template_kwargs"
	name, raw := key, s.Extra[key]
	if value, ok := s.Metadata[key]; ok && (len(raw) == 0 || string(raw) == "null" || string(raw) == "{}") {
		name = "metadata." + key
		var err error
		if raw, err = marshal(value); err != nil {
			return nil, &swe.RowError{Key: name, Got: err.Error(), Want: "values that JSON can hold"}
		}
	}
	if string(raw) == "null" {
		return nil, nil
	}
	if err := template.CheckKwargs(raw); err != nil {
		return nil, &swe.RowError{Key: name, Got: err.Error(), Want: "a JSON object of variables of the chat template"}
	}
	return raw, nil
}

// ourKeys are the metadata keys that a rollout writes. The attempt stays when
// an aborted sample is a base again; the others are cleared.
var ourKeys = []string{"abort_reason", "failure", "grading_solved", "is_solved", "applied_cleanly", "outcome",
	"agent_exit_code", "agent", "elapsed_sec", "truncated", "use_tool", "ill_formed", "segment", "tamper", "turns"}

// asBase returns the sample as a rollout starts from it: what a former attempt
// left is cleared, and that attempt's number is returned (0 for none).
func (s Sample) asBase() (base Sample, attempt int) {
	base = s
	base.Metadata = maps.Clone(s.Metadata)
	if base.Metadata == nil {
		base.Metadata = map[string]any{}
	}
	attempt = intOf(base.Metadata["attempt"])
	delete(base.Metadata, "attempt")
	if s.Status != Aborted {
		return base, attempt
	}
	for _, key := range ourKeys {
		delete(base.Metadata, key)
	}
	base.Tokens, base.Response, base.ResponseLength = nil, "", 0
	base.LossMask, base.RolloutLogProbs, base.Reward = nil, nil, nil
	base.RemoveSample, base.Status, base.Err = false, Pending, nil
	return base, attempt
}

// intOf reads a small number of JSON metadata, however it is held: other
// programs write a count as 3.0.
func intOf(v any) int {
	if n, ok := v.(json.Number); ok {
		f, _ := n.Float64()
		return int(f)
	}
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return int(n.Int())
	case n.CanUint():
		return int(n.Uint())
	case n.CanFloat():
		return int(n.Float())
	}
	return 0
}

// placeholder is the base as a sample that carries no tokens to train on.
func placeholder(base Sample) Sample {
	reward := 0.0
	s := base
	s.Segment = nil
	s.Metadata = maps.Clone(base.Metadata)
	s.Tokens, s.Response, s.ResponseLength = []int32{0, 0}, "", 1
	s.LossMask, s.RolloutLogProbs = []int8{0}, []float32{0}
	s.Reward, s.RemoveSample = &reward, true
	s.Extra = withoutReward(base.Extra)
	return s
}

// trained is the base with one segment's tokens.
func trained(base Sample, seg trajectory.Segment, reward float64, truncatedStatus bool) Sample {
	s := base
	s.Metadata = maps.Clone(base.Metadata)
	s.Tokens, s.Response, s.ResponseLength = seg.Tokens, seg.Text, len(seg.LossMask)
	s.LossMask, s.RolloutLogProbs = seg.LossMask, seg.LogProbs
	s.WeightVersions, s.Segment = nil, &seg
	for _, span := range seg.Versions {
		if !slices.Contains(s.WeightVersions, span.Version) {
			s.WeightVersions = append(s.WeightVersions, span.Version)
		}
	}
	s.Reward, s.RemoveSample, s.Status = &reward, false, Completed
	if seg.Truncated && truncatedStatus {
		s.Status = Truncated
	}
	s.Extra = withoutReward(base.Extra)
	s.Metadata["truncated"], s.Metadata["use_tool"], s.Metadata["ill_formed"] = seg.Truncated, seg.UseTool, seg.IllFormed
	return s
}

func withoutReward(extra map[string]json.RawMessage) map[string]json.RawMessage {
	extra = maps.Clone(extra)
	delete(extra, "reward")
	return extra
}

// sessionID is the sample's own id, else one made of the instance and the
// indices, else a random one; from the second attempt on with the attempt.
func sessionID(base Sample, instance string, attempt int, random func() string) string {
	id := base.SessionID
	if attempt > 2 {
		id = strings.TrimSuffix(id, fmt.Sprintf("-a%d", attempt-1))
	}
	switch {
	case id != "":
	case base.Index != nil && base.GroupIndex != nil:
		id = fmt.Sprintf("cagent-%s-%d-%d", instance, *base.Index, *base.GroupIndex)
	default:
		id = fmt.Sprintf("cagent-%s-%s", instance, random())
	}
	if attempt > 1 {
		id += fmt.Sprintf("-a%d", attempt)
	}
	return id
}

// instanceOf is the task's id, or what can be read of it in a row that the
// protocol refused.
func instanceOf(task swe.Task, row swe.Row) string {
	if task != nil {
		return task.Spec().InstanceID
	}
	var (
		id, label string
		remote    struct {
			ID string `json:"instance_id"`
		}
	)
	_ = json.Unmarshal(row.Metadata["instance_id"], &id) // what is no string stays ""
	_ = json.Unmarshal(row.Metadata["remote_env_info"], &remote)
	if json.Unmarshal(row.Label, &label) != nil || utf8.RuneCountInString(label) >= 256 {
		label = ""
	}
	return cmp.Or(id, remote.ID, label)
}
