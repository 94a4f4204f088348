package adapter_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/agentrl-go/agentrl/internal/cases"
)

type object = map[string]any

// A recording is a request that a real client sent: its history holds the
// answers of earlier turns as that client keeps them.
type recording struct {
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    object            `json:"body"`
}

func readRecording(t *testing.T, name string) recording {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cases.Dir(t, "clients"), name))
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(r.Path, "/responses") {
		restoreTools(r.Body["tools"].([]any))
	}
	for _, key := range []string{"Content-Length", "content-length", "Accept-Encoding", "accept-encoding", "Host", "host"} {
		delete(r.Headers, key)
	}
	return r
}

// restoreTools makes tools again of what the recordings keep of them.
func restoreTools(tools []any) {
	for _, tool := range tools {
		tool := tool.(object)
		tool["type"] = tool["_type"]
		names, _ := tool["tools"].([]any)
		for i, name := range names {
			names[i] = object{"type": "function", "name": name}
		}
	}
}

// A wireClient plays recordings of one protocol: it sends the history up to
// each answer, and keeps the answer as the recorded client did.
type wireClient interface {
	entries(body object) []any // the history
	answers(entry any) bool    // the entry is (part of) an answer of the model
	text(answer []any) string  // what the model must have said for it
	// keep is the answer as the client sends it back, given what was served;
	// ids maps the recorded ids of calls to those served.
	keep(t *testing.T, recorded []any, served []byte, ids map[string]string) []any
	rename(entry any, ids map[string]string) any // an entry with the served ids
	with(body object, history []any) object      // the request with another history
}

// send posts a recording's request with another history.
func (r *rig) send(token string, rec recording, body object) []byte {
	r.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, r.url+rec.Path, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	for k, v := range rec.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("status %d, %v: %s", res.StatusCode, err, answer)
	}
	return answer
}

// A play is a recording being played: answers are runs of entries that the
// model said.
type play struct {
	client  wireClient
	rec     recording
	history []any
	ids     map[string]string
	texts   []string // overrides what the model says, by turn; "" is as recorded
}

// script returns what the model says, in order, ending with last.
func (p *play) script(last string) []string {
	var out []string
	entries := p.client.entries(p.rec.Body)
	for i := 0; i < len(entries); {
		n := p.run(entries[i:])
		if n > 0 {
			text := p.client.text(entries[i : i+n])
			if k := len(out); k < len(p.texts) && p.texts[k] != "" {
				text = p.texts[k]
			}
			out = append(out, text)
		}
		i += max(n, 1)
	}
	return append(out, last)
}

// run is the number of entries that make up the answer at the front.
func (p *play) run(entries []any) int {
	n := 0
	for n < len(entries) && p.client.answers(entries[n]) {
		n++
	}
	return n
}

// all plays the recording: a request for each answer in it, and itself.
func (p *play) all(r *rig, token string) {
	entries := p.client.entries(p.rec.Body)
	for i := 0; i < len(entries); {
		n := p.run(entries[i:])
		if n == 0 {
			p.history = append(p.history, p.client.rename(entries[i], p.ids))
			i++
			continue
		}
		served := r.send(token, p.rec, p.client.with(p.rec.Body, p.history))
		p.history = append(p.history, p.client.keep(r.t.(*testing.T), entries[i:i+n], served, p.ids)...)
		i += n
	}
	r.send(token, p.rec, p.client.with(p.rec.Body, p.history))
}

// claudeCode streams, and rewrites inputs as its recordings show.
type claudeCode struct{}

func (claudeCode) entries(body object) []any { return body["messages"].([]any) }
func (claudeCode) answers(entry any) bool    { return entry.(object)["role"] == "assistant" }

func (claudeCode) text(answer []any) string {
	think, text, calls := "", "", ""
	for _, b := range answer[0].(object)["content"].([]any) {
		switch b := b.(object); b["type"] {
		case "thinking":
			think += b["thinking"].(string)
		case "text":
			text += b["text"].(string)
		case "tool_use":
			input, _ := json.Marshal(b["input"])
			calls += callText(b["name"].(string), string(input))
		}
	}
	if think != "" {
		think = "<think>" + think + "</think>"
	}
	return think + text + calls
}

// A streamed block of an answer.
type servedBlock struct{ kind, id, input, signature string }

