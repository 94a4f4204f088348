package adapter

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// defaultMaxNew is max_new_tokens where the trainer names none; SGLang's own
// default of 128 would cut nearly every turn.
const defaultMaxNew = 4096

// samplingKeys are SGLang's names. Any other breaks the request: the server
// answers 500, a router drops it silently.
var samplingKeys = map[string]bool{
	"max_new_tokens": true, "min_new_tokens": true, "stop": true, "stop_token_ids": true, "stop_regex": true,
	"temperature": true, "top_p": true, "top_k": true, "min_p": true, "frequency_penalty": true,
	"presence_penalty": true, "repetition_penalty": true, "ignore_eos": true, "skip_special_tokens": true,
	"spaces_between_special_tokens": true, "no_stop_trim": true, "n": true, "json_schema": true, "regex": true,
	"ebnf": true, "structural_tag": true, "custom_params": true, "logit_bias": true, "sampling_seed": true,
	"stream_interval": true,
}

// params are a session's pinned sampling parameters.
type params struct {
	fixed  map[string]any // without max_new_tokens and stop
	maxNew int            // tokens
	stop   []string
}

// pin checks the trainer's parameters and fixes those on which the exactness
// of what is recorded rests.
func pin(given map[string]any) (params, error) {
	p := params{fixed: maps.Clone(given), maxNew: defaultMaxNew}
	if p.fixed == nil {
		p.fixed = map[string]any{}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !samplingKeys[key] {
			return params{}, fmt.Errorf("sampling parameter %q is not SGLang's; its names are %s", key, strings.Join(slices.Sorted(maps.Keys(samplingKeys)), ", "))
		}
	}
	if v := given["max_new_tokens"]; v != nil {
		n, ok := whole(v)
		if !ok || n < 1 {
			return params{}, fmt.Errorf("sampling parameter max_new_tokens: got %v, want a whole number of at least 1", v)
		}
		p.maxNew = n
	}
	if v := given["n"]; v != nil {
		if n, ok := whole(v); !ok || n != 1 {
			return params{}, fmt.Errorf("sampling parameter n: got %v, a turn has one answer: leave it out or set 1", v)
		}
	}
	var err error
	if p.stop, err = stopList(given["stop"]); err != nil {
		return params{}, err
	}
	for _, key := range []string{"max_new_tokens", "stop", "n", "stream_interval", "spaces_between_special_tokens"} {
		delete(p.fixed, key) // set for each turn, or without effect on ids; the last is dropped by routers
	}
	p.fixed["skip_special_tokens"] = false
	p.fixed["no_stop_trim"] = true
	return p, nil
}

// whole reads a whole number of any of the types that JSON and Go programs use.
func whole(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, true
	case int32:
		return int(n), true
	case int64:
		return int(n), true
	case float64:
		return int(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case json.Number:
		i, err := n.Int64()
		return int(i), err == nil
	}
	return 0, false
}

func stopList(v any) ([]string, error) {
	switch s := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{s}, nil
	case []string:
		return slices.Clone(s), nil
	case []any:
		list := make([]string, len(s))
		for i, e := range s {
			text, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("sampling parameter stop[%d]: got %T, want a string", i, e)
			}
			list[i] = text
		}
		return list, nil
	}
	return nil, fmt.Errorf("sampling parameter stop: got %T, want a string or a list of strings", v)
}

// sampling makes one turn's parameters: the trainer's, with at most as many
// tokens as the client wants, the budget leaves and the context has room for.
// Where there is no room, the refusal makes the client compact.
func (ses *session) sampling(req *chat.Request, prompt int) (map[string]any, error) {
	limit := ses.params.maxNew
	if req.MaxTokens > 0 {
		limit = min(limit, req.MaxTokens)
	}
	if n, ok := ses.left(); ok {
		limit = min(limit, n)
	}
	if most := ses.server.context(ses.opts.MaxContext); most > 0 {
		room := most - ses.server.o.Reserved - prompt
		if room < 1 {
			return nil, &chat.Refusal{Kind: chat.TooLong, Tokens: prompt, Limit: most - ses.server.o.Reserved - 1,
				Message: fmt.Sprintf("prompt is too long: %d tokens > %d maximum", prompt, most-ses.server.o.Reserved-1)}
		}
		limit = min(limit, room)
	}
	sampling := maps.Clone(ses.params.fixed)
	sampling["max_new_tokens"] = limit
	if n, ok := whole(sampling["min_new_tokens"]); ok && n > limit {
		sampling["min_new_tokens"] = limit
	}
	stop := slices.Clone(ses.params.stop)
	for _, s := range req.Stop {
		if s != "" && !slices.Contains(stop, s) {
			stop = append(stop, s)
		}
	}
	if len(stop) > 0 {
		sampling["stop"] = stop
	}
	return sampling, nil
}

// logDifference says once a session what the client asked for and does not get.
func (ses *session) logDifference(req *chat.Request) {
	var differ []string
	for _, key := range slices.Sorted(maps.Keys(req.Sampling)) {
		if fmt.Sprint(req.Sampling[key]) != fmt.Sprint(ses.params.fixed[key]) {
			differ = append(differ, key)
		}
	}
	if len(differ) > 0 && ses.once("sampling") {
		ses.server.o.Logger.Info("the client's sampling parameters are not obeyed: the trainer's are final", "session", ses.id, "parameters", differ)
	}
}

// context returns the number of tokens that prompt and answer may have, the
// smaller of what the trainer and the engine say; 0 when neither does.
func (s *Server) context(trainer int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if trainer == 0 || s.limit > 0 && s.limit < trainer {
		return s.limit
	}
	return trainer
}

// learnLimit keeps the context length that the engine named.
func (s *Server) learnLimit(tokens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tokens > 0 {
		s.limit = tokens
	}
}
