package openai

import (
	"crypto/rand"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/wire"
)

// Respond begins the response to req.
func (Responses) Respond(w http.ResponseWriter, req *chat.Request) chat.Responder {
	r := &responsesResponder{w: wire.NewWriter(w), header: w.Header(), created: time.Now().Unix()}
	if req != nil {
		r.stream, r.model = req.Stream, req.Model
		r.wire, _ = req.Wire.(responsesWire)
	}
	return r
}

type responsesResponder struct {
	w       *wire.Writer
	header  http.Header
	stream  bool
	model   string
	wire    responsesWire
	created int64
	seq     int
	id      string // of the stream; "" before its first event
}

// event sends one event of the stream.
func (r *responsesResponder) event(kind string, fields dict) error {
	fields["type"], fields["sequence_number"] = kind, r.seq
	r.seq++
	return r.w.Event(kind, fields)
}

// KeepAlive sends a JSON event: comments do not reset Codex's timer. The first
// begins the stream.
func (r *responsesResponder) KeepAlive() error {
	if !r.stream {
		return r.w.Space()
	}
	if r.id == "" {
		return r.begin(strings.ToLower(rand.Text()))
	}
	return r.event("response.in_progress", dict{"response": r.response(r.id, "in_progress", []dict{})})
}

// begin sends what a stream begins with; the client libraries of the protocol
// refuse one in which anything comes before response.created.
func (r *responsesResponder) begin(id string) error {
	r.id = "resp_" + id
	for _, kind := range []string{"response.created", "response.in_progress"} {
		if err := r.event(kind, dict{"response": r.response(r.id, "in_progress", []dict{})}); err != nil {
			return err
		}
	}
	return nil
}

// Answer sends the turn. Codex keeps and executes items that it has read even
// when the stream breaks off after them, so all of them come at the end, when
// the turn is whole.
func (r *responsesResponder) Answer(a chat.Answer) error {
	items := r.items(a)
	final := r.response("resp_"+a.Turn, "completed", items)
	final["usage"] = responsesUsage(a)
	kind := "response.completed"
	if a.Finish == chat.FinishLength && len(a.Calls)+len(a.Malformed) == 0 && !r.wire.codex {
		// Codex takes an incomplete response for the end of the run.
		kind, final["status"] = "response.incomplete", "incomplete"
		final["incomplete_details"] = dict{"reason": "max_output_tokens"}
	}
	if !r.stream {
		return r.w.JSON(http.StatusOK, final)
	}
	if r.id == "" {
		if err := r.begin(a.Turn); err != nil {
			return err
		}
	}
	final["id"] = r.id
	for i, it := range items {
		if err := r.item(i, it); err != nil {
			return err
		}
	}
	return r.event(kind, dict{"response": final})
}

func (r *responsesResponder) response(id, status string, output []dict) dict {
	return dict{
		"id": id, "object": "response", "created_at": r.created, "status": status, "model": r.model, "output": output,
		"error": nil, "incomplete_details": nil, "parallel_tool_calls": true, "store": false,
	}
}

// items lists what the turn consists of. Their ids name it.
func (r *responsesResponder) items(a chat.Answer) []dict {
	var items []dict
	id := func(kind string) string { return chat.WireID(kind, a.Turn, len(items)) }
	if a.Reasoning != "" {
		items = append(items, dict{"type": "reasoning", "id": id("rs"), "summary": []any{},
			"content": []any{dict{"type": "reasoning_text", "text": a.Reasoning}}})
	}
	if a.Text != "" {
		items = append(items, dict{"type": "message", "id": id("msg"), "role": "assistant", "status": "completed",
			"content": []any{dict{"type": "output_text", "text": a.Text, "annotations": []any{}}}})
	}
	for _, use := range a.Uses() {
		call := dict{"call_id": id("call"), "status": "completed"}
		said := r.wire.said(use)
		if said.custom {
			call["type"], call["id"], call["input"] = "custom_tool_call", id("ctc"), said.text
		} else {
			call["type"], call["id"], call["arguments"] = "function_call", id("fc"), said.text
		}
		on, known := r.wire.names[said.name]
		if !known {
			on.name = said.name
		}
		call["name"] = on.name
		if on.namespace != "" {
			call["namespace"] = on.namespace
		}
		items = append(items, call)
	}
	return items
}

