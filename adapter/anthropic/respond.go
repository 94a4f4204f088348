package anthropic

import (
	"crypto/rand"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/wire"
)

// Respond begins the response to req.
func (Messages) Respond(w http.ResponseWriter, req *chat.Request) chat.Responder {
	r := &responder{w: wire.NewWriter(w), header: w.Header()}
	if req != nil {
		r.stream, r.model = req.Stream, req.Model
	}
	return r
}

type responder struct {
	w       *wire.Writer
	header  http.Header
	stream  bool
	model   string
	started bool // message_start was sent
	signs   int  // of life, after it
	blank   bool // an empty text block was begun as block 0
}

type dict = map[string]any

// seenSigns is how many signs of life pass before one that every version sees.
const seenSigns = 12

// KeepAlive begins the message, without counts, and after that sends pings. They
// reset the timers that count bytes. Version 2.1.197 has one more, of 300 s, that
// counts events and is not shown pings: every dozenth sign is therefore an empty
// delta of an empty text block, which comes back as no text. In an answer that is
// no stream it is a blank before the JSON.
func (r *responder) KeepAlive() error {
	switch {
	case !r.stream:
		return r.w.Space()
	case !r.started:
		// Claude Code takes messages of one id for one: it must be new.
		return r.start(rand.Text(), usage(chat.Answer{}))
	}
	if r.signs++; r.signs%seenSigns != 0 {
		return r.w.Event("ping", dict{"type": "ping"})
	}
	if !r.blank {
		r.blank = true
		return r.w.Event("content_block_start", dict{"type": "content_block_start", "index": 0, "content_block": dict{"type": "text", "text": ""}})
	}
	return r.w.Event("content_block_delta", dict{"type": "content_block_delta", "index": 0, "delta": dict{"type": "text_delta", "text": ""}})
}

// start begins the message of a stream.
func (r *responder) start(id string, usage dict) error {
	r.started = true
	m := r.message(id)
	m["content"], m["stop_reason"] = []any{}, nil
	m["usage"] = usage
	return r.w.Event("message_start", dict{"type": "message_start", "message": m})
}

// Answer sends the turn. Claude Code executes the calls of a stream as soon as
// it has read them, whatever comes after.
func (r *responder) Answer(a chat.Answer) error {
	if !r.stream {
		m := r.message(a.Turn)
		m["content"], m["usage"] = content(a), usage(a)
		m["stop_reason"], m["stop_sequence"] = stopReason(a)
		return r.w.JSON(http.StatusOK, m)
	}
	if !r.started {
		u := usage(a)
		u["output_tokens"] = 0
		if err := r.start(a.Turn, u); err != nil {
			return err
		}
	}
	first := 0
	if r.blank {
		first = 1
		if err := r.w.Event("content_block_stop", dict{"type": "content_block_stop", "index": 0}); err != nil {
			return err
		}
	}
	for i, b := range streamed(a) {
		if err := r.block(first+i, b); err != nil {
			return err
		}
	}
	reason, sequence := stopReason(a)
	delta := dict{"type": "message_delta", "delta": dict{"stop_reason": reason, "stop_sequence": sequence}, "usage": usage(a)}
	if err := r.w.Event("message_delta", delta); err != nil {
		return err
	}
	return r.w.Event("message_stop", dict{"type": "message_stop"})
}

func (r *responder) message(id string) dict {
	return dict{"id": "msg_" + id, "type": "message", "role": "assistant", "model": r.model, "stop_sequence": nil}
}

// A piece is one block of a stream: how it starts, and its deltas.
type piece struct {
	start  dict
	deltas []dict
}

