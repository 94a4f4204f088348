package template

import (
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

const chatML = `{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' + m.content }}
{%- for c in m.tool_calls or [] %}
{{- '\n<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func TestChatML(t *testing.T) {
	tmpl, err := New(chatML, Settings{Tokens: map[string]string{"eos_token": "<|im_end|>"}})
	if err != nil {
		t.Fatal(err)
	}
	m := []chat.Message{
		{Role: "user", Content: "hi"},
		{Role: "assistant", Content: "x", ToolCalls: []chat.ToolCall{{Name: "f", Arguments: []byte(`{"b":1e3,"a":1.0}`)}}},
		{Role: "tool", Content: "r"},
	}
	got, err := tmpl.Render(m, nil, Options{})
	want := "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nx\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1000.0, \"a\": 1.0}}\n</tool_call><|im_end|>\n<|im_start|>tool\nr<|im_end|>\n<|im_start|>assistant\n"
	if err != nil || got != want {
		t.Errorf("Render = %q, %v, want %q", got, err, want)
	}
	for _, ended := range []Ended{Stopped, CutInText, CutInReasoning} {
		text, exact, err := tmpl.RenderFrom(m, 2, nil, Options{Ended: ended})
		t.Logf("%v: %q %v %v", ended, text, exact, err)
	}
}