// item sends one item: added, its parts, done.
func (r *responsesResponder) item(i int, it dict) error {
	if err := r.event("response.output_item.added", dict{"output_index": i, "item": begun(it)}); err != nil {
		return err
	}
	for _, e := range inside(it) {
		e.fields["item_id"], e.fields["output_index"] = it["id"], i
		if err := r.event(e.kind, e.fields); err != nil {
			return err
		}
	}
	return r.event("response.output_item.done", dict{"output_index": i, "item": it})
}

// An event is one of a stream without its place in it.
type event struct {
	kind   string
	fields dict
}

// inside lists the events between an item's begin and its end. A library that
// adds up deltas adds them to the part that was begun.
func inside(it dict) []event {
	part := func(kind string) []event {
		whole := it["content"].([]any)[0].(dict)
		text, empty := whole["text"], maps.Clone(whole)
		empty["text"] = ""
		return []event{
			{"response.content_part.added", dict{"content_index": 0, "part": empty}},
			{"response." + kind + ".delta", dict{"content_index": 0, "delta": text}},
			{"response." + kind + ".done", dict{"content_index": 0, "text": text}},
			{"response.content_part.done", dict{"content_index": 0, "part": whole}},
		}
	}
	input := func(kind, field string) []event {
		return []event{{"response." + kind + ".delta", dict{"delta": it[field]}}, {"response." + kind + ".done", dict{field: it[field]}}}
	}
	switch it["type"] {
	case "reasoning":
		return part("reasoning_text")
	case "message":
		return part("output_text")
	case "function_call":
		return input("function_call_arguments", "arguments")
	}
	return input("custom_tool_call_input", "input")
}

// begun is the item before anything of it was said.
func begun(it dict) dict {
	b := maps.Clone(it)
	if _, ok := b["status"]; ok {
		b["status"] = "in_progress"
	}
	switch it["type"] {
	case "message", "reasoning":
		b["content"] = []any{}
	case "function_call":
		b["arguments"] = ""
	case "custom_tool_call":
		b["input"] = ""
	}
	return b
}

func responsesUsage(a chat.Answer) dict {
	return dict{
		"input_tokens": a.Prompt, "input_tokens_details": dict{"cached_tokens": a.Cached},
		"output_tokens": a.Output, "output_tokens_details": dict{"reasoning_tokens": 0},
		"total_tokens": a.Prompt + a.Output,
	}
}

// Count is not part of this protocol.
func (r *responsesResponder) Count(tokens int) error {
	return r.w.JSON(http.StatusOK, dict{"object": "response.input_tokens", "input_tokens": tokens})
}

// Refuse answers with an error. Only status 400, or a failed response with one
// of a few codes, ends Codex at once; on 401, 403, 404 and 413 it reconnects. A
// stream that has begun ends cleanly after its failed response: cut, Codex would
// see a broken connection, forget the code, and ask five times more.
func (r *responsesResponder) Refuse(ref *chat.Refusal) {
	body := refusalBody(ref)
	if !r.w.Begun() {
		refusalHeaders(r.header, ref)
		status := refusalStatus(ref)
		if ref.Kind == chat.Unknown || ref.Kind == chat.TooLarge {
			status = http.StatusBadRequest
		}
		r.w.JSON(status, dict{"error": body})
		return
	}
	if r.stream {
		failed := r.response(r.id, "failed", []dict{})
		failed["error"] = dict{"code": failedCode(ref), "message": body["message"]}
		if r.event("response.failed", dict{"response": failed}) == nil {
			return
		}
	}
	r.w.Cut()
}

// failedCode is the code that makes Codex stop, retry or give up.
func failedCode(ref *chat.Refusal) string {
	switch ref.Kind {
	case chat.TryAgain:
		return "server_error"
	case chat.TooLong:
		return "context_length_exceeded"
	}
	return "invalid_prompt"
}
