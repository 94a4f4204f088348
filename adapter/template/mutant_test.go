package template

import (
	"strings"
	"testing"
)

// TestMutants changes a template and looks for the change in its verdict.
func TestMutants(t *testing.T) {
	const tail = `{%- if add_generation_prompt %}`
	for _, c := range []struct {
		name, template string
		edit           [2]string
		was, is        string // a part of the verdict before and after
	}{
		{"separator", "chatml", [2]string{`{{- m.content }}`, `{{- m.content if loop.last else m.content ~ ' ' }}`},
			"user text               exact", "user text               canonical"},
		{"think kept", "chatml", [2]string{`loop.index0 > ns.query and (loop.last or m.reasoning_content)`, `m.reasoning_content`},
			"stripped once a user message follows", "earlier thinking        kept"},
		{"think always stripped", "chatml", [2]string{`loop.index0 > ns.query and (loop.last or m.reasoning_content)`, `loop.last and m.reasoning_content`},
			"stripped once a user message follows", "stripped from all turns but the last"},
		{"think never printed", "chatml", [2]string{`(m.reasoning_content or '')`, `''`},
			"stripped once a user message follows", "never printed"},
		{"ids printed", "chatml", [2]string{`'\n<tool_response>\n' ~ m.content`, `'\n<tool_response id=' ~ m.tool_call_id ~ '>\n' ~ m.content`},
			"uses nothing of the turn", "ids of the calls"},
		{"names printed", "chatml", [2]string{`'\n<tool_response>\n' ~ m.content`,
			`'\n<tool_response of=' ~ (messages | selectattr('tool_calls', 'defined') | map(attribute='tool_calls') | list | last)[0].function.name ~ '>\n' ~ m.content`},
			"uses nothing of the turn", "names of the tools called"},
		{"tools last", "chatml", [2]string{tail, `{%- if tools %}{{ '<|im_start|>tools\n' ~ tools | tojson ~ '<|im_end|>\n' }}{% endif %}` + tail},
			"tool result             exact", "tool result             canonical: the end of the last message changes"},
		{"tools in the last user message", "chatml", [2]string{`~ m.content ~ '<|im_end|>\n' }}
    {%- elif m.role == 'assistant'`, `~ (tools | tojson if tools and loop.index0 == ns.query else '') ~ m.content ~ '<|im_end|>\n' }}
    {%- elif m.role == 'assistant'`}, "user text               exact", "user text               canonical: text before a message of the role user changes"},
		{"history counted", "chatml", [2]string{`{{- '\n<tool_response>\n' ~ m.content`, `{{- '\n<tool_response n=' ~ loop.index ~ '>\n' ~ m.content`},
			"tool result             exact", "tool result             canonical: what follows a turn depends on what came before"},
		{"arguments repeated", "kimi", [2]string{`'## Return of ' ~ m.tool_call_id`, `'## Return of ' ~ (messages | selectattr('tool_calls', 'defined') | list | last).tool_calls[0].function.arguments | tojson`},
			"tool result             exact", "tool result             canonical: text before a message of the role tool changes"},
		{"single calls", "chatml", [2]string{`{%- for call in m.tool_calls or [] %}`, `{%- for call in m.tool_calls or [] %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif %}`},
			"several tool results    exact", "several tool results    refused by the template: template line 24: one call only"},
		{"other closing token", "chatml", [2]string{`<|im_end|>`, `<|eot|>`}, `closes a cut turn       "<|im_end|>"`, `closes a cut turn       "<|eot|>"`},
		{"tools move with each result", "mistral", [2]string{`loop.index0 == last.user`, `loop.last`},
			"tool result             exact", "tool result             canonical"},
		{"tools first", "mistral", [2]string{`loop.index0 == last.user`, `loop.index0 < 2`},
			"user text               canonical", "user text               exact, prefix-stable"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			if got := own(t, c.template).Conform(Options{}).String(); !strings.Contains(got, c.was) {
				t.Errorf("the verdict before the change lacks %q:\n%s", c.was, got)
			}
			got := own(t, c.template, c.edit[0], c.edit[1]).Conform(Options{}).String()
			if !strings.Contains(got, c.is) || strings.Contains(got, c.was) {
				t.Errorf("the verdict after the change lacks %q, or still has %q:\n%s", c.is, c.was, got)
			}
		})
	}
}
