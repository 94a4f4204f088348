package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/wire"
)

// Responses is the dialect of the Responses API; Codex speaks nothing else.
// What Codex sends and needs was measured with version 0.171.0.
type Responses struct{}

// Routes lists the endpoint with and without the version prefix.
func (Responses) Routes() []chat.Route {
	return []chat.Route{
		{Pattern: "POST /v1/responses", Op: chat.OpTurn},
		{Pattern: "POST /responses", Op: chat.OpTurn},
	}
}

// Token returns the bearer token.
func (Responses) Token(r *http.Request) string { return bearer(r) }

type responsesBody struct {
	Model              string          `json:"model"`
	Input              json.RawMessage `json:"input"`
	Instructions       string          `json:"instructions"`
	Tools              []responsesTool `json:"tools"`
	Stream             bool            `json:"stream"`
	MaxOutputTokens    wire.Count      `json:"max_output_tokens"`
	PreviousResponseID string          `json:"previous_response_id"`
	asked
}

type responsesTool struct {
	Type   string          `json:"type"`
	Format json.RawMessage `json:"format"` // of a custom tool
	Tools  []responsesTool `json:"tools"`  // of a namespace
	function
}

// An item is one element of the input, of any type.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Summary   json.RawMessage `json:"summary"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"` // a string, but in items that are not read
	Input     json.RawMessage `json:"input"`     // likewise
	Output    json.RawMessage `json:"output"`
}

// responsesWire is what Echo and Respond need of a request.
type responsesWire struct {
	custom map[string]bool   // tools whose input is free text
	names  map[string]called // what the model calls a tool → what the client does
	codex  bool
}

// called is a tool's name on the wire.
type called struct{ namespace, name string }

// Decode translates a request.
func (Responses) Decode(r *http.Request, body []byte) (*chat.Request, error) {
	var b responsesBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("the body is not a Responses request: %w", err)
	}
	if b.PreviousResponseID != "" {
		return nil, errors.New("previous_response_id: nothing is stored here, send the whole input")
	}
	w := responsesWire{custom: map[string]bool{}, names: map[string]called{}, codex: fromCodex(r)}
	req := &chat.Request{Model: b.Model, Stream: b.Stream, MaxTokens: int(b.MaxOutputTokens), Wire: w}
	if err := w.tools(req, "", b.Tools); err != nil {
		return nil, err
	}
	items, err := inputItems(b.Input)
	if err != nil {
		return nil, err
	}
	g := grouper{req: req, h: chat.NewHistory(req), wire: w}
	if b.Instructions != "" {
		g.h.System(b.Instructions)
	}
	for i, it := range items {
		if err := g.add(it); err != nil {
			return nil, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	g.end()
	g.h.Flush()
	if len(req.Messages) == 0 {
		return nil, errors.New("input: at least one message is needed")
	}
	req.Sampling = b.sampling()
	classifyCodex(r, req)
	return req, nil
}

func fromCodex(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Originator"), "codex") || strings.HasPrefix(r.UserAgent(), "codex")
}

func inputItems(raw json.RawMessage) ([]item, error) {
	if _, ok := wire.Unquote(raw); ok || string(raw) == "null" {
		return []item{{Type: "message", Role: "user", Content: raw}}, nil
	}
	var items []item
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("input: want a string or a list of items: %w", err)
	}
	return items, nil
}

// tools flattens namespaces and makes functions of custom tools: the model sees
// plain functions. What OpenAI's servers would execute is dropped.
func (w responsesWire) tools(req *chat.Request, namespace string, tools []responsesTool) error {
	for i, t := range tools {
		tool := t.tool()
		switch t.Type {
		case "function", "":
		case "custom":
			tool = customTool(t)
		case "namespace":
			if err := w.tools(req, t.Name, t.Tools); err != nil {
				return fmt.Errorf("tools[%d]: %w", i, err)
			}
			continue
		default:
			req.Rewrites = append(req.Rewrites, rewriteHosted)
			continue
		}
		if tool.Name == "" {
			return fmt.Errorf("tools[%d]: a %s tool needs a name", i, t.Type)
		}
		wireName := called{namespace, t.Name}
		// Of two that are called alike both ways, one would do.
		for other, taken := w.names[tool.Name]; taken && other != wireName; other, taken = w.names[tool.Name] {
			tool.Name = namespace + "__" + tool.Name
		}
		w.names[tool.Name] = wireName
		w.custom[tool.Name] = t.Type == "custom"
		req.Tools = append(req.Tools, tool)
	}
	return nil
}

