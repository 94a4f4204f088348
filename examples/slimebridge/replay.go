package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A replay is what the trainer replays of the engine's sampling. slime wants it
// on every sample as soon as it wants it at all, on those without tokens too.
type replay struct {
	TopP    bool `json:"top_p"`   // the ids that top-p kept, for each token
	Experts bool `json:"experts"` // the experts that each token was routed to
	Layers  int  `json:"layers"`  // of a row of experts
	TopK    int  `json:"top_k"`   // experts of a token and layer
	Spec    bool `json:"spec"`    // the counts of speculative decoding
}

func (r replay) check() error {
	const most = 1024 // of either: no model has as many, and a wrong number is not to take all memory
	if r.Experts && (r.Layers <= 0 || r.Layers > most || r.TopK <= 0 || r.TopK > most) {
		return fmt.Errorf("replay.experts with %d layers and top_k %d: want both, from 1 to %d (slime's num_layers and moe_router_topk)", r.Layers, r.TopK, most)
	}
	return nil
}

// engine is what /generate is asked for. What top-p keeps is asked for by the
// sampling parameters themselves (custom_params).
func (r replay) engine(topP []string) (fields map[string]any, want []string) {
	if r.TopP {
		want = append(want, topP...)
	}
	if r.Experts {
		fields, want = map[string]any{"return_routed_experts": true}, append(want, "routed_experts")
	}
	if r.Spec {
		want = append(want, "completion_tokens") // always there; an answer without the other counts is no failure
	}
	return fields, want
}

// placeholder gives a sample without trained tokens what is wanted on it.
func (r replay) placeholder(s *agentrl.Sample) {
	if r.TopP {
		s.Extra["rollout_top_p_token_ids"] = raw([]int32{})
		s.Extra["rollout_top_p_token_offsets"] = raw(make([]int32, s.ResponseLength+1))
	}
	if r.Experts {
		s.Extra["rollout_routed_experts"] = raw(make([]byte, 4*r.Layers*r.TopK*max(len(s.Tokens)-1, 0)))
	}
}

// metas are the engine's meta_info of one turn, one for each request.
type metas []json.RawMessage

// A keeper keeps what the engine said about the turns of live rollouts, and
// lays it along their samples when they are over. Experts are kept for whole
// prompts, as the engine gives them: long sessions of a large model cost memory.
type keeper struct {
	want   replay
	fields []string

	mu    sync.Mutex
	turns map[string]map[string]metas // session → turn
}

func (k *keeper) turn(t agentrl.TurnInfo) {
	if t.Err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.turns[t.Session] == nil {
		k.turns[t.Session] = map[string]metas{}
	}
	k.turns[t.Session][t.ID] = t.Meta
}

func (k *keeper) done(info agentrl.RolloutInfo) {
	k.mu.Lock()
	turns := k.turns[info.Session]
	delete(k.turns, info.Session)
	k.mu.Unlock()
	for i := range info.Samples {
		s := &info.Samples[i]
		if s.Segment == nil {
			continue
		}
		if err := k.lay(s, turns); err != nil {
			slog.Warn("sample withdrawn: it lacks what the trainer replays", "session", info.Session, "err", err)
			withdraw(s, err)
		}
	}
}

// withdraw makes an aborted sample of one that lacks what its trainer needs.
func withdraw(s *agentrl.Sample, err error) {
	reward := 0.0
	s.Tokens, s.Response, s.ResponseLength, s.LossMask, s.RolloutLogProbs = []int32{0, 0}, "", 1, []int8{0}, []float32{0}
	s.Reward, s.RemoveSample, s.Status, s.Segment, s.Err = &reward, true, agentrl.Aborted, nil, err
	s.Metadata["abort_reason"] = "exception:" + agentrl.CodeEngineBadOutput
	s.Metadata["failure"] = map[string]any{"stage": "finish", "class": string(agentrl.ClassEngine), "code": agentrl.CodeEngineBadOutput, "retryable": true, "message": err.Error()}
}

func (k *keeper) lay(s *agentrl.Sample, turns map[string]metas) error {
	extra := map[string]json.RawMessage{}
	for name, value := range s.Extra {
		extra[name] = value
	}
	if k.want.TopP {
		ids, offsets, err := topP(s.Segment, turns, k.fields)
		if err != nil {
			return err
		}
		extra["rollout_top_p_token_ids"], extra["rollout_top_p_token_offsets"] = raw(ids), raw(offsets)
	}
	if k.want.Experts {
		rows, err := k.experts(s.Segment, turns)
		if err != nil {
			return err
		}
		extra["rollout_routed_experts"] = raw(rows)
	}
	if k.want.Spec {
		extra["spec_info"] = raw(specOf(s.Segment, turns))
	}
	s.Extra = extra
	return nil
}