// streamed cuts the answer into blocks: thinking, whose signature names the
// turn, text, calls, and calls that are malformed, whose input is no JSON.
func streamed(a chat.Answer) []piece {
	var pieces []piece
	if a.Reasoning != "" {
		pieces = append(pieces, piece{dict{"type": "thinking", "thinking": "", "signature": ""}, []dict{
			{"type": "thinking_delta", "thinking": a.Reasoning},
			{"type": "signature_delta", "signature": chat.WireID("sig", a.Turn, 0)},
		}})
	}
	if strings.TrimSpace(a.Text) != "" {
		pieces = append(pieces, piece{dict{"type": "text", "text": ""}, []dict{{"type": "text_delta", "text": a.Text}}})
	}
	call := func(i int, name, input string) {
		pieces = append(pieces, piece{
			dict{"type": "tool_use", "id": chat.WireID("toolu", a.Turn, i), "name": name, "input": dict{}},
			[]dict{{"type": "input_json_delta", "partial_json": input}},
		})
	}
	for i, use := range a.Uses() {
		if use.Call != nil {
			call(i, use.Call.Name, string(use.Call.Arguments))
		} else {
			call(i, use.Malformed.Tool(), use.Malformed.Text())
		}
	}
	return pieces
}

func (r *responder) block(i int, p piece) error {
	if err := r.w.Event("content_block_start", dict{"type": "content_block_start", "index": i, "content_block": p.start}); err != nil {
		return err
	}
	for _, d := range p.deltas {
		if err := r.w.Event("content_block_delta", dict{"type": "content_block_delta", "index": i, "delta": d}); err != nil {
			return err
		}
	}
	return r.w.Event("content_block_stop", dict{"type": "content_block_stop", "index": i})
}

// content is the answer where it is no stream.
func content(a chat.Answer) []dict {
	blocks := []dict{}
	if a.Reasoning != "" {
		blocks = append(blocks, dict{"type": "thinking", "thinking": a.Reasoning, "signature": chat.WireID("sig", a.Turn, 0)})
	}
	if strings.TrimSpace(a.Text) != "" {
		blocks = append(blocks, dict{"type": "text", "text": a.Text})
	}
	for i, use := range a.Uses() {
		b := dict{"type": "tool_use", "id": chat.WireID("toolu", a.Turn, i)}
		if use.Call != nil {
			b["name"], b["input"] = use.Call.Name, use.Call.Arguments
		} else {
			b["name"], b["input"] = unknownTool, malformedInput(*use.Malformed)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// stopReason is tool_use whenever there is a call, cut turn or not: at
// max_tokens Claude Code would ask the model to resume, and give up after the
// third time. The sequence is nil where none of the client's ended the turn.
func stopReason(a chat.Answer) (reason string, sequence any) {
	switch {
	case len(a.Calls)+len(a.Malformed) > 0:
		return "tool_use", nil
	case a.Finish == chat.FinishLength:
		return "max_tokens", nil
	case a.Stop != "":
		return "stop_sequence", a.Stop
	}
	return "end_turn", nil
}

// usage drives Claude Code's compaction: input, cache and output count.
func usage(a chat.Answer) dict {
	return dict{
		"input_tokens": a.Prompt - a.Cached, "cache_read_input_tokens": a.Cached, "cache_creation_input_tokens": 0,
		"output_tokens": a.Output,
	}
}

// Count answers count_tokens.
func (r *responder) Count(tokens int) error {
	return r.w.JSON(http.StatusOK, dict{"input_tokens": tokens})
}

// Refuse answers with an error, in the shape and with the status that make
// Claude Code do the right thing.
func (r *responder) Refuse(ref *chat.Refusal) {
	status, kind := http.StatusBadRequest, "invalid_request_error"
	message := ref.Message
	switch ref.Kind {
	case chat.TryAgain:
		status, kind = http.StatusServiceUnavailable, "overloaded_error"
	case chat.Unknown:
		status, kind = http.StatusForbidden, "permission_error"
	case chat.TooLarge:
		status, kind = http.StatusRequestEntityTooLarge, "request_too_large"
	case chat.TooLong:
		message = fmt.Sprintf("prompt is too long: %d tokens > %d maximum", ref.Tokens, ref.Limit)
	}
	body := dict{"type": "error", "error": dict{"type": kind, "message": message}}
	if !r.w.Begun() {
		if ref.Kind != chat.TryAgain {
			r.header.Set("X-Should-Retry", "false")
		} else if ref.RetryAfter > 0 {
			r.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(ref.RetryAfter.Seconds()))))
		}
		r.w.JSON(status, body)
		return
	}
	if r.stream {
		r.w.Event("error", body)
	}
	r.w.Cut()
}
