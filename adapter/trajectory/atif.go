package trajectory

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// ATIFOptions name what a tree does not know.
type ATIFOptions struct {
	Agent     string // name of the harness; required
	Version   string // of the harness; required
	Model     string // the served model; "" leaves it out
	SessionID string // "" leaves it out
}

// ATIF returns the session in the Agent Trajectory Interchange Format, v1.7,
// as one JSON document: the first segment's conversation at its root, each
// other segment's as an embedded trajectory that the step it came after refers
// to. A step of the model has the ids of its whole prompt, those that it
// sampled and their logprobs: the document's size grows with the square of the
// session's, as the format wants it. Steps that an earlier trajectory shows
// too are marked as copied context, and have no ids. Superseded turns are left out.
func (t *Tree) ATIF(o ATIFOptions) ([]byte, error) {
	if o.Agent == "" || o.Version == "" {
		return nil, fmt.Errorf("atif: agent %q, version %q: the format asks for both", o.Agent, o.Version)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	paths := t.conversations()
	if len(paths) == 0 {
		return nil, fmt.Errorf("atif: the session has no turns")
	}
	w := atifWriter{tree: t, opts: o, shown: map[*turn]*atifStep{}, held: map[*turn]int{}}
	var all []*atifTrajectory
	for i, path := range paths {
		all = append(all, w.trajectory(i, path))
	}
	main := all[0]
	main.Subagents = all[1:]
	return json.Marshal(main)
}

// conversations returns the turns of each segment's path, in export order.
func (t *Tree) conversations() [][]*turn {
	if t.opts.Policy == Exact {
		return t.chains()
	}
	var paths [][]*turn
	t.root.leaves(func(leaf *node) { paths = append(paths, turnsTo(leaf)) })
	return paths
}

type atifTrajectory struct {
	Schema    string            `json:"schema_version"`
	SessionID string            `json:"session_id,omitempty"`
	ID        string            `json:"trajectory_id"`
	Agent     atifAgent         `json:"agent"`
	Steps     []*atifStep       `json:"steps"`
	Final     atifFinal         `json:"final_metrics"`
	Subagents []*atifTrajectory `json:"subagent_trajectories,omitempty"`
	Extra     map[string]any    `json:"extra,omitempty"`
}

type atifAgent struct {
	Name    string     `json:"name"`
	Version string     `json:"version"`
	Model   string     `json:"model_name,omitempty"`
	Tools   []atifTool `json:"tool_definitions,omitempty"`
}

type atifTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type atifFinal struct {
	Prompt     int `json:"total_prompt_tokens"`
	Completion int `json:"total_completion_tokens"`
	Cached     int `json:"total_cached_tokens"`
	Steps      int `json:"total_steps"`
}

type atifStep struct {
	ID          int              `json:"step_id"`
	Time        string           `json:"timestamp,omitempty"`
	Source      string           `json:"source"`
	Model       string           `json:"model_name,omitempty"`
	Message     string           `json:"message"`
	Reasoning   string           `json:"reasoning_content,omitempty"`
	Calls       []atifCall       `json:"tool_calls,omitempty"`
	Observation *atifObservation `json:"observation,omitempty"`
	Metrics     *atifMetrics     `json:"metrics,omitempty"`
	LLMCalls    *int             `json:"llm_call_count,omitempty"`
	Copied      bool             `json:"is_copied_context,omitempty"`
	Extra       map[string]any   `json:"extra,omitempty"`
}

type atifCall struct {
	ID        string          `json:"tool_call_id"`
	Name      string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"`
}

type atifObservation struct {
	Results []atifResult `json:"results"`
}

type atifResult struct {
	CallID    string    `json:"source_call_id,omitempty"`
	Content   string    `json:"content"`
	Subagents []atifRef `json:"subagent_trajectory_ref,omitempty"`
}

type atifRef struct {
	ID string `json:"trajectory_id"`
}

type atifMetrics struct {
	Prompt        int            `json:"prompt_tokens"`
	Completion    int            `json:"completion_tokens"`
	Cached        int            `json:"cached_tokens"`
	PromptIDs     []int32        `json:"prompt_token_ids"`
	CompletionIDs []int32        `json:"completion_token_ids"`
	LogProbs      logProbs       `json:"logprobs,omitempty"`
	Extra         map[string]any `json:"extra,omitempty"`
}

// An atifWriter makes the trajectories of one tree.
type atifWriter struct {
	tree  *Tree
	opts  ATIFOptions
	shown map[*turn]*atifStep // the step that shows a turn first
	held  map[*turn]int       // the trajectory of that step
}

// trajectory writes the conversation that ends with the last turn of chain.
func (w *atifWriter) trajectory(index int, chain []*turn) *atifTrajectory {
	last := chain[len(chain)-1]
	out := &atifTrajectory{
		Schema: "ATIF-v1.7", SessionID: w.opts.SessionID, ID: fmt.Sprintf("segment-%d", index),
		Agent: atifAgent{Name: w.opts.Agent, Version: w.opts.Version, Model: w.opts.Model, Tools: atifTools(w.tree.toolsets[last.tools])},
	}
	label := labelOf(chain, w.held)
	if label == chat.Main {
		label = "main"
	}
	out.Extra = map[string]any{"label": label}
	w.refer(out, chain)
	in := map[*turn]bool{}
	for _, turn := range chain {
		in[turn] = true
	}
	for _, n := range last.node.path() {
		w.step(out, n, in)
	}
	holdAll(w.held, chain, index)
	out.Final = atifTotals(out.Steps)
	return out
}

// atifTotals sums up the steps whose tokens are here.
func atifTotals(steps []*atifStep) atifFinal {
	sum := atifFinal{Steps: len(steps)}
	for _, s := range steps {
		if m := s.Metrics; m != nil {
			sum.Prompt += m.Prompt
			sum.Completion += m.Completion
			sum.Cached += m.Cached
		}
	}
	return sum
}

// refer makes the step that the conversation came after refer to it.
func (w *atifWriter) refer(out *atifTrajectory, chain []*turn) {
	first, before := firstOwn(chain, w.held)
	after := w.tree.predecessor(first, before, w.held)
	step := w.shown[after]
	if step == nil {
		return
	}
	ref := []atifRef{{out.ID}}
	if step.Observation == nil {
		step.Observation = &atifObservation{}
	}
	step.Observation.Results = append(step.Observation.Results, atifResult{Subagents: ref})
	out.Extra["after_turn"] = after.id
}

// step adds one message. Results of tools belong to the step that called them.
func (w *atifWriter) step(out *atifTrajectory, n *node, in map[*turn]bool) {
	m := &n.msg
	if m.Role == chat.ToolRole && len(out.Steps) > 0 && out.Steps[len(out.Steps)-1].Source == "agent" {
		out.Steps[len(out.Steps)-1].observe(m)
		return
	}
	s := &atifStep{ID: len(out.Steps) + 1, Source: m.Role, Message: m.Content, Reasoning: m.Reasoning}
	switch m.Role {
	case chat.Assistant:
		s.Source = "agent"
		s.Model = w.opts.Model
		s.Calls = atifCalls(m, s.ID)
		w.sampled(s, n.turn, in)
	case chat.System:
	default:
		s.Source = "user"
	}
	out.Steps = append(out.Steps, s)
}

// sampled adds what the model did for a step. A step that the client wrote in
// the model's name had no call, and then the format allows no thinking; one
// that another trajectory shows, or whose text was only rendered again, is
// copied context.
func (w *atifWriter) sampled(s *atifStep, t *turn, in map[*turn]bool) {
	if t == nil {
		none := 0
		s.LLMCalls = &none
		if s.Reasoning != "" {
			s.Extra = map[string]any{"reasoning_content": s.Reasoning}
			s.Reasoning = ""
		}
		return
	}
	s.Extra = map[string]any{"turn": t.id, "finish_reason": t.finish}
	if !t.start.IsZero() {
		s.Time = t.start.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	if w.shown[t] != nil || !in[t] {
		s.Copied = true
		return
	}
	w.shown[t] = s
	one := 1
	s.LLMCalls = &one
	ids := t.full().ids()
	s.Metrics = &atifMetrics{
		Prompt: t.prompt, Completion: t.output, Cached: t.cached,
		PromptIDs: ids[:t.prompt], CompletionIDs: ids[t.prompt : t.prompt+t.output], LogProbs: t.logProbs,
	}
	if len(t.versions) > 0 {
		s.Metrics.Extra = map[string]any{"weight_versions": t.versions}
	}
}

// observe adds a tool's result, in the order of the calls.
func (s *atifStep) observe(m *chat.Message) {
	if s.Observation == nil {
		s.Observation = &atifObservation{}
	}
	r := atifResult{Content: m.Content}
	if i := len(s.Observation.Results); i < len(s.Calls) {
		r.CallID = s.Calls[i].ID
	}
	s.Observation.Results = append(s.Observation.Results, r)
}

func atifCalls(m *chat.Message, step int) []atifCall {
	var calls []atifCall
	for i, c := range m.ToolCalls {
		args := c.Arguments
		if trimmed := bytes.TrimSpace(args); !json.Valid(trimmed) || trimmed[0] != '{' {
			args, _ = json.Marshal(map[string]string{"_raw": string(args)}) // a string always marshals
		}
		calls = append(calls, atifCall{ID: fmt.Sprintf("call_%d_%d", step, i), Name: c.Name, Arguments: args})
	}
	return calls
}

func atifTools(tools []chat.Tool) []atifTool {
	var out []atifTool
	for _, t := range tools {
		a := atifTool{Type: "function"}
		a.Function.Name, a.Function.Description, a.Function.Parameters = t.Name, t.Description, t.Parameters
		if !json.Valid(t.Parameters) {
			a.Function.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, a)
	}
	return out
}
