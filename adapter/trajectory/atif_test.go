package trajectory_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// An atif is a document as a reader of the format sees it; what it has no
// field for is refused.
type atif struct {
	SchemaVersion string `json:"schema_version"`
	SessionID     string `json:"session_id"`
	TrajectoryID  string `json:"trajectory_id"`
	Agent         struct {
		Name      string           `json:"name"`
		Version   string           `json:"version"`
		ModelName string           `json:"model_name"`
		Tools     []map[string]any `json:"tool_definitions"`
	} `json:"agent"`
	Steps []struct {
		StepID    int    `json:"step_id"`
		Timestamp string `json:"timestamp"`
		Source    string `json:"source"`
		Message   string `json:"message"`
		ModelName string `json:"model_name"`
		Reasoning string `json:"reasoning_content"`
		Calls     []struct {
			ID        string         `json:"tool_call_id"`
			Name      string         `json:"function_name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"tool_calls"`
		Observation *struct {
			Results []struct {
				CallID  string `json:"source_call_id"`
				Content string `json:"content"`
				Refs    []struct {
					ID string `json:"trajectory_id"`
				} `json:"subagent_trajectory_ref"`
			} `json:"results"`
		} `json:"observation"`
		Metrics *struct {
			Prompt        int            `json:"prompt_tokens"`
			Completion    int            `json:"completion_tokens"`
			Cached        int            `json:"cached_tokens"`
			PromptIDs     []int32        `json:"prompt_token_ids"`
			CompletionIDs []int32        `json:"completion_token_ids"`
			LogProbs      []float32      `json:"logprobs"`
			Extra         map[string]any `json:"extra"`
		} `json:"metrics"`
		LLMCalls *int           `json:"llm_call_count"`
		Copied   bool           `json:"is_copied_context"`
		Extra    map[string]any `json:"extra"`
	} `json:"steps"`
	Final struct {
		Prompt     int `json:"total_prompt_tokens"`
		Completion int `json:"total_completion_tokens"`
		Cached     int `json:"total_cached_tokens"`
		Steps      int `json:"total_steps"`
	} `json:"final_metrics"`
	Subagents []atif         `json:"subagent_trajectories"`
	Extra     map[string]any `json:"extra"`
}

var atifOptions = trajectory.ATIFOptions{Agent: "mini", Version: "1", Model: "policy", SessionID: "s"}

func readATIF(t *testing.T, text []byte) atif {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var doc atif
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return doc
}

// checkATIF holds a document against the rules of the format, and its ids and
// logprobs against the engine's log. It returns the turns whose ids it has.
func checkATIF(t *testing.T, p *player, doc atif, known []string) []string {
	t.Helper()
	if doc.SchemaVersion != "ATIF-v1.7" || doc.TrajectoryID == "" || doc.Agent.Name == "" || len(doc.Steps) == 0 {
		t.Errorf("head of %s: %+v", doc.TrajectoryID, doc.Agent)
	}
	var turns []string
	for i, s := range doc.Steps {
		agent := s.Source == "agent"
		if s.StepID != i+1 || !agent && (s.ModelName != "" || s.Reasoning != "" || s.Calls != nil || s.Metrics != nil) {
			t.Errorf("%s: step %d: %+v", doc.TrajectoryID, i, s)
		}
		if agent && s.LLMCalls != nil && *s.LLMCalls == 0 && (s.Metrics != nil || s.Reasoning != "") {
			t.Errorf("%s: step %d has no call of the model, and metrics", doc.TrajectoryID, i)
		}
		if s.Timestamp != "" {
			if _, err := time.Parse(time.RFC3339, s.Timestamp); err != nil {
				t.Error(err)
			}
		}
		if s.Observation != nil {
			for _, r := range s.Observation.Results {
				if r.CallID != "" && !agent {
					t.Errorf("%s: step %d observes a call of another", doc.TrajectoryID, i)
				}
				for _, ref := range r.Refs {
					if !slices.Contains(known, ref.ID) {
						t.Errorf("%s: step %d refers to %q, of %q", doc.TrajectoryID, i, ref.ID, known)
					}
				}
			}
		}
		if m := s.Metrics; m != nil {
			id := s.Extra["turn"].(string)
			c := p.calls[slices.IndexFunc(p.calls, func(c call) bool { return c.turn == id })]
			if !slices.Equal(m.PromptIDs, c.prompt) || !slices.Equal(m.CompletionIDs, c.output) || !slices.Equal(m.LogProbs, c.logProbs) || m.Prompt != len(c.prompt) {
				t.Errorf("%s: step %d is not what the engine was given and gave", doc.TrajectoryID, i)
			}
			turns = append(turns, id)
		}
	}
	return turns
}

func TestATIF(t *testing.T) {
	p := newPlayer(t, trajectory.Options{})
	tools := []chat.Tool{{Name: "Bash", Description: "run", Parameters: []byte(`{"type":"object"}`)}, {Name: "Agent"}}
	h := p.ask(start, reply{think: "hm", text: "dispatch", tools: tools, calls: append(bash(`{"command":"ls"}`), chat.ToolCall{Name: "Agent", Arguments: []byte(`not json`)})})
	p.ask([]chat.Message{sys("an agent"), user("find bug")}, reply{text: "found", kind: chat.Subagent, agent: "a"})
	h = p.ask(plus(h, tool("files"), tool("report")), reply{text: "two", tools: tools, versions: []trajectory.Span{{From: 0, To: 2, Version: "1"}}})
	h[5].Content, h[5].Reasoning = "edited", "mine"
	p.ask(plus(h, user("go on")), reply{text: "three", tools: tools})
	text, err := p.tree.ATIF(atifOptions)
	if err != nil {
		t.Fatal(err)
	}
	doc := readATIF(t, text)
	known := []string{doc.TrajectoryID}
	for _, sub := range doc.Subagents {
		known = append(known, sub.TrajectoryID)
	}
	turns := checkATIF(t, p, doc, known)
	for _, sub := range doc.Subagents {
		turns = append(turns, checkATIF(t, p, sub, known)...)
	}
	slices.Sort(turns)
	if want := []string{"T1", "T2", "T3", "T4"}; !slices.Equal(turns, want) {
		t.Errorf("ids of turns %v, want %v", turns, want)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", " "); err != nil {
		t.Fatal(err)
	}
	golden(t, "atif", pretty.String()+"\n")
}

func TestATIFRefuses(t *testing.T) {
	p := newPlayer(t, trajectory.Options{})
	if _, err := p.tree.ATIF(atifOptions); err == nil {
		t.Error("ATIF of an empty session: no error")
	}
	p.ask(start, reply{text: "one"})
	if _, err := p.tree.ATIF(trajectory.ATIFOptions{}); err == nil {
		t.Error("ATIF without an agent: no error")
	}
}

// TestATIFOverRandomConversations also writes the documents into the folder
// that AGENTRL_ATIF names, for a validator of somebody else's.
func TestATIFOverRandomConversations(t *testing.T) {
	steps, documents := 0, 0
	for seed := range uint64(60) {
		policy := trajectory.Policy(seed % 2)
		c := &client{player: newPlayer(t, trajectory.Options{Policy: policy}), rng: rand.New(rand.NewPCG(seed, 9))}
		c.begin(chat.Main, "")
		for range c.rng.IntN(30) {
			c.step()
		}
		text, err := c.tree.ATIF(atifOptions)
		if err != nil {
			t.Fatal(err)
		}
		doc := readATIF(t, text)
		known := []string{doc.TrajectoryID}
		for _, sub := range doc.Subagents {
			known = append(known, sub.TrajectoryID)
		}
		turns := checkATIF(t, c.player, doc, known)
		for _, sub := range doc.Subagents {
			turns = append(turns, checkATIF(t, c.player, sub, known)...)
		}
		if want := len(c.calls) - len(c.tree.Report().Superseded) - c.tree.Report().Canonical.Merges; len(turns) != want {
			t.Errorf("seed %d: the ids of %d turns, want %d", seed, len(turns), want)
		}
		steps += len(turns)
		documents++
		if dir := os.Getenv("AGENTRL_ATIF"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", seed)), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("figure: %d ATIF documents, %d steps with ids and logprobs as in the engine's log", documents, steps)
}
