package template

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// wire is what a client sends: numbers spelled in every way, keys repeated and
// in no order.
const wire = `{"z":1e3,"a":1.0,"big":9223372036854775809,"m":{"y":[1.50,-0,1E-7],"b":null},"a":2.0,"t":true,"s":"é\u2028<"}`

// TestWireOrder follows arguments and schemas to the rendered bytes, which are
// those that Python makes of the same text.
func TestWireOrder(t *testing.T) {
	asJSON := `{"z": 1000.0, "a": 2.0, "big": 9223372036854775809, "m": {"y": [1.5, 0, 1e-07], "b": null}, "t": true, "s": "é` + "\u2028" + `<"}`
	compact := strings.NewReplacer(": ", ":", ", ", ",").Replace(asJSON)
	m := []chat.Message{
		{Role: chat.User, Content: "q"},
		{Role: chat.Assistant, ToolCalls: []chat.ToolCall{call("f", wire)}},
		{Role: chat.ToolRole, Content: "r"},
	}
	tools := []chat.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"z":` + wire + `,"b":{}},"required":[],"x":1e3}`)}}
	for _, c := range []struct {
		template string
		want     []string
	}{
		{"chatml", []string{
			`{"name": "f", "arguments": ` + asJSON + `}`,
			`{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"z": ` + asJSON + `, "b": {}}, "required": [], "x": 1000.0}}}`,
		}},
		{"coder", []string{
			"<function=f>\n<parameter=z>\n1000.0\n</parameter>\n<parameter=a>\n2.0\n</parameter>\n<parameter=big>\n9223372036854775809\n</parameter>\n" +
				"<parameter=m>\n{\"y\": [1.5, 0, 1e-07], \"b\": null}\n</parameter>\n<parameter=t>\nTrue\n</parameter>\n<parameter=s>\né\u2028<\n</parameter>\n</function>",
			"<parameter>\n<name>z</name>\n<z>1000.0</z>\n<a>2.0</a>\n<big>9223372036854775809</big>\n<m>{\"y\": [1.5, 0, 1e-07], \"b\": null}</m>\n<t>True</t>",
			"<required>[]</required>\n<x>1000.0</x>\n</parameters>",
		}},
		{"glm", []string{
			"<tool_call>f\n<arg_key>z</arg_key>\n<arg_value>1000.0</arg_value>\n<arg_key>a</arg_key>\n<arg_value>2.0</arg_value>\n" +
				"<arg_key>big</arg_key>\n<arg_value>9223372036854775809</arg_value>\n<arg_key>m</arg_key>\n<arg_value>{\"y\": [1.5, 0, 1e-07], \"b\": null}</arg_value>",
			`"properties": {"z": ` + asJSON,
		}},
		{"kimi", []string{
			"<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>" + asJSON + "<|tool_call_end|>",
			`"properties":{"z":` + compact,
		}},
	} {
		text, err := own(t, c.template).Render(m, tools, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.template, err)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: Render = %s\nit lacks %s", c.template, text, want)
			}
		}
	}
}

// TestValues pins messages and tools as a template sees them.
func TestValues(t *testing.T) {
	m := []chat.Message{
		{Role: chat.User, Content: "see [image omitted]"},
		{Role: chat.Assistant, Reasoning: "r", ToolCalls: []chat.ToolCall{{Name: "f"}, call("g", `{"a":1}`)}},
		{Role: chat.ToolRole, Content: ""}, {Role: chat.ToolRole, Content: "b"}, {Role: chat.ToolRole, Content: "too many"},
		{Role: chat.Assistant, Content: "c"},
	}
	for _, c := range []struct{ source, want string }{
		{`{{ messages }}`, `[{'role': 'user', 'content': 'see [image omitted]'}, {'role': 'assistant', 'content': '', 'reasoning_content': 'r', ` +
			`'tool_calls': [{'type': 'function', 'function': {'name': 'f', 'arguments': {}}}, {'type': 'function', 'function': {'name': 'g', 'arguments': {'a': 1}}}]}, ` +
			`{'role': 'tool', 'content': ''}, {'role': 'tool', 'content': 'b'}, {'role': 'tool', 'content': 'too many'}, {'role': 'assistant', 'content': 'c'}]`},
		{`{{ messages[1].tool_calls | map(attribute='id') | list }}{{ messages[4].tool_call_id is defined }}`, `['000000000', '000000001']False`},
		{`functions.{{ messages[1].tool_calls | map(attribute='id') | list }}{{ messages[3].tool_call_id }}`, `functions.['functions.f:0', 'functions.g:1']functions.g:1`},
		{`{{ tools }}`, `[{'type': 'function', 'function': {'name': 't', 'description': '', 'parameters': {'type': 'object', 'properties': {}}}}]`},
		{`{{ bos_token }}|{{ eos_token is defined }}|{{ documents is none }}|{{ add_generation_prompt }}|{{ deep.er[1] }}`, `<s>|False|True|True|2.0`},
	} {
		tmpl, err := New(c.source, Settings{Tokens: map[string]string{"bos_token": "<s>"}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tmpl.Render(m, []chat.Tool{{Name: "t"}}, Options{Kwargs: json.RawMessage(`{"deep":{"er":[1,2.0]}}`)})
		if err != nil || got != c.want {
			t.Errorf("Render(%s) = %s, %v, want %s", c.source, got, err, c.want)
		}
	}
	tmpl, _ := New(`{{ tools is none }}`, Settings{})
	if got, err := tmpl.Render(m, []chat.Tool{}, Options{}); got != "True" || err != nil {
		t.Errorf("without tools: Render = %q, %v, want True", got, err)
	}
}

// TestBadInput looks for errors that say what is wrong.
func TestBadInput(t *testing.T) {
	user := []chat.Message{{Role: chat.User, Content: "q"}}
	withArgs := func(args string) []chat.Message {
		return append(user[:1:1], chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{call("f", args)}})
	}
	for _, c := range []struct {
		name  string
		m     []chat.Message
		tools []chat.Tool
		o     Options
		want  string
	}{
		{"arguments cut", withArgs(`{"a":`), nil, Options{}, "message 1: arguments of the call to f: JSON at offset 5: unexpected end"},
		{"arguments a list", withArgs(`[1]`), nil, Options{}, "arguments of the call to f: must be a JSON object, not [1]"},
		{"lone surrogate", withArgs(`{"a":"\ud800"}`), nil, Options{}, "lone surrogate"},
		{"schema", user, []chat.Tool{{Name: "t", Parameters: json.RawMessage(`3`)}}, Options{}, "parameters of the tool t: must be a JSON object, not 3"},
		{"kwargs", user, nil, Options{Kwargs: json.RawMessage(`[]`)}, "template kwargs must be a JSON object, not []"},
		{"reserved kwarg", user, nil, Options{Kwargs: json.RawMessage(`{"messages":[]}`)}, "template kwargs may not set messages"},
		{"template's own", []chat.Message{{Role: "narrator", Content: "q"}}, nil, Options{}, "render chat template: template line 1: no narrator"},
		{"bad UTF-8 in a text", []chat.Message{{Role: chat.User, Content: "\xff"}}, nil, Options{}, "message 0 (user) is not valid UTF-8"},
		{"bad UTF-8", withArgs("{\"a\":\"\xff\"}"), nil, Options{}, "not valid UTF-8"},
	} {
		tmpl, err := New(`{% if messages[0].role != 'user' %}{{ raise_exception('no ' ~ messages[0].role) }}{% endif %}{{ messages[0].content }}`, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tmpl.Render(c.m, c.tools, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Render: %v, want %q", c.name, err, c.want)
		}
	}
	for source, want := range map[string]string{
		"":                  "the source is empty",
		"a\n{% block b %}":  "chat template: template line 2: the tag block is not supported here",
		"{{ x | urlize }}":  "the filter urlize is not supported",
		"{{ 'a' | nosuch }": "unexpected '}'",
	} {
		if _, err := New(source, Settings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q): %v, want %q", source, err, want)
		}
	}
}

// TestThinkingSwitch passes enable_thinking both ways.
func TestThinkingSwitch(t *testing.T) {
	tmpl := own(t, "chatml")
	for kwargs, want := range map[string]string{
		``:                          "<|im_start|>assistant\n",
		`{"enable_thinking":true}`:  "<|im_start|>assistant\n",
		`{"enable_thinking":false}`: "<|im_start|>assistant\n<think>\n\n</think>\n\n",
	} {
		got, err := tmpl.Render([]chat.Message{{Role: chat.User, Content: "q"}}, nil, Options{Kwargs: json.RawMessage(kwargs)})
		if err != nil || got != "<|im_start|>user\nq<|im_end|>\n"+want {
			t.Errorf("Render(%s) = %q, %v, want its end %q", kwargs, got, err, want)
		}
	}
}

// TestConcurrentUse renders from many goroutines.
func TestConcurrentUse(t *testing.T) {
	tmpl := own(t, "chatml")
	m := worked(twoResults...)
	want, _, _ := own(t, "chatml").RenderFrom(m, 5, nil, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got, exact, err := tmpl.RenderFrom(m, 5, nil, Options{}); got != want || !exact || err != nil {
					t.Errorf("RenderFrom = %q, %v, %v, want %q", got, exact, err, want)
				}
			}
		})
	}
	wg.Wait()
}
