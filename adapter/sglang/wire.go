package sglang

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// encode makes the body of /generate. The ids are written by hand, and those
// whose text is known not at all: through encoding/json a hundred thousand of
// them cost many times as much.
func encode(rid string, req Request) (body, error) {
	head := []byte(`{"rid":"` + rid + `","input_ids":[`)
	var known []byte
	rest := req.InputIDs
	if req.Text != nil && hasPrefix(rest, req.Known) {
		known, rest = req.Text.of(req.Known), rest[len(req.Known):]
	}
	ids := appendIDs(nil, rest)
	if len(known) > 0 && len(ids) > 0 {
		known, ids = known[:len(known):len(known)], append([]byte{','}, ids...)
	}
	tail, err := appendFields([]byte(`],"return_logprob":true,"stream":false,"sampling_params":`), req)
	if err != nil {
		return nil, err
	}
	return body{head, known, ids, tail}, nil
}

// appendFields appends the value of sampling_params and the fields after it.
func appendFields(dst []byte, req Request) ([]byte, error) {
	sampling := req.Sampling
	if sampling == nil {
		sampling = map[string]any{}
	}
	raw, err := json.Marshal(sampling)
	if err != nil {
		return nil, fmt.Errorf("sampling params: %w", err)
	}
	dst = append(dst, raw...)
	if req.DPRank != nil {
		dst = fmt.Appendf(dst, `,"routed_dp_rank":%d`, *req.DPRank)
	}
	for _, key := range sortedKeys(req.Extra) {
		value, err := json.Marshal(req.Extra[key])
		if err != nil {
			return nil, fmt.Errorf("request field %s: %w", key, err)
		}
		dst = append(dst, ',')
		dst = strconv.AppendQuote(dst, key)
		dst = append(append(dst, ':'), value...)
	}
	return append(dst, '}'), nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// meta is what is read of meta_info.
type meta struct {
	Finish *struct {
		Type    string          `json:"type"`
		Matched json.RawMessage `json:"matched"`
		Message string          `json:"message"`
	} `json:"finish_reason"`
	WeightVersion    any             `json:"weight_version"`
	PromptTokens     int             `json:"prompt_tokens"`
	CachedTokens     int             `json:"cached_tokens"`
	DPRank           *int            `json:"dp_rank"`
	CompletionTokens *int            `json:"completion_tokens"`
	LogProbs         json.RawMessage `json:"output_token_logprobs"`
	LogProbsLength   *int            `json:"output_token_logprobs_length"`
}

// decodeResponse reads and checks a whole answer. Every doubt is an error: an
// answer that is believed is trained on.
func decodeResponse(data []byte, req Request) (Response, error) {
	var wire struct {
		OutputIDs []int32         `json:"output_ids"`
		Meta      json.RawMessage `json:"meta_info"`
	}
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		return Response{}, bad("a list of answers where one was asked for: sampling parameter n must be 1")
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return Response{}, bad("not an answer of /generate: %v", err)
	}
	var m meta
	if err := json.Unmarshal(wire.Meta, &m); err != nil {
		return Response{}, bad("meta_info: %v", err)
	}
	if m.Finish == nil {
		return Response{}, bad("no finish_reason")
	}
	resp := Response{
		Finish:       Finish{Type: m.Finish.Type, Matched: m.Finish.Matched, Message: m.Finish.Message},
		PromptTokens: m.PromptTokens,
		CachedTokens: m.CachedTokens,
		DPRank:       m.DPRank,
		Meta:         wire.Meta,
	}
	if m.WeightVersion != nil {
		resp.WeightVersion = fmt.Sprint(m.WeightVersion)
	}
	var err error
	if resp.OutputIDs, resp.LogProbs, err = decodeLogProbs(m.LogProbs); err != nil {
		return Response{}, err
	}
	return resp, check(resp, wire.OutputIDs, m, req)
}

// check holds the answer against itself and against the request.
func check(resp Response, outputIDs []int32, m meta, req Request) error {
	n := len(resp.OutputIDs)
	switch resp.Finish.Type {
	case "stop":
		if s, ok := resp.Finish.StopString(); ok && s == "NaN happened" {
			return bad("the model's output was not a number (finish matched %q)", s)
		}
	case "length":
	case "abort":
		// An abort out of the waiting queue lacks counts, and its output_ids
		// may be the last token only.
		return nil
	default:
		return bad("finish_reason %q", resp.Finish.Type)
	}
	if n == 0 {
		return bad("no output_token_logprobs in an answer that finished by %s: does the server support return_logprob?", resp.Finish.Type)
	}
	if !slices.Equal(resp.OutputIDs, outputIDs) {
		return bad("output_ids (%d) and output_token_logprobs (%d) name different tokens", len(outputIDs), n)
	}
	if m.LogProbsLength != nil && *m.LogProbsLength != n {
		return bad("output_token_logprobs_length %d, but %d entries", *m.LogProbsLength, n)
	}
	if m.CompletionTokens != nil && *m.CompletionTokens != n {
		return bad("completion_tokens %d, but %d logprobs", *m.CompletionTokens, n)
	}
	if m.PromptTokens != 0 && m.PromptTokens != len(req.InputIDs) {
		return bad("prompt_tokens %d, but %d were sent: does the server truncate (--allow-auto-truncate)?", m.PromptTokens, len(req.InputIDs))
	}
	if limit, ok := req.Sampling["max_new_tokens"].(int); ok && n > limit {
		return bad("%d tokens where max_new_tokens was %d", n, limit)
	}
	return wanted(resp.Meta, req.Want)
}

