package trajectory_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A canonicalCase is one line of testdata/canonical.jsonl.gz: turns, and the
// samples that slime's TrajectoryManager makes of them.
type canonicalCase struct {
	Name      string          `json:"name"`
	Threshold *int            `json:"fork_threshold"`
	MaxTokens int             `json:"max_sample_tokens"`
	Turns     []canonicalTurn `json:"turns"`
	Samples   []canonicalSample
}

type canonicalTurn struct {
	Prompt    []canonicalMessage `json:"prompt_messages"`
	Response  canonicalMessage   `json:"response_message"`
	PromptIDs []int32            `json:"prompt_ids"`
	OutputIDs []int32            `json:"output_ids"`
	LogProbs  []float32          `json:"logprobs"`
	Finish    string             `json:"finish"`
	IllFormed bool               `json:"ill_formed"`
}

type canonicalMessage struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content"`
	ToolCalls []struct {
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type canonicalSample struct {
	Tokens         []int32   `json:"tokens"`
	ResponseLength int       `json:"response_length"`
	LossMask       []int8    `json:"loss_mask"`
	LogProbs       []float32 `json:"rollout_log_probs"`
	Truncated      bool      `json:"truncated"`
	UseTool        bool      `json:"use_tool"`
	IllFormed      bool      `json:"ill_formed"`
}

func (m canonicalMessage) chat() chat.Message {
	out := chat.Message{Role: m.Role, Content: m.Content, Reasoning: m.Reasoning}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, chat.ToolCall{Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return out
}

func (c canonicalTurn) turn() trajectory.Turn {
	t := trajectory.Turn{
		Echo: c.Response.chat(), PromptIDs: c.PromptIDs, OutputIDs: c.OutputIDs,
		LogProbs: c.LogProbs, Finish: c.Finish, IllFormed: c.IllFormed,
	}
	for _, m := range c.Prompt {
		t.Prompt = append(t.Prompt, m.chat())
	}
	return t
}

// replay makes the samples of a case.
func (c canonicalCase) replay(t *testing.T) []canonicalSample {
	t.Helper()
	opts := trajectory.Options{Policy: trajectory.Canonical}
	if c.Threshold != nil {
		opts.ForkThreshold = *c.Threshold
		if opts.ForkThreshold == 0 {
			opts.ForkThreshold = -1
		}
	}
	tree := trajectory.New(opts)
	for _, turn := range c.Turns {
		if err := tree.Record(turn.turn()); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	segments, err := tree.Segments(c.MaxTokens)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	var samples []canonicalSample
	for _, s := range segments {
		samples = append(samples, canonicalSample{s.Tokens, s.ResponseLength(), s.LossMask, s.LogProbs, s.Truncated, s.UseTool, s.IllFormed})
	}
	return samples
}

func TestCanonicalAgrees(t *testing.T) {
	const want = 268 // lines of the file
	agreed, samples := 0, 0
	for _, c := range canonicalCases(t) {
		if diff := cmp.Diff(c.Samples, c.replay(t), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, diff)
			continue
		}
		agreed++
		samples += len(c.Samples)
	}
	if agreed != want {
		t.Errorf("%d of %d cases agree", agreed, want)
	}
	t.Logf("figure: canonical agreement %d of %d cases, %d samples", agreed, want, samples)
}

func canonicalCases(t *testing.T) []canonicalCase {
	t.Helper()
	f, err := os.Open("testdata/canonical.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []canonicalCase
	lines := bufio.NewScanner(zipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c canonicalCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
