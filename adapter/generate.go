package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// An AbortPolicy says what becomes of a generation that the engine aborted, as
// it does at a weight update.
type AbortPolicy int

const (
	Continue AbortPolicy = iota // post what was sampled so far again and sample on; each span keeps its weight version
	Restart                     // sample anew
	Fail                        // the turn fails, and with it the session
)

// repeatedAbort is the time within which a second abort, without a pause and
// under the same weights, is no weight update but an engine that does nothing
// else.
const repeatedAbort = 5 * time.Second

// An output is what was sampled for one turn, over all its requests.
type output struct {
	ids      []int32
	logProbs []float32
	finish   sglang.Finish
	versions []trajectory.Span
	cached   int               // tokens of the prompt
	meta     []json.RawMessage // meta_info of each request, when fields of it are wanted
}

// add appends what one request sampled.
func (o *output) add(resp sglang.Response) {
	from := len(o.ids)
	o.ids = append(o.ids, resp.OutputIDs...)
	o.logProbs = append(o.logProbs, resp.LogProbs...)
	o.finish = resp.Finish
	if len(resp.OutputIDs) == 0 {
		return
	}
	if n := len(o.versions); n > 0 && o.versions[n-1].Version == resp.WeightVersion {
		o.versions[n-1].To = len(o.ids)
		return
	}
	o.versions = append(o.versions, trajectory.Span{From: from, To: len(o.ids), Version: resp.WeightVersion})
}

// sample generates one turn's tokens. An abort is never its end.
func (ses *session) sample(ctx context.Context, p prompt, sampling map[string]any) (output, error) {
	var out output
	var last time.Time // when the request before was aborted
	var lastPauses int
	var lastVersion string
	limit := sampling["max_new_tokens"].(int)
	least, _ := whole(sampling["min_new_tokens"])
	for first := true; ; first = false {
		sampling["max_new_tokens"] = limit - len(out.ids)
		if least > 0 { // of the whole turn: what is sampled already counts
			sampling["min_new_tokens"] = max(0, min(least, limit)-len(out.ids))
		}
		resp, pauses, err := ses.post(ctx, p, out.ids, sampling)
		if room, smaller := ses.room(err, len(p.ids)+len(out.ids)); smaller && room < limit-len(out.ids) {
			limit = len(out.ids) + room
			continue
		}
		if err != nil {
			return output{}, ses.tooLong(err, len(p.ids))
		}
		if len(ses.server.o.Want) > 0 {
			out.meta = append(out.meta, resp.Meta)
		}
		if first {
			out.cached = resp.CachedTokens
		}
		out.add(resp)
		if resp.Finish.Type != chat.FinishAbort {
			return out, nil
		}
		if ses.server.o.OnAbort == Fail {
			return output{}, &sglang.Error{Kind: sglang.Aborted, Message: resp.Finish.Message, Attempts: 1}
		}
		repeated := !last.IsZero() && time.Since(last) < repeatedAbort && pauses == lastPauses && resp.WeightVersion == lastVersion
		if repeated && !ses.server.gate.closedSince(pauses) {
			return output{}, &sglang.Error{Kind: sglang.Aborted, Message: "again within 5 s without a pause or new weights: " + resp.Finish.Message, Attempts: 2}
		}
		last, lastPauses, lastVersion = time.Now(), pauses, resp.WeightVersion
		if ses.server.o.OnAbort == Restart {
			out = output{cached: out.cached, meta: out.meta}
		}
		if len(out.ids) >= limit {
			out.finish = sglang.Finish{Type: chat.FinishLength}
			return out, nil
		}
	}
}

// post sends one request into the engine, as soon as the gate is open.
func (ses *session) post(ctx context.Context, p prompt, partial []int32, sampling map[string]any) (sglang.Response, int, error) {
	leave, pauses, err := ses.server.gate.enter(ctx)
	if err != nil {
		return sglang.Response{}, 0, err
	}
	defer ses.server.gate.exit()
	ids, rank := p.ids, ses.rank()
	if len(partial) > 0 {
		ids = slices.Concat(p.ids, partial)
	}
	resp, err := ses.server.o.Engine.Generate(ctx, sglang.Request{
		InputIDs: ids, Known: p.known, Text: &ses.text, Sampling: sampling, RoutingKey: ses.id, DPRank: rank,
		Extra: ses.server.o.Extra, Want: ses.server.o.Want, Interrupt: leave,
	})
	if err == nil && rank != nil && (resp.DPRank == nil || *resp.DPRank != *rank) && ses.server.unpinned.CompareAndSwap(false, true) {
		ses.server.o.Logger.Warn("turns are not served by the data-parallel rank that they ask for: a router drops routed_dp_rank; prefixes are cached less often", "session", ses.id, "rank", *rank)
	}
	return resp, pauses, err
}

// rank returns the data-parallel rank that keeps the session's prefix cached;
// nil leaves it to the engine.
func (ses *session) rank() *int {
	n := ses.server.o.DPRanks
	if n <= 0 {
		return nil
	}
	h := fnv.New32a()
	h.Write([]byte(ses.id))
	rank := int(h.Sum32() % uint32(n))
	return &rank
}

// room returns how many tokens the engine would sample after that many, when it
// refused the request for its length and named a limit that leaves some.
func (ses *session) room(err error, tokens int) (n int, ok bool) {
	var e *sglang.Error
	if !errors.As(err, &e) || e.Kind != sglang.TooLong || e.Limit == 0 {
		return 0, false
	}
	ses.server.learnLimit(e.Limit)
	n = e.Limit - ses.server.o.Reserved - tokens
	return n, n >= 1
}

// tooLong turns the engine's refusal of a long prompt into the one that makes
// the client compact.
func (ses *session) tooLong(err error, tokens int) error {
	var e *sglang.Error
	if !errors.As(err, &e) || e.Kind != sglang.TooLong {
		return err
	}
	return &chat.Refusal{Kind: chat.TooLong, Message: e.Message, Tokens: tokens, Limit: e.Limit}
}
