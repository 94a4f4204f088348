package sglangtest

import (
	"encoding/base64"
	"time"
)

// answerOf builds the answer with these tokens: all keys that the server
// always sends, those that were asked for, and a few more, as builds differ.
func (e *Engine) answerOf(g *generation, ids []int32, lps []float32) map[string]any {
	e.mu.Lock()
	version := e.version
	e.mu.Unlock()
	if g.versions != "" {
		version = g.versions
	}
	meta := map[string]any{
		"id": g.req.RID, "finish_reason": nil, "weight_version": version,
		"completion_tokens": len(ids), "e2e_latency": time.Since(g.rec.Started).Seconds(),
	}
	if g.finish != nil {
		meta["finish_reason"] = g.finish
	}
	if g.started {
		// An abort out of the waiting queue has none of these.
		meta["prompt_tokens"] = len(g.req.InputIDs)
		meta["cached_tokens"] = g.rec.Cached
		meta["cached_tokens_details"] = nil
		meta["num_retractions"] = 0
		meta["reasoning_tokens"] = 0
		meta["dp_rank"] = g.req.DPRank
		meta["response_sent_to_client_ts"] = float64(time.Now().UnixMilli()) / 1000
	}
	if g.req.ReturnLogProb {
		meta["input_token_logprobs"] = []any{}
		meta["output_token_logprobs"] = e.tuples(g, ids, lps)
		meta["output_token_logprobs_length"] = len(ids)
	}
	if g.req.Experts && e.o.ExpertsEnabled {
		// One layer, one expert a token: int32 zeros.
		meta["routed_experts"] = base64.StdEncoding.EncodeToString(make([]byte, 4*(len(g.req.InputIDs)+len(ids)-1)))
	}
	answer := map[string]any{"text": e.text(g, ids), "output_ids": nonNil(ids), "meta_info": meta}
	if g.req.PromptIDs {
		answer["prompt_token_ids"] = g.req.InputIDs
	}
	return answer
}

// nonNil makes an empty list of none, since nil would be JSON's null.
func nonNil(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}

// tuples returns [logprob, id, text|null] for each token.
func (e *Engine) tuples(g *generation, ids []int32, lps []float32) [][3]any {
	tuples := make([][3]any, len(ids))
	for i, id := range ids {
		tuples[i] = [3]any{lps[i], id, nil}
		if g.req.TextInTuples && e.o.Decode != nil {
			tuples[i][2] = e.o.Decode(ids[i : i+1])
		}
	}
	if f := g.out.Fault; f != nil && f.Null && len(tuples) > 0 {
		tuples[len(tuples)-1][0] = nil
	}
	return tuples
}

// text decodes the answer, without the stop token unless no_stop_trim is set.
func (e *Engine) text(g *generation, ids []int32) string {
	if e.o.Decode == nil {
		return ""
	}
	if g.finish["type"] == "stop" && !g.req.noTrim && len(ids) > 0 && g.finish["matched"] == ids[len(ids)-1] {
		ids = ids[:len(ids)-1]
	}
	return e.o.Decode(ids)
}
