package template

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// agentRun is a conversation of about the given size in bytes, as a coding
// agent has it: long results, edits as arguments.
func agentRun(size int) []chat.Message {
	code := strings.Repeat("func f(x int) string {\n\treturn fmt.Sprint(x) // \"x\"\n}\n", 20)
	m := []chat.Message{{Role: chat.System, Content: "be brief"}, {Role: chat.User, Content: "fix it"}}
	for total, i := 0, 0; total < size; i++ {
		args, _ := json.Marshal(map[string]any{"path": "a.go", "old": code, "new": code})
		m = append(m,
			chat.Message{Role: chat.Assistant, Content: fmt.Sprint("step ", i), Reasoning: "hm", ToolCalls: []chat.ToolCall{{Name: "edit", Arguments: args}}},
			chat.Message{Role: chat.ToolRole, Content: code})
		total += len(args) + len(code)
	}
	return m
}

// agentTools are as many and as long as those of a coding agent.
func agentTools() []chat.Tool {
	var list []chat.Tool
	for i := range 15 {
		list = append(list, chat.Tool{Name: fmt.Sprint("tool", i), Description: strings.Repeat("Does something useful. ", 60),
			Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"where"},"n":{"type":"integer","minimum":1}},"required":["path"]}`)})
	}
	return list
}

// contexts are sizes in tokens; a token is about 3.6 bytes.
var contexts = []int{10_000, 50_000, 100_000}

// BenchmarkCanonical renders everything, arguments and schemas parsed anew.
func BenchmarkCanonical(b *testing.B) {
	tmpl, tools := own(b, "chatml"), agentTools()
	for _, tokens := range contexts {
		m := agentRun(tokens * 36 / 10)
		b.Run(fmt.Sprintf("%dk", tokens/1000), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(m, tools, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDelta renders what follows the last turn.
func BenchmarkDelta(b *testing.B) {
	tmpl, tools := own(b, "chatml"), agentTools()
	for _, tokens := range contexts {
		m := agentRun(tokens * 36 / 10)
		b.Run(fmt.Sprintf("%dk", tokens/1000), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, exact, err := tmpl.RenderFrom(m, len(m)-1, tools, Options{}); err != nil || !exact {
					b.Fatal(exact, err)
				}
			}
		})
	}
}

// BenchmarkConform judges a template, as is done once when it is loaded.
func BenchmarkConform(b *testing.B) {
	for b.Loop() {
		own(b, "chatml").Conform(Options{})
	}
}
