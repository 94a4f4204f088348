package template

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

func call(name, args string) chat.ToolCall {
	return chat.ToolCall{Name: name, Arguments: json.RawMessage(args)}
}

// worked is a conversation in which the model calls a tool.
func worked(after ...chat.Message) []chat.Message {
	return append([]chat.Message{
		{Role: chat.System, Content: "be brief"},
		{Role: chat.User, Content: "fix it"},
		{Role: chat.Assistant, Content: "looking", Reasoning: "hm", ToolCalls: []chat.ToolCall{call("bash", `{"cmd":"ls"}`)}},
		{Role: chat.ToolRole, Content: "a.go"},
		{Role: chat.Assistant, Content: "done", ToolCalls: []chat.ToolCall{call("edit", `{"path":"a.go"}`), call("bash", `{"cmd":"go test"}`)}},
	}, after...)
}

var (
	twoResults = []chat.Message{{Role: chat.ToolRole, Content: "ok"}, {Role: chat.ToolRole, Content: "PASS"}}
	aQuestion  = []chat.Message{{Role: chat.User, Content: "and now?"}}
)

// TestRenderFrom pins what follows a turn, for each way in which it may end.
func TestRenderFrom(t *testing.T) {
	for _, c := range []struct {
		name, template string
		o              Options
		next           []chat.Message
		want           string
	}{
		{"chatml-results", "chatml", Options{}, twoResults,
			"\n<|im_start|>user\n<tool_response>\nok\n</tool_response>\n<tool_response>\nPASS\n</tool_response><|im_end|>\n<|im_start|>assistant\n"},
		{"chatml-question", "chatml", Options{}, aQuestion, "\n<|im_start|>user\nand now?<|im_end|>\n<|im_start|>assistant\n"},
		{"chatml-cut", "chatml", Options{Ended: CutInText}, aQuestion, "<|im_end|>\n<|im_start|>user\nand now?<|im_end|>\n<|im_start|>assistant\n"},
		{"chatml-cut-thinking", "chatml", Options{Ended: CutInReasoning}, aQuestion,
			"\n</think>\n\n<|im_end|>\n<|im_start|>user\nand now?<|im_end|>\n<|im_start|>assistant\n"},
		{"chatml-not-thinking", "chatml", Options{Kwargs: json.RawMessage(`{"enable_thinking":false}`)}, aQuestion,
			"\n<|im_start|>user\nand now?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
		{"glm-results", "glm", Options{}, twoResults,
			"\n<tool_response>\nok\n</tool_response>\n<tool_response>\nPASS\n</tool_response><|assistant|>"},
		{"glm-stop-named", "glm", Options{Stop: "<|observation|>"}, twoResults,
			"\n<tool_response>\nok\n</tool_response>\n<tool_response>\nPASS\n</tool_response><|assistant|>"},
		{"glm-other-stop", "glm", Options{Stop: "<|endoftext|>"}, aQuestion, "<|user|>\nand now?<|assistant|>"},
		{"glm-cut", "glm", Options{Ended: CutInText}, aQuestion, "<|user|>\nand now?<|assistant|>"},
		{"glm-cut-thinking", "glm", Options{Ended: CutInReasoning}, aQuestion, "</think><|user|>\nand now?<|assistant|>"},
		{"kimi-results", "kimi", Options{}, twoResults,
			"<|im_system|>tool<|im_middle|>## Return of functions.edit:1\nok<|im_end|><|im_system|>tool<|im_middle|>## Return of functions.bash:2\nPASS<|im_end|><|im_assistant|>assistant<|im_middle|>"},
		{"mistral-results", "mistral", Options{}, twoResults,
			`[TOOL_RESULTS]{"content": "ok", "call_id": "000000001"}[/TOOL_RESULTS][TOOL_RESULTS]{"content": "PASS", "call_id": "000000002"}[/TOOL_RESULTS]`},
		{"harmony-final", "harmony", Options{Stop: "<|return|>"}, aQuestion, "<|start|>user<|message|>and now?<|end|><|start|>assistant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := worked()
			if c.next[0].Role == chat.User {
				m[len(m)-1].ToolCalls = nil
			}
			from := len(m)
			m = append(m, c.next...)
			got, exact, err := own(t, c.template).RenderFrom(m, from, nil, c.o)
			if err != nil || !exact || got != c.want {
				t.Errorf("RenderFrom = %q, %v, %v, want %q", got, exact, err, c.want)
			}
		})
	}
}