// wanted checks that what was asked for came back.
func wanted(raw json.RawMessage, want []string) error {
	if len(want) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return bad("meta_info: %v", err)
	}
	for _, key := range want {
		if v := fields[key]; len(v) == 0 || string(v) == "null" {
			return bad("meta_info has no %s, which was asked for: a router may have dropped the request's field, or the server lacks the feature", key)
		}
	}
	return nil
}

func bad(format string, args ...any) *Error {
	return &Error{Kind: BadOutput, Status: http.StatusOK, Message: fmt.Sprintf(format, args...)}
}

// decodeLogProbs reads output_token_logprobs, a list of [logprob, id, text].
func decodeLogProbs(raw json.RawMessage) ([]int32, []float32, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil, nil
	}
	var entries []entry
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, nil, bad("output_token_logprobs: %v", err)
	}
	ids := make([]int32, len(entries))
	lps := make([]float32, len(entries))
	for i, e := range entries {
		ids[i], lps[i] = e.id, e.logProb
	}
	return ids, lps, nil
}

// An entry is one [logprob, token_id, text|null].
type entry struct {
	logProb float32
	id      int32
}

// UnmarshalJSON reads the first two elements.
func (e *entry) UnmarshalJSON(b []byte) error {
	text := strings.TrimSpace(string(b))
	if len(text) < 2 || text[0] != '[' {
		return fmt.Errorf("entry %.40s is not a list", text)
	}
	first, rest, ok := strings.Cut(text[1:len(text)-1], ",")
	if !ok {
		return fmt.Errorf("entry %.40s has no token id", text)
	}
	second, _, _ := strings.Cut(rest, ",")
	first, second = strings.TrimSpace(first), strings.TrimSpace(second)
	if first == "null" {
		return fmt.Errorf("entry %.40s: the logprob is null (the engine's was not a finite number)", text)
	}
	lp, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return fmt.Errorf("entry %.40s: logprob: %w", text, err)
	}
	id, err := strconv.ParseInt(second, 10, 32)
	if err != nil || id < 0 {
		return fmt.Errorf("entry %.40s: %q is no token id", text, second)
	}
	// The engine clamps at the smallest float32; rounding must not make it infinite.
	e.logProb, e.id = float32(max(lp, -math.MaxFloat32)), int32(id)
	return nil
}

// statusError reads the error bodies of the server (several shapes) and of
// the router.
func statusError(status int, body []byte) *Error {
	e := &Error{Status: status, Message: errorMessage(body)}
	switch {
	case status == http.StatusBadRequest && tooLong(e.Message):
		e.Kind, e.Limit = TooLong, contextLength(e.Message)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind = Unauthorized
	case slices.Contains([]int{408, 429, 502, 503, 504}, status):
		e.Kind = Unavailable
	case status == http.StatusInternalServerError && upstream(body):
		e.Kind = Unavailable // the router could not reach a worker
	case status >= 500:
		e.Kind = Failed
	case strings.Contains(e.Message, "Duplicate request ID"):
		e.Kind = Unavailable // a router's own retry met its first try: a new id helps
	default:
		e.Kind = Rejected
	}
	return e
}

// upstream reports whether a router's 500 means that no worker was reached.
func upstream(body []byte) bool {
	return bytes.Contains(body, []byte("call_upstream_"))
}

func errorMessage(body []byte) string {
	var shape struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &shape) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(shape.Error, &inner) == nil && inner.Message != "" {
			text = inner.Message
		} else if shape.Message != "" {
			text = shape.Message
		}
	}
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return text
}

// tooLong recognises the engine's three ways of saying that a prompt does not fit.
func tooLong(message string) bool {
	return strings.Contains(message, "longer than the model's context length") ||
		strings.Contains(message, "exceeds the maximum allowed length") ||
		strings.Contains(message, "exceeds the model's maximum context length")
}

// contextLength reads the context length out of the engine's refusal; 0 when
// it is not there.
func contextLength(message string) int {
	for _, before := range []string{"model's context length (", "maximum context length of ", "maximum allowed length ("} {
		if _, rest, ok := strings.Cut(message, before); ok {
			digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
			n, _ := strconv.Atoi(digits)
			return n
		}
	}
	return 0
}
