// Package openai speaks OpenAI's two protocols to their clients: Chat
// Completions and Responses.
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

// Chat is the dialect of Chat Completions, as opencode, pi, qwen-code and most
// libraries speak it. All tool calls and the reasoning (reasoning_content) are
// sent and read back.
type Chat struct{}

// Routes lists Chat Completions with and without the version prefix, since
// clients differ in whether their base URL holds it.
func (Chat) Routes() []chat.Route {
	return []chat.Route{
		{Pattern: "POST /v1/chat/completions", Op: chat.OpTurn},
		{Pattern: "POST /chat/completions", Op: chat.OpTurn},
	}
}

// Token returns the bearer token.
func (Chat) Token(r *http.Request) string { return bearer(r) }

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// chatBody is the body of a request as far as it is understood.
type chatBody struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Tools         []chatTool    `json:"tools"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           wire.Count      `json:"max_tokens"`
	MaxCompletionTokens wire.Count      `json:"max_completion_tokens"`
	Stop                json.RawMessage `json:"stop"`
	N                   *int            `json:"n"`
	Functions           json.RawMessage `json:"functions"` // of old, not served
	asked
}

// asked is what a client may ask for beyond what it may choose.
type asked struct {
	Temperature       json.RawMessage `json:"temperature"`
	TopP              json.RawMessage `json:"top_p"`
	TopK              json.RawMessage `json:"top_k"`
	MinP              json.RawMessage `json:"min_p"`
	FrequencyPenalty  json.RawMessage `json:"frequency_penalty"`
	PresencePenalty   json.RawMessage `json:"presence_penalty"`
	RepetitionPenalty json.RawMessage `json:"repetition_penalty"`
	Seed              json.RawMessage `json:"seed"`
	LogitBias         json.RawMessage `json:"logit_bias"`
	ResponseFormat    json.RawMessage `json:"response_format"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
}

// sampling lists what was asked for.
func (a asked) sampling() map[string]any {
	asked := map[string]any{}
	for name, raw := range map[string]json.RawMessage{
		"temperature": a.Temperature, "top_p": a.TopP, "top_k": a.TopK, "min_p": a.MinP,
		"frequency_penalty": a.FrequencyPenalty, "presence_penalty": a.PresencePenalty,
		"repetition_penalty": a.RepetitionPenalty, "sampling_seed": a.Seed, "logit_bias": a.LogitBias,
		"response_format": a.ResponseFormat, "tool_choice": a.ToolChoice,
	} {
		if len(raw) > 0 && string(raw) != "null" && string(raw) != `"auto"` {
			asked[name] = string(raw)
		}
	}
	return asked
}

type chatMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	ReasoningContent *string         `json:"reasoning_content"`
	Reasoning        *string         `json:"reasoning"` // how other servers call it
	ToolCalls        []chatToolCall  `json:"tool_calls"`
	FunctionCall     *chatFunction   `json:"function_call"` // of old, not served
	ToolCallID       string          `json:"tool_call_id"`
}

type chatToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type chatTool struct {
	Type     string    `json:"type"`
	Function *function `json:"function"`
	function           // where Responses has it, and some clients of this protocol too
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

func (f function) tool() chat.Tool {
	return chat.Tool{Name: f.Name, Description: f.Description, Parameters: object(f.Parameters)}
}

// chatWire is what Respond needs of a request.
type chatWire struct {
	usage bool // the client wants the usage in its stream
}

// Decode translates a request.
func (Chat) Decode(r *http.Request, body []byte) (*chat.Request, error) {
	var b chatBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("the body is not a chat completion request: %w", err)
	}
	if len(b.Messages) == 0 {
		return nil, errors.New("messages: at least one is needed")
	}
	if b.N != nil && *b.N != 1 {
		return nil, fmt.Errorf("n: %d answers were asked for, only 1 can be given", *b.N)
	}
	if raw := string(b.Functions); raw != "" && raw != "null" && raw != "[]" {
		return nil, errors.New("functions: send tools, which took their place")
	}
	req := &chat.Request{Model: b.Model, Stream: b.Stream, MaxTokens: int(b.MaxTokens), Wire: chatWire{usage: b.StreamOptions.IncludeUsage}}
	if b.MaxCompletionTokens > 0 {
		req.MaxTokens = int(b.MaxCompletionTokens)
	}
	var err error
	if req.Stop, err = stopStrings(b.Stop); err != nil {
		return nil, err
	}
	if req.Tools, err = chatTools(b.Tools); err != nil {
		return nil, err
	}
	if err := decodeMessages(req, b.Messages); err != nil {
		return nil, err
	}
	req.Sampling = b.sampling()
	req.Kind = chatKind(req)
	return req, nil
}

// chatKind recognises the requests that a client makes beside its agent's
// loop. They offer no tools, and say in their first words what they are for.
func chatKind(req *chat.Request) chat.Kind {
	if len(req.Tools) > 0 || len(req.Messages) == 0 || req.Messages[0].Role != chat.System {
		return chat.Main
	}
	system := strings.ToLower(req.Messages[0].Content)
	if len(system) > 200 {
		system = system[:200]
	}
	switch {
	case strings.Contains(system, "title generator"), strings.Contains(system, "generate a title"), strings.Contains(system, "concise title"):
		return chat.SideCall
	case strings.Contains(system, "summar"):
		return chat.Compaction
	}
	return chat.Main
}

func stopStrings(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var many []string
	if err := json.Unmarshal(raw, &many); err != nil {
		return nil, errors.New("stop: want a string or a list of strings")
	}
	return many, nil
}

func chatTools(tools []chatTool) ([]chat.Tool, error) {
	var out []chat.Tool
	for i, t := range tools {
		if t.Type != "" && t.Type != "function" {
			return nil, fmt.Errorf("tools[%d]: type %q, only \"function\" is served", i, t.Type)
		}
		f := t.function
		if t.Function != nil {
			f = *t.Function
		}
		if f.Name == "" {
			return nil, fmt.Errorf("tools[%d]: a function needs a name", i)
		}
		out = append(out, f.tool())
	}
	return out, nil
}

// object returns a schema, or nil when there is none.
func object(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Echo is the answer as these clients send it back: text, reasoning, all calls.
func (Chat) Echo(_ *chat.Request, a chat.Answer) chat.Message {
	return chat.Message{Role: chat.Assistant, Content: a.Text, Reasoning: a.Reasoning, Turn: a.Turn, ToolCalls: delivered(a)}
}

// delivered lists the calls as they are sent. A malformed one is of a tool that no
// client has, with sound arguments: from text that is no JSON pi makes {}, runs
// the tool with that and keeps it, and opencode keeps a call of another tool.
func delivered(a chat.Answer) []chat.ToolCall {
	var calls []chat.ToolCall
	for _, use := range a.Uses() {
		if use.Call != nil {
			calls = append(calls, *use.Call)
			continue
		}
		bad := map[string]string{"tool": use.Malformed.Tool(), "raw": use.Malformed.Text()}
		args, _ := wire.Marshal(bad) // strings always can be
		calls = append(calls, chat.ToolCall{Name: chat.Malformed{}.Tool(), Arguments: args})
	}
	return calls
}
