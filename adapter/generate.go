package adapter

import (
	"context"
	"errors"
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
	cached   int // tokens of the prompt
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
func (ses *session) sample(ctx context.Context, prompt []int32, sampling map[string]any) (output, error) {
	var out output
	var last time.Time // when the request before was aborted
	var lastPauses int
	var lastVersion string
	limit := sampling["max_new_tokens"].(int)
	for first := true; ; first = false {
		sampling["max_new_tokens"] = limit - len(out.ids)
		resp, pauses, err := ses.post(ctx, prompt, out.ids, sampling)
		if err != nil {
			return output{}, err
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
			out = output{cached: out.cached}
		}
		if len(out.ids) >= limit {
			out.finish = sglang.Finish{Type: chat.FinishLength}
			return out, nil
		}
	}
}

// post sends one request into the engine, as soon as the gate is open.
func (ses *session) post(ctx context.Context, prompt, partial []int32, sampling map[string]any) (sglang.Response, int, error) {
	leave, pauses, err := ses.server.gate.enter(ctx)
	if err != nil {
		return sglang.Response{}, 0, err
	}
	defer ses.server.gate.exit()
	resp, err := ses.server.o.Engine.Generate(ctx, sglang.Request{
		InputIDs: slices.Concat(prompt, partial), Sampling: sampling, RoutingKey: ses.id, Interrupt: leave,
	})
	return resp, pauses, ses.tooLong(err, len(prompt))
}

// tooLong turns the engine's refusal of a long prompt into the one that makes
// the client compact. The limit that it names is kept for later turns.
func (ses *session) tooLong(err error, tokens int) error {
	var e *sglang.Error
	if !errors.As(err, &e) || e.Kind != sglang.TooLong {
		return err
	}
	ses.server.learnLimit(e.Limit)
	return &chat.Refusal{Kind: chat.TooLong, Message: e.Message, Tokens: tokens, Limit: max(e.Limit, 0)}
}