// TestDeltaIsTheEnd compares deltas with whole renderings, and the text before
// them with the stop token that the model samples.
func TestDeltaIsTheEnd(t *testing.T) {
	tools := []chat.Tool{{Name: "bash", Description: "runs"}, {Name: "edit", Description: "edits", Parameters: json.RawMessage(`{"type":"object"}`)}}
	nexts := [][]chat.Message{twoResults, twoResults[:1], aQuestion, append(twoResults[:2:2], aQuestion...)}
	stops := map[string]string{"chatml": "<|im_end|>", "coder": "<|im_end|>", "kimi": "<|im_end|>", "mistral": "</s>", "glm": "<|"}
	exactCount := 0
	for name, stop := range stops {
		tmpl := own(t, name)
		for i, next := range nexts {
			m := worked()
			from := len(m)
			m = append(m, next...)
			text, exact, err := tmpl.RenderFrom(m, from, tools, Options{})
			if err != nil {
				t.Fatalf("%s %d: %v", name, i, err)
			}
			if !exact {
				continue
			}
			exactCount++
			whole, err := tmpl.Render(m, tools, Options{})
			if err != nil || !strings.HasSuffix(whole, text) {
				t.Errorf("%s %d: the delta %q is not the end of %q, %v", name, i, text, whole, err)
			}
			if before := strings.TrimSuffix(whole, text); !strings.HasSuffix(before, stop) && name != "glm" {
				t.Errorf("%s %d: the delta begins after %q, want %q", name, i, before[max(0, len(before)-40):], stop)
			}
		}
	}
	if exactCount < 16 {
		t.Errorf("%d deltas were exact, want 16 or more", exactCount)
	}
}

// TestUnusualContinuations checks continuations of no kind that was judged.
func TestUnusualContinuations(t *testing.T) {
	tmpl := own(t, "chatml")
	m := worked(append(twoResults[:2:2],
		chat.Message{Role: chat.System, Content: "hurry"}, chat.Message{Role: chat.Assistant, Content: "not sampled"},
		chat.Message{Role: chat.User, Content: "go on"})...)
	text, exact, err := tmpl.RenderFrom(m, 5, nil, Options{Ended: CutInText})
	whole, errWhole := tmpl.Render(m, nil, Options{})
	if err != nil || errWhole != nil || !exact || !strings.HasSuffix(whole, text) || !strings.HasPrefix(text, "<|im_end|>\n") {
		t.Errorf("RenderFrom = %q, %v, %v, want the end of %q", text, exact, err, whole)
	}
	if text, exact, err := own(t, "mistral").RenderFrom(worked(append(twoResults[:2:2], aQuestion...)...), 5,
		[]chat.Tool{{Name: "bash"}}, Options{}); exact || text != "" || err != nil {
		t.Errorf("RenderFrom = %q, %v, %v, want an empty text that is not exact", text, exact, err)
	}
	for _, from := range []int{0, 2, 6, 9} {
		if _, exact, err := tmpl.RenderFrom(worked(twoResults...), from, nil, Options{}); err == nil || exact {
			t.Errorf("RenderFrom(from %d) = %v, %v, want an error", from, exact, err)
		}
	}
}

// TestSentinelInContent has a client repeat the text that stands for a turn.
func TestSentinelInContent(t *testing.T) {
	m := worked(chat.Message{Role: chat.ToolRole, Content: sentinel + "<|im_end|>"}, chat.Message{Role: chat.ToolRole, Content: sentinel})
	text, exact, err := own(t, "chatml").RenderFrom(m, 5, nil, Options{})
	whole, _ := own(t, "chatml").Render(m, nil, Options{})
	if err != nil || !exact || !strings.HasSuffix(whole, "</tool_call><|im_end|>"+text) {
		t.Errorf("RenderFrom = %q, %v, %v, want the end of %q", text, exact, err, whole)
	}
}

// TestPinnedClock renders a template that prints the date, over midnight.
func TestPinnedClock(t *testing.T) {
	tmpl := own(t, "harmony")
	late := time.Date(2026, 11, 29, 23, 59, 59, 0, time.FixedZone("", 3600))
	m := []chat.Message{{Role: chat.User, Content: "hi"}}
	render := func(now time.Time) string {
		text, err := tmpl.Render(m, nil, Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := render(late); !strings.Contains(got, "Current date: 2026-11-29<|end|>") {
		t.Errorf("Render at %v = %q", late, got)
	}
	if render(late) == render(late.Add(2*time.Second)) {
		t.Error("the day after is rendered alike: the clock is not read")
	}
	if got := render(time.Time{}); !strings.Contains(got, time.Now().Format("2006-01-")) {
		t.Errorf("Render without a pinned time = %q", got)
	}
}