// customTool shows a tool with free text input as a function of one string.
// The grammar, where there is one, is part of what the model must know.
func customTool(t responsesTool) chat.Tool {
	description := t.Description
	var format struct {
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	}
	if json.Unmarshal(t.Format, &format) == nil && format.Definition != "" {
		description += "\n\nThe input follows this " + format.Syntax + " grammar:\n" + format.Definition
	}
	return chat.Tool{Name: t.Name, Description: description,
		Parameters: json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`)}
}

// seen is what the model calls a tool that the client calls so.
func (w responsesWire) seen(namespace, name string) string {
	for visible, c := range w.names {
		if c == (called{namespace, name}) {
			return visible
		}
	}
	return name
}

// A grouper makes messages of items: those of one assistant turn are one
// message.
type grouper struct {
	req  *chat.Request
	h    *chat.History
	wire responsesWire

	open  bool // an assistant message is being collected
	msg   chat.Message
	calls []string // its calls' ids
}

func (g *grouper) add(it item) error {
	switch it.Type {
	case "message", "":
		return g.message(it)
	case "reasoning":
		return g.reasoning(it)
	case "function_call":
		g.call(it, chat.ToolCall{Name: g.wire.seen(it.Namespace, it.Name), Arguments: callArguments(it.Arguments)})
	case "custom_tool_call":
		input, _ := wire.Unquote(it.Input)
		g.call(it, chat.ToolCall{Name: g.wire.seen(it.Namespace, it.Name), Arguments: inputOf(input)})
	case "function_call_output", "custom_tool_call_output":
		text, err := contentText(g.req, it.Output)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		g.end()
		g.h.Result(it.CallID, text)
	case "item_reference":
		return errors.New("item_reference: nothing is stored here, send the item")
	default:
		g.req.Rewrites = append(g.req.Rewrites, rewriteHostedUse)
	}
	return nil
}

func (g *grouper) message(it item) error {
	text, err := contentText(g.req, it.Content)
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	switch it.Role {
	case "assistant":
		g.begin(it.ID)
		g.msg.Content += text
		return nil
	case "developer":
		g.req.Rewrites = append(g.req.Rewrites, rewriteDeveloper)
		g.end()
		g.h.System(text)
	case "system":
		g.end()
		g.h.System(text)
	case "user":
		g.end()
		g.h.User(text)
	default:
		return fmt.Errorf("role %q is none of system, developer, user, assistant", it.Role)
	}
	return nil
}

func (g *grouper) reasoning(it item) error {
	text, err := contentText(g.req, it.Content)
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	if text == "" {
		if text, err = contentText(g.req, it.Summary); err != nil {
			return fmt.Errorf("summary: %w", err)
		}
	}
	g.begin(it.ID)
	g.msg.Reasoning += text
	return nil
}

func (g *grouper) call(it item, c chat.ToolCall) {
	id := it.ID
	if chat.TurnOf(id) == "" {
		id = it.CallID
	}
	g.begin(id)
	g.msg.ToolCalls = append(g.msg.ToolCalls, c)
	g.calls = append(g.calls, it.CallID)
}

// begin makes sure that the message being collected is that of the item's
// turn; an item without one belongs to the turn around it.
func (g *grouper) begin(id string) {
	turn := chat.TurnOf(id)
	if g.open && turn != "" && g.msg.Turn != "" && turn != g.msg.Turn {
		g.end()
	}
	if !g.open {
		g.open, g.msg, g.calls = true, chat.Message{Role: chat.Assistant}, nil
	}
	if turn != "" {
		g.msg.Turn = turn
	}
}

func (g *grouper) end() {
	if g.open {
		g.h.Assistant(g.msg, g.calls)
		g.open = false
	}
}

// classifyCodex says what the request is for, from the headers of Codex or,
// where a proxy has taken them off, from its own words.
func classifyCodex(r *http.Request, req *chat.Request) {
	var meta struct {
		RequestKind  string `json:"request_kind"`
		ThreadSource string `json:"thread_source"`
	}
	// No header, or one that is no JSON, says nothing.
	_ = json.Unmarshal([]byte(r.Header.Get("X-Codex-Turn-Metadata")), &meta)
	subagent := meta.ThreadSource == "subagent" || r.Header.Get("X-Openai-Subagent") != ""
	if subagent {
		req.Agent = r.Header.Get("Thread-Id")
		if req.Agent == "" {
			req.Agent = "subagent"
		}
	}
	last := req.Messages[len(req.Messages)-1]
	switch {
	case meta.RequestKind == "compaction",
		last.Role == chat.User && strings.HasPrefix(last.Content, "You are performing a CONTEXT CHECKPOINT COMPACTION"):
		req.Kind = chat.Compaction
	case subagent:
		req.Kind = chat.Subagent
	}
}

// Echo is the answer as Codex sends it back: everything as it was.
func (Responses) Echo(req *chat.Request, a chat.Answer) chat.Message {
	w, _ := req.Wire.(responsesWire)
	m := chat.Message{Role: chat.Assistant, Content: a.Text, Reasoning: a.Reasoning, Turn: a.Turn}
	for _, use := range a.Uses() {
		said := w.said(use)
		call := chat.ToolCall{Name: said.name, Arguments: chat.Arguments(said.text)}
		if said.custom {
			call.Arguments = inputOf(said.text)
		}
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return m
}

// inputOf is the free text of a custom tool as the model writes it.
func inputOf(text string) json.RawMessage {
	data, _ := json.Marshal(map[string]string{"input": text}) // a string always can be
	return data
}

// A said is what goes over the wire for a call.
type said struct {
	name   string // as the model calls the tool
	custom bool   // text is free text, else JSON or what should be
	text   string
}

// said returns what a use becomes. A custom tool takes nothing but text: a call
// without it goes to a tool that nobody has, as Codex fails on it together with
// the calls beside it.
func (w responsesWire) said(use chat.Use) said {
	bad := use.Malformed
	if bad == nil {
		if !w.custom[use.Call.Name] {
			return said{name: use.Call.Name, text: string(use.Call.Arguments)}
		}
		if input, ok := customInput(use.Call); ok {
			return said{use.Call.Name, true, input}
		}
		bad = &chat.Malformed{Raw: string(use.Call.Arguments)}
	}
	if w.custom[bad.Name] {
		bad = &chat.Malformed{Raw: bad.Raw}
	}
	return said{name: bad.Tool(), text: bad.Text()}
}

// customInput returns the free text of a call of a custom tool.
func customInput(c *chat.ToolCall) (string, bool) {
	var args struct {
		Input *string `json:"input"`
	}
	if json.Unmarshal(c.Arguments, &args) != nil || args.Input == nil {
		return "", false
	}
	return *args.Input, true
}
