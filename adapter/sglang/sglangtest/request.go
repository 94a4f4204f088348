package sglangtest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
)

// request is the body of /generate as far as the double knows it. Unknown
// top-level keys are ignored, as by the server.
type request struct {
	RID           string                     `json:"rid"`
	Text          *string                    `json:"text"`
	InputIDs      ids                        `json:"input_ids"`
	RawSampling   map[string]json.RawMessage `json:"sampling_params"`
	ReturnLogProb bool                       `json:"return_logprob"`
	TextInTuples  bool                       `json:"return_text_in_logprobs"`
	Stream        bool                       `json:"stream"`
	Experts       bool                       `json:"return_routed_experts"`
	PromptIDs     bool                       `json:"return_prompt_token_ids"`
	DPRank        *int                       `json:"routed_dp_rank"`

	sampling map[string]any
	max      int // max_new_tokens, clamped
	stop     []string
	stopIDs  []int32
	ignore   bool
	noTrim   bool
}

// ids are token ids. They are read by hand: decoding a hundred thousand of them
// would take longer than all that a test measures.
type ids []int32

// UnmarshalJSON reads whole numbers as they are usually written, and anything
// else as encoding/json does.
func (d *ids) UnmarshalJSON(b []byte) error {
	list := make([]int32, 0, len(b)/6)
	n, digits := int32(0), 0
	for i, c := range b {
		switch {
		case i == 0 && c == '[':
		case i > 0 && c >= '0' && c <= '9' && digits < 9:
			n, digits = 10*n+int32(c-'0'), digits+1
		case i > 0 && (c == ',' || c == ']') && digits > 0:
			list = append(list, n)
			n, digits = 0, 0
		default:
			return json.Unmarshal(b, (*[]int32)(d))
		}
	}
	*d = list
	return nil
}

// samplingKeys are the names of SamplingParams; any other breaks the server.
var samplingKeys = []string{
	"max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k", "min_p",
	"frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens", "n", "json_schema",
	"regex", "ebnf", "structural_tag", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens",
	"no_stop_trim", "custom_params", "stream_interval", "logit_bias", "sampling_seed",
}

// A refusal is an answer that is no generation.
type refusal struct {
	status int
	body   any // a string is sent as text/plain
}

func invalid(format string, args ...any) *refusal {
	return &refusal{400, map[string]any{"error": map[string]any{"message": fmt.Sprintf(format, args...)}}}
}

func objectError(status int, kind, message string) *refusal {
	return &refusal{status, map[string]any{"object": "error", "message": message, "type": kind, "param": nil, "code": status}}
}

func (r *refusal) write(w http.ResponseWriter) {
	if text, ok := r.body.(string); ok {
		http.Error(w, text, r.status)
		return
	}
	writeJSON(w, r.status, r.body)
}

// parseRequest validates as the server does.
func (e *Engine) parseRequest(body []byte) (*request, *refusal) {
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, objectError(400, "Bad Request", err.Error())
	}
	if req.Text == nil && req.InputIDs == nil {
		return nil, invalid("Either text, input_ids or input_embeds should be provided.")
	}
	if len(req.InputIDs) == 0 {
		return nil, invalid("input_ids cannot be empty.")
	}
	if refused := req.parseSampling(); refused != nil {
		return nil, refused
	}
	n, limit := len(req.InputIDs), e.o.ContextLen
	if n >= limit {
		return nil, invalid("The input (%d tokens) is longer than the model's context length (%d tokens).", n, limit)
	}
	if req.max > 0 && n+req.max > limit {
		return nil, invalid("Requested token count exceeds the model's maximum context length of %d tokens. "+
			"You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion.",
			limit, n+req.max, n, req.max)
	}
	if n >= limit-6 {
		return nil, invalid("Input length (%d tokens) exceeds the maximum allowed length (%d tokens). "+
			"Use a shorter input or enable --allow-auto-truncate.", n, limit-6)
	}
	if req.max < 0 || req.max > limit-n-1 {
		req.max = limit - n - 1
	}
	return &req, nil
}

// parseSampling reads and checks the sampling parameters.
func (r *request) parseSampling() *refusal {
	broken := &refusal{500, "Internal Server Error"}
	r.sampling = map[string]any{}
	r.max = 128
	for key, raw := range r.RawSampling {
		if !slices.Contains(samplingKeys, key) {
			return broken // msgspec's TypeError is no ValueError
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return broken
		}
		r.sampling[key] = v
		if v == nil {
			if key == "max_new_tokens" {
				r.max = -1
			}
			continue
		}
		if !r.set(key, raw) {
			return broken
		}
	}
	return r.checkRanges()
}

// set stores one parameter; false when its JSON type is wrong.
func (r *request) set(key string, raw json.RawMessage) bool {
	var err error
	switch key {
	case "max_new_tokens":
		err = json.Unmarshal(raw, &r.max)
	case "stop":
		var one string
		if json.Unmarshal(raw, &one) == nil {
			r.stop = []string{one}
		} else {
			err = json.Unmarshal(raw, &r.stop)
		}
	case "stop_token_ids":
		err = json.Unmarshal(raw, &r.stopIDs)
	case "ignore_eos":
		err = json.Unmarshal(raw, &r.ignore)
	case "no_stop_trim":
		err = json.Unmarshal(raw, &r.noTrim)
	case "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens", "n":
		var f float64
		err = json.Unmarshal(raw, &f)
	}
	return err == nil
}

// number returns a numeric parameter, or its default.
func (r *request) number(key string, def float64) float64 {
	if f, ok := r.sampling[key].(float64); ok {
		return f
	}
	return def
}

func (r *request) checkRanges() *refusal {
	in := func(key string, def, low, high float64) bool {
		v := r.number(key, def)
		return v >= low && v <= high && !math.IsInf(v, 0)
	}
	topK := r.number("top_k", -1)
	switch {
	case !in("temperature", 1, 0, math.MaxFloat64):
		return invalid("temperature must be a non-negative finite number, got %v.", r.sampling["temperature"])
	case !in("top_p", 1, math.SmallestNonzeroFloat64, 1):
		return invalid("top_p must be in (0, 1], got %v.", r.sampling["top_p"])
	case !in("min_p", 0, 0, 1):
		return invalid("min_p must be in [0, 1], got %v.", r.sampling["min_p"])
	case topK == 0 || topK < -1:
		return invalid("top_k must be -1 (disable) or at least 1, got %v.", topK)
	case !in("frequency_penalty", 0, -2, 2):
		return invalid("frequency_penalty must be in [-2, 2], got %v.", r.sampling["frequency_penalty"])
	case !in("presence_penalty", 0, -2, 2):
		return invalid("presence_penalty must be in [-2, 2], got %v.", r.sampling["presence_penalty"])
	case !in("repetition_penalty", 1, math.SmallestNonzeroFloat64, 2):
		return invalid("repetition_penalty must be in (0, 2], got %v.", r.sampling["repetition_penalty"])
	case r.max < -1 || r.sampling["max_new_tokens"] != nil && r.max < 0:
		return invalid("max_new_tokens must be at least 0, got %d.", r.max)
	case r.max >= 0 && r.number("min_new_tokens", 0) > float64(r.max):
		return invalid("min_new_tokens must be in [0, max_new_tokens(%d)], got %v.", r.max, r.sampling["min_new_tokens"])
	}
	return nil
}