// topP lays the kept ids along the response part: token i has
// ids[offsets[i]:offsets[i+1]], which is empty where nothing is trained.
func topP(seg *trajectory.Segment, turns map[string]metas, fields []string) (ids, offsets []int32, err error) {
	ids, offsets = []int32{}, make([]int32, 1, len(seg.LossMask)+1)
	pad := func(to int) {
		for len(offsets) <= to {
			offsets = append(offsets, int32(len(ids)))
		}
	}
	for _, t := range seg.Turns {
		at := t.Prompt - seg.PromptLen
		if !t.Owned || !trained(seg.LossMask, at, t.Output) {
			continue
		}
		pad(at)
		kept, ends, err := keptOf(turns[t.ID], t.Output, fields)
		if err != nil {
			return nil, nil, fmt.Errorf("turn %s: %w", t.ID, err)
		}
		for _, end := range ends {
			offsets = append(offsets, int32(len(ids))+end)
		}
		ids = append(ids, kept...)
	}
	pad(len(seg.LossMask))
	for i, m := range seg.LossMask {
		if m == 1 && offsets[i] == offsets[i+1] {
			return nil, nil, fmt.Errorf("response token %d is trained, and what top-p kept there is not known", i)
		}
	}
	return ids, offsets, nil
}

// trained reports whether the n tokens at the place are all trained.
func trained(mask []int8, at, n int) bool {
	if at < 0 || at+n > len(mask) {
		return false
	}
	for _, m := range mask[at : at+n] {
		if m != 1 {
			return false
		}
	}
	return true
}

// keptOf returns what was kept at the n tokens of a turn, and for each where it
// ends. The last requests that make up n tokens count: what was sampled before
// a restart is not in the turn.
func keptOf(m metas, n int, fields []string) (ids, ends []int32, err error) {
	for i := len(m) - 1; i >= 0 && len(ends) < n; i-- {
		var fieldsOf map[string]json.RawMessage
		if err := json.Unmarshal(m[i], &fieldsOf); err != nil {
			return nil, nil, err
		}
		kept, err := int32s(fieldsOf[fields[0]])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", fields[0], err)
		}
		offs, err := int32s(fieldsOf[fields[1]])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", fields[1], err)
		}
		if len(offs) == 0 || offs[0] != 0 || int(offs[len(offs)-1]) != len(kept) || !slices.IsSorted(offs) {
			return nil, nil, fmt.Errorf("%d offsets do not span %d kept ids", len(offs), len(kept))
		}
		for j := range ends {
			ends[j] += int32(len(kept))
		}
		ids, ends = append(kept, ids...), append(offs[1:], ends...)
	}
	if len(ends) != n {
		return nil, nil, fmt.Errorf("kept ids for %d tokens, %d were sampled", len(ends), n)
	}
	return ids, ends, nil
}

// experts are those of the segment's tokens but the last, which was never an
// input: int32, little-endian, [tokens-1, layers, top_k]. The last turn's
// answer has them for its whole prompt.
func (k *keeper) experts(seg *trajectory.Segment, turns map[string]metas) ([]byte, error) {
	last := seg.Turns[len(seg.Turns)-1]
	m := turns[last.ID]
	if len(m) == 0 {
		return nil, fmt.Errorf("turn %s: no meta_info", last.ID)
	}
	var meta struct {
		Experts string `json:"routed_experts"`
		Start   int    `json:"routed_experts_start_len"`
	}
	if err := json.Unmarshal(m[len(m)-1], &meta); err != nil {
		return nil, fmt.Errorf("turn %s: meta_info: %w", last.ID, err)
	}
	data, err := base64.StdEncoding.DecodeString(meta.Experts)
	if err != nil {
		return nil, fmt.Errorf("turn %s: routed_experts: %w", last.ID, err)
	}
	row := 4 * k.want.Layers * k.want.TopK
	want := row * (len(seg.Tokens) - 1)
	switch {
	case meta.Start != 0:
		return nil, fmt.Errorf("turn %s: routed_experts begin at token %d, want 0", last.ID, meta.Start)
	case len(data)%row != 0 || len(data) < want:
		return nil, fmt.Errorf("turn %s: %d bytes of routed experts, want %d for %d tokens with %d layers and top_k %d", last.ID, len(data), want, len(seg.Tokens), k.want.Layers, k.want.TopK)
	}
	return data[:want], nil
}

// int32s reads a list of numbers, or the base64 of little-endian int32.
func int32s(v json.RawMessage) ([]int32, error) {
	if len(v) == 0 {
		return nil, errors.New("missing")
	}
	if !strings.HasPrefix(string(v), `"`) {
		var list []int32
		err := json.Unmarshal(v, &list)
		return list, err
	}
	var data []byte // a string in JSON: base64
	if err := json.Unmarshal(v, &data); err != nil {
		return nil, err
	}
	if len(data)%4 != 0 {
		return nil, fmt.Errorf("%d bytes are no int32s", len(data))
	}
	list := make([]int32, len(data)/4)
	for i := range list {
		list[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return list, nil
}
