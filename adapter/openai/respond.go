package openai

import (
	"crypto/rand"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/wire"
)

// Respond begins the response to req.
func (Chat) Respond(w http.ResponseWriter, req *chat.Request) chat.Responder {
	r := &chatResponder{w: wire.NewWriter(w), header: w.Header(), created: time.Now().Unix()}
	if req != nil {
		r.stream, r.model = req.Stream, req.Model
		r.wire, _ = req.Wire.(chatWire)
	}
	return r
}

type chatResponder struct {
	w       *wire.Writer
	header  http.Header
	stream  bool
	model   string
	wire    chatWire
	created int64
	id      string // of the stream; "" before its first chunk
}

type dict = map[string]any

// KeepAlive sends an empty delta: an event, unlike a comment, is seen by every
// layer that measures silence.
func (r *chatResponder) KeepAlive() error {
	if !r.stream {
		return r.w.Space()
	}
	if r.id == "" {
		return r.begin(strings.ToLower(rand.Text()))
	}
	return r.chunk(dict{"content": ""}, nil)
}

// begin sends the first chunk, alone with the role: libraries that add up deltas
// would write it twice.
func (r *chatResponder) begin(id string) error {
	r.id = "chatcmpl-" + id
	return r.chunk(dict{"role": "assistant", "content": ""}, nil)
}

// Answer sends the turn as one message or as a stream.
func (r *chatResponder) Answer(a chat.Answer) error {
	if !r.stream {
		return r.w.JSON(http.StatusOK, dict{
			"id": "chatcmpl-" + a.Turn, "object": "chat.completion", "created": r.created, "model": r.model,
			"choices": []any{dict{"index": 0, "message": chatReply(a), "finish_reason": chatFinish(a), "logprobs": nil}},
			"usage":   chatUsage(a),
		})
	}
	if r.id == "" {
		if err := r.begin(a.Turn); err != nil {
			return err
		}
	}
	var deltas []dict
	if a.Reasoning != "" {
		deltas = append(deltas, dict{"reasoning_content": a.Reasoning})
	}
	if a.Text != "" {
		deltas = append(deltas, dict{"content": a.Text})
	}
	for i, c := range chatCalls(a) {
		c["index"] = i
		deltas = append(deltas, dict{"tool_calls": []any{c}})
	}
	for _, d := range deltas {
		if err := r.chunk(d, nil); err != nil {
			return err
		}
	}
	if err := r.chunk(dict{}, chatFinish(a)); err != nil {
		return err
	}
	if r.wire.usage {
		if err := r.w.Event("", r.envelope([]any{}, chatUsage(a))); err != nil {
			return err
		}
	}
	return r.w.Done()
}

func (r *chatResponder) chunk(delta dict, finish any) error {
	return r.w.Event("", r.envelope([]any{dict{"index": 0, "delta": delta, "finish_reason": finish}}, nil))
}

func (r *chatResponder) envelope(choices []any, usage any) dict {
	e := dict{"id": r.id, "object": "chat.completion.chunk", "created": r.created, "model": r.model, "choices": choices}
	if usage != nil {
		e["usage"] = usage
	}
	return e
}

func chatReply(a chat.Answer) dict {
	m := dict{"role": "assistant", "content": a.Text, "refusal": nil}
	calls := chatCalls(a)
	if a.Text == "" && len(calls) > 0 {
		m["content"] = nil
	}
	if a.Reasoning != "" {
		m["reasoning_content"] = a.Reasoning
	}
	if len(calls) > 0 {
		m["tool_calls"] = calls
	}
	return m
}

// chatCalls lists the calls, malformed ones too.
func chatCalls(a chat.Answer) []dict {
	var calls []dict
	for i, c := range delivered(a) {
		calls = append(calls, dict{
			"id": chat.WireID("call", a.Turn, i), "type": "function",
			"function": dict{"name": c.Name, "arguments": string(c.Arguments)},
		})
	}
	return calls
}

// chatFinish is tool_calls whenever there is a call, cut turn or not: it makes
// clients go on with the calls' results or errors instead of ending the run.
func chatFinish(a chat.Answer) string {
	switch {
	case len(a.Calls)+len(a.Malformed) > 0:
		return "tool_calls"
	case a.Finish == chat.FinishLength:
		return "length"
	}
	return "stop"
}

func chatUsage(a chat.Answer) dict {
	return dict{
		"prompt_tokens": a.Prompt, "completion_tokens": a.Output, "total_tokens": a.Prompt + a.Output,
		"prompt_tokens_details": dict{"cached_tokens": a.Cached},
	}
}

// Count is not part of this protocol.
func (r *chatResponder) Count(tokens int) error {
	return r.w.JSON(http.StatusOK, dict{"object": "token_count", "input_tokens": tokens})
}

// Refuse answers with an error object.
func (r *chatResponder) Refuse(ref *chat.Refusal) {
	e := dict{"error": refusalBody(ref)}
	if !r.w.Begun() {
		refusalHeaders(r.header, ref)
		r.w.JSON(refusalStatus(ref), e)
		return
	}
	if r.stream {
		r.w.Event("", e)
	}
	r.w.Cut()
}

func refusalStatus(ref *chat.Refusal) int {
	switch ref.Kind {
	case chat.TryAgain:
		return http.StatusServiceUnavailable
	case chat.Unknown:
		return http.StatusForbidden
	case chat.TooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

func refusalBody(ref *chat.Refusal) dict {
	body := dict{"message": ref.Message, "type": "invalid_request_error", "param": nil, "code": nil}
	switch ref.Kind {
	case chat.TryAgain:
		body["type"], body["code"] = "server_error", "server_error"
	case chat.TooLong:
		body["message"] = tooLongMessage(ref)
		body["code"] = "context_length_exceeded"
	case chat.Unknown:
		body["type"], body["code"] = "permission_error", "session_unknown"
	}
	return body
}

// tooLongMessage holds the words by which clients know that they must compact.
func tooLongMessage(ref *chat.Refusal) string {
	return "This model's maximum context length is " + strconv.Itoa(ref.Limit) + " tokens. However, your messages resulted in " +
		strconv.Itoa(ref.Tokens) + " tokens. Please reduce the length of the messages."
}

// refusalHeaders tells the clients of OpenAI's own libraries whether to retry.
func refusalHeaders(h http.Header, ref *chat.Refusal) {
	if ref.Kind != chat.TryAgain {
		h.Set("X-Should-Retry", "false")
		return
	}
	if ref.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(ref.RetryAfter.Seconds()))))
	}
}
