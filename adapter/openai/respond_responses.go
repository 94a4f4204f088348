package openai

import (
	"net/http"
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
}

// event sends one event of the stream.
func (r *responsesResponder) event(kind string, fields dict) error {
	fields["type"], fields["sequence_number"] = kind, r.seq
	r.seq++
	return r.w.Event(kind, fields)
}

// KeepAlive sends a JSON event: comments do not reset Codex's timer.
func (r *responsesResponder) KeepAlive() error {
	if !r.stream {
		return r.w.Space()
	}
	return r.event("response.in_progress", dict{"response": r.response("resp_pending", "in_progress", []dict{})})
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
	if err := r.event("response.created", dict{"response": r.response("resp_"+a.Turn, "in_progress", []dict{})}); err != nil {
		return err
	}
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
	for _, c := range a.Calls {
		wireName, known := r.wire.names[c.Name]
		if !known {
			wireName.name = c.Name
		}
		call := dict{"call_id": id("call"), "name": wireName.name, "status": "completed"}
		if input, custom := r.wire.customInput(c); custom {
			call["type"], call["id"], call["input"] = "custom_tool_call", id("ctc"), input
		} else {
			call["type"], call["id"], call["arguments"] = "function_call", id("fc"), string(c.Arguments)
		}
		if wireName.namespace != "" {
			call["namespace"] = wireName.namespace
		}
		items = append(items, call)
	}
	for _, m := range a.Malformed {
		call := dict{"type": "function_call", "id": id("fc"), "call_id": id("call"), "name": m.Tool(), "arguments": m.Text(), "status": "completed"}
		if ns := r.wire.names[m.Tool()].namespace; ns != "" {
			call["namespace"] = ns
		}
		items = append(items, call)
	}
	return items
}

// item sends one item: added, in progress, done.
func (r *responsesResponder) item(i int, it dict) error {
	events := []func() error{func() error { return r.event("response.output_item.added", dict{"output_index": i, "item": begun(it)}) }}
	delta := func(kind, field, text string, extra dict) {
		for _, suffix := range []string{"delta", "done"} {
			events = append(events, func() error {
				fields := dict{"item_id": it["id"], "output_index": i}
				for k, v := range extra {
					fields[k] = v
				}
				if suffix == "delta" {
					fields["delta"] = text
				} else {
					fields[field] = text
				}
				return r.event("response."+kind+"."+suffix, fields)
			})
		}
	}
	switch it["type"] {
	case "reasoning":
		delta("reasoning_text", "text", partText(it), dict{"content_index": 0})
	case "message":
		delta("output_text", "text", partText(it), dict{"content_index": 0})
	case "function_call":
		delta("function_call_arguments", "arguments", it["arguments"].(string), nil)
	case "custom_tool_call":
		delta("custom_tool_call_input", "input", it["input"].(string), nil)
	}
	events = append(events, func() error { return r.event("response.output_item.done", dict{"output_index": i, "item": it}) })
	for _, send := range events {
		if err := send(); err != nil {
			return err
		}
	}
	return nil
}

// begun is the item before anything of it was said.
func begun(it dict) dict {
	b := dict{}
	for k, v := range it {
		b[k] = v
	}
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

func partText(it dict) string {
	return it["content"].([]any)[0].(dict)["text"].(string)
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
// of a few codes, ends Codex at once; on 401, 403 and 404 it reconnects. A
// stream that has begun ends cleanly after its failed response: cut, Codex would
// see a broken connection, forget the code, and ask five times more.
func (r *responsesResponder) Refuse(ref *chat.Refusal) {
	body := refusalBody(ref)
	if !r.w.Begun() {
		refusalHeaders(r.header, ref)
		status := refusalStatus(ref)
		if ref.Kind == chat.Unknown {
			status = http.StatusBadRequest
		}
		r.w.JSON(status, dict{"error": body})
		return
	}
	if r.stream {
		failed := r.response("resp_failed", "failed", []dict{})
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
