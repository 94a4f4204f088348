// Package anthropic speaks the Anthropic Messages protocol to its clients, of
// which Claude Code is the one that matters. What it sends, needs and changes
// was measured with versions 2.1.197 and 2.1.332.
package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf16"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/wire"
)

// Messages is the dialect.
type Messages struct{}

// Routes lists the endpoints.
func (Messages) Routes() []chat.Route {
	return []chat.Route{
		{Pattern: "POST /v1/messages", Op: chat.OpTurn},
		{Pattern: "POST /v1/messages/count_tokens", Op: chat.OpCount},
	}
}

// Token returns the bearer token, else the x-api-key.
func (Messages) Token(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && token != "" {
		return strings.TrimSpace(token)
	}
	return r.Header.Get("X-Api-Key")
}

// body is a request as far as it is understood.
type body struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	System        json.RawMessage `json:"system"`
	Tools         []tool          `json:"tools"`
	MaxTokens     wire.Count      `json:"max_tokens"`
	StopSequences []string        `json:"stop_sequences"`
	Stream        bool            `json:"stream"`
	Temperature   json.RawMessage `json:"temperature"`
	TopP          json.RawMessage `json:"top_p"`
	TopK          json.RawMessage `json:"top_k"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	cacheMark
}

// A cacheMark is where a client wants Anthropic's cache to end: at the newest
// message, so it moves with every turn.
type cacheMark struct {
	Control json.RawMessage `json:"cache_control"`
}

func (m cacheMark) note(req *chat.Request) {
	if len(m.Control) > 0 && string(m.Control) != "null" {
		req.Rewrites = append(req.Rewrites, rewriteCache)
	}
}

// A block is one element of a content, of any type.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	cacheMark
}

// Names of the canonicalisations that the decoder applies, beside those of
// chat.History.
const (
	rewriteBilling    = "billing_header_dropped"
	rewriteCache      = "cache_control_dropped"
	rewriteServerTool = "server_tool_dropped"
	rewriteMedia      = "media_omitted"
)

// Decode translates a request.
func (Messages) Decode(r *http.Request, data []byte) (*chat.Request, error) {
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("the body is not a Messages request: %w", err)
	}
	if len(b.Messages) == 0 {
		return nil, errors.New("messages: at least one is needed")
	}
	req := &chat.Request{Model: b.Model, Stream: b.Stream, MaxTokens: int(b.MaxTokens), Stop: b.StopSequences}
	if err := decodeTools(req, b.Tools); err != nil {
		return nil, err
	}
	h := chat.NewHistory(req)
	if err := decodeSystem(req, h, b.System); err != nil {
		return nil, err
	}
	for i, m := range b.Messages {
		if err := decodeMessage(req, h, m); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	h.Flush()
	if len(req.Messages) == 0 {
		return nil, errors.New("messages: all of them are empty")
	}
	req.Sampling = b.sampling()
	classify(r, req)
	return req, nil
}

// decodeTools keeps the tools that the client executes. Those that Anthropic's
// servers would execute have a type, and nobody here to serve them.
func decodeTools(req *chat.Request, tools []tool) error {
	for i, t := range tools {
		t.note(req)
		if t.Type != "" && t.Type != "custom" {
			req.Rewrites = append(req.Rewrites, rewriteServerTool)
			continue
		}
		if t.Name == "" {
			return fmt.Errorf("tools[%d]: a tool needs a name", i)
		}
		schema := t.InputSchema
		if string(schema) == "null" {
			schema = nil
		}
		req.Tools = append(req.Tools, chat.Tool{Name: t.Name, Description: t.Description, Parameters: schema})
	}
	return nil
}

// decodeSystem joins the system blocks. The billing header, which Claude Code
// puts first unless it is told not to, differs from one conversation to the
// next.
func decodeSystem(req *chat.Request, h *chat.History, raw json.RawMessage) error {
	blocks, err := blocksOf(req, raw)
	if err != nil {
		return fmt.Errorf("system: %w", err)
	}
	var parts []string
	for _, b := range blocks {
		if strings.HasPrefix(b.Text, "x-anthropic-billing-header:") {
			req.Rewrites = append(req.Rewrites, rewriteBilling)
			// It is a line: a client that sends one text has its prompt after it.
			_, b.Text, _ = strings.Cut(b.Text, "\n")
		}
		if b.Text != "" {
			parts = append(parts, b.Text)
		}
	}
	if len(parts) > 0 {
		h.System(strings.Join(parts, "\n\n"))
	}
	return nil
}

// blocksOf reads a content: null, a string, or blocks.
func blocksOf(req *chat.Request, raw json.RawMessage) ([]block, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if text, ok := wire.Unquote(raw); ok {
		return []block{{Type: "text", Text: text}}, nil
	}
	var blocks []block
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, fmt.Errorf("want a string or a list of content blocks: %w", err)
	}
	for _, b := range blocks {
		b.note(req)
	}
	return blocks, nil
}

func decodeMessage(req *chat.Request, h *chat.History, m message) error {
	blocks, err := blocksOf(req, m.Content)
	if err != nil {
		return err
	}
	switch m.Role {
	case "assistant":
		msg, ids := assistant(blocks)
		h.Assistant(msg, ids)
		return nil
	case "system":
		h.System(textOf(req, blocks))
		return nil
	case "user":
		for _, b := range blocks {
			if b.Type != "tool_result" {
				h.User(textOf(req, []block{b}))
				continue
			}
			content, err := blocksOf(req, b.Content)
			if err != nil {
				return fmt.Errorf("tool_result: %w", err)
			}
			h.Result(b.ToolUseID, textOf(req, content))
		}
		return nil
	}
	return fmt.Errorf("role %q is none of user, assistant, system", m.Role)
}

// textOf joins the text of blocks; what is no text is named.
func textOf(req *chat.Request, blocks []block) string {
	var b strings.Builder
	for _, block := range blocks {
		if block.Type == "text" || block.Type == "" {
			b.WriteString(block.Text)
			continue
		}
		req.Rewrites = append(req.Rewrites, rewriteMedia)
		b.WriteString("[" + block.Type + " omitted]")
	}
	return b.String()
}

// assistant makes one message of an assistant's blocks, whatever their order:
// Claude Code moves text before calls.
func assistant(blocks []block) (chat.Message, []string) {
	m := chat.Message{Role: chat.Assistant}
	var ids []string
	mark := func(id string) {
		if turn := chat.TurnOf(id); turn != "" {
			m.Turn = turn
		}
	}
	for _, b := range blocks {
		switch b.Type {
		case "text", "":
			m.Content += b.Text
		case "thinking":
			m.Reasoning += b.Thinking
			mark(b.Signature)
		case "redacted_thinking":
			mark(b.Data)
		case "tool_use":
			input := b.Input
			if len(input) == 0 || string(input) == "null" {
				input = json.RawMessage("{}")
			}
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{Name: b.Name, Arguments: input})
			ids = append(ids, b.ID)
			mark(b.ID)
		}
	}
	return m, ids
}

// classify says what the request is for.
func classify(r *http.Request, req *chat.Request) {
	req.Agent = r.Header.Get("X-Claude-Code-Agent-Id")
	claude := strings.HasPrefix(r.UserAgent(), "claude-cli/")
	last := req.Messages[len(req.Messages)-1]
	switch {
	case last.Role == chat.User && strings.HasPrefix(last.Content, "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."):
		req.Kind = chat.Compaction
	case claude && len(req.Tools) == 0:
		// Titles, quota probes, web searches: an agent's loop always has tools.
		req.Kind = chat.SideCall
	case req.Agent != "":
		req.Kind = chat.Subagent
	}
}

// sampling lists what the client asks for beyond what it may choose.
func (b body) sampling() map[string]any {
	asked := map[string]any{}
	for name, raw := range map[string]json.RawMessage{"temperature": b.Temperature, "top_p": b.TopP, "top_k": b.TopK} {
		if len(raw) > 0 && string(raw) != "null" {
			asked[name] = string(raw)
		}
	}
	return asked
}

// Echo is the answer as Claude Code keeps it: thinking, text and calls; text
// that is blank was not sent, and input that is no JSON comes back wrapped.
func (Messages) Echo(req *chat.Request, a chat.Answer) chat.Message {
	m := chat.Message{Role: chat.Assistant, Reasoning: a.Reasoning, Turn: a.Turn}
	if strings.TrimSpace(a.Text) != "" {
		m.Content = a.Text
	}
	for _, use := range a.Uses() {
		bad := use.Malformed
		switch {
		case bad == nil:
			m.ToolCalls = append(m.ToolCalls, *use.Call)
		case !req.Stream:
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{Name: unknownTool, Arguments: mustJSON(malformedInput(*bad))})
		default:
			wrapped := map[string]any{"__unparsedToolInput": map[string]any{"raw": bad.Text(), "len": len(utf16.Encode([]rune(bad.Text())))}}
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{Name: bad.Tool(), Arguments: mustJSON(wrapped)})
		}
	}
	return m
}

// unknownTool is what a malformed call is named where its input has to be an
// object: a tool that no client has.
const unknownTool = "malformed_tool_call"

func malformedInput(m chat.Malformed) map[string]any {
	return map[string]any{"tool": m.Tool(), "raw": m.Text()}
}

// mustJSON marshals strings and numbers in maps, which cannot fail.
func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