// readStream collects the blocks of an answer.
func readStream(t *testing.T, stream []byte) []servedBlock {
	t.Helper()
	var blocks []servedBlock
	for line := range strings.Lines(string(stream)) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string `json:"type"`
			Block struct{ Type, ID, Signature string }
			Start struct {
				Type string `json:"type"`
				ID   string `json:"id"`
			} `json:"content_block"`
			Delta struct {
				Input     string `json:"partial_json"`
				Signature string `json:"signature"`
			} `json:"delta"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case "content_block_start":
			blocks = append(blocks, servedBlock{kind: e.Start.Type, id: e.Start.ID})
		case "content_block_delta":
			blocks[len(blocks)-1].input += e.Delta.Input
			blocks[len(blocks)-1].signature += e.Delta.Signature
		}
	}
	return blocks
}

func (claudeCode) keep(t *testing.T, recorded []any, served []byte, ids map[string]string) []any {
	t.Helper()
	blocks := readStream(t, served)
	take := func(kind string) servedBlock {
		at := slices.IndexFunc(blocks, func(b servedBlock) bool { return b.kind == kind })
		if at < 0 {
			return servedBlock{}
		}
		b := blocks[at]
		blocks = slices.Delete(blocks, at, at+1)
		return b
	}
	var content []any
	for _, b := range recorded[0].(object)["content"].([]any) {
		b := maps.Clone(b.(object))
		switch b["type"] {
		case "thinking":
			b["signature"] = take("thinking").signature
		case "tool_use":
			got := take("tool_use")
			ids[b["id"].(string)] = got.id
			b["id"] = got.id
			if !json.Valid([]byte(got.input)) {
				b["input"] = object{"__unparsedToolInput": object{"raw": got.input, "len": len(utf16.Encode([]rune(got.input)))}}
			}
		}
		content = append(content, b)
	}
	return []any{object{"role": "assistant", "content": content}}
}

func (claudeCode) rename(entry any, ids map[string]string) any {
	m := maps.Clone(entry.(object))
	blocks, ok := m["content"].([]any)
	if !ok {
		return m
	}
	blocks = slices.Clone(blocks)
	for i, b := range blocks {
		b := maps.Clone(b.(object))
		for _, key := range []string{"tool_use_id", "id"} {
			if id, ok := b[key].(string); ok && ids[id] != "" {
				b[key] = ids[id]
			}
		}
		blocks[i] = b
	}
	m["content"] = blocks
	return m
}

func (claudeCode) with(body object, history []any) object {
	body = maps.Clone(body)
	body["messages"] = history
	return body
}

// codex sends back the very items that it was served.
type codex struct{}

func (codex) entries(body object) []any { return body["input"].([]any) }

func (codex) answers(entry any) bool {
	switch e := entry.(object); e["type"] {
	case "reasoning", "function_call", "custom_tool_call":
		return true
	case "message":
		return e["role"] == "assistant"
	}
	return false
}

func parts(v any) string {
	list, _ := v.([]any)
	out := ""
	for _, p := range list {
		out += p.(object)["text"].(string)
	}
	return out
}

func (codex) text(answer []any) string {
	think, text, calls := "", "", ""
	for _, e := range answer {
		switch e := e.(object); e["type"] {
		case "reasoning":
			think += parts(e["content"]) + parts(e["summary"])
		case "message":
			text += parts(e["content"])
		case "function_call":
			calls += callText(e["name"].(string), e["arguments"].(string))
		case "custom_tool_call":
			input, _ := json.Marshal(object{"input": e["input"]})
			calls += callText(e["name"].(string), string(input))
		}
	}
	if think != "" {
		think = "<think>" + think + "</think>"
	}
	return think + text + calls
}

func (codex) keep(t *testing.T, recorded []any, served []byte, ids map[string]string) []any {
	t.Helper()
	var items []any
	var calls []string
	for line := range strings.Lines(string(served)) {
		data, ok := strings.CutPrefix(line, "data: ")
		var e struct {
			Type string `json:"type"`
			Item object `json:"item"`
		}
		if !ok || json.Unmarshal([]byte(data), &e) != nil || e.Type != "response.output_item.done" {
			continue
		}
		items = append(items, e.Item)
		if id, ok := e.Item["call_id"].(string); ok {
			calls = append(calls, id)
		}
	}
	for _, e := range recorded {
		if id, ok := e.(object)["call_id"].(string); ok && len(calls) > 0 {
			ids[id], calls = calls[0], calls[1:]
		}
	}
	return items
}

func (codex) rename(entry any, ids map[string]string) any {
	e := maps.Clone(entry.(object))
	if id, ok := e["call_id"].(string); ok {
		e["call_id"] = ids[id]
	}
	return e
}

func (codex) with(body object, history []any) object {
	body = maps.Clone(body)
	body["input"] = history
	return body
}

// chatClient sends chat completions and keeps messages as pi does.
type chatClient struct{ claudeCode }

func (chatClient) text(answer []any) string {
	m := answer[0].(object)
	text, _ := m["content"].(string)
	if think, ok := m["reasoning_content"].(string); ok {
		text = "<think>" + think + "</think>" + text
	}
	calls, _ := m["tool_calls"].([]any)
	for _, c := range calls {
		f := c.(object)["function"].(object)
		text += callText(f["name"].(string), whole(f["arguments"].(string)))
	}
	return text
}

// whole stands in for arguments that are cut in the recording.
func whole(args string) string {
	if strings.Contains(args, "…[") {
		return `{"long":"text"}`
	}
	return args
}

func (chatClient) keep(t *testing.T, recorded []any, served []byte, ids map[string]string) []any {
	t.Helper()
	var res struct {
		Choices []struct {
			Message struct {
				Calls []struct{ ID string } `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal(served, &res); err != nil {
		t.Fatal(err)
	}
	m := maps.Clone(recorded[0].(object))
	calls, _ := m["tool_calls"].([]any)
	calls = slices.Clone(calls)
	for i, c := range calls {
		c := maps.Clone(c.(object))
		id := res.Choices[0].Message.Calls[i].ID
		ids[c["id"].(string)], c["id"] = id, id
		f := maps.Clone(c["function"].(object))
		f["arguments"], c["function"] = whole(f["arguments"].(string)), f
		calls[i] = c
	}
	m["tool_calls"] = calls
	return []any{m}
}

func (chatClient) rename(entry any, ids map[string]string) any {
	m := maps.Clone(entry.(object))
	if id, ok := m["tool_call_id"].(string); ok {
		m["tool_call_id"] = ids[id]
	}
	return m
}

func (chatClient) with(body object, history []any) object {
	body = maps.Clone(body)
	body["messages"], body["stream"] = history, false
	return body
}
