package jinja

import (
	"fmt"
	"strings"
	"testing"
)

// benchTemplate is a template in the manner of those that serve agents.
const benchTemplate = `{%- for m in messages %}
{%- if m.role == 'tool' %}
    {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
    {{- '\n<tool_response>\n' + m.content + '\n</tool_response>' }}
    {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}
{%- else %}
    {{- '<|im_start|>' + m.role + '\n' + (m.content | trim) }}
    {%- for call in m.tool_calls or [] %}
        {{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}`

// benchBody is a request's body of about size bytes.
func benchBody(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"messages":[{"role":"user","content":"fix it"}`)
	code := strings.Repeat("func f(x int) string {\\n\\treturn fmt.Sprint(x) // \\\"x\\\"\\n}\\n", 20)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"step %d","tool_calls":[{"type":"function","function":{"name":"edit","arguments":{"path":"a.go","n":%d,"text":"%s"}}}]}`, i, i, code)
		fmt.Fprintf(&b, `,{"role":"tool","content":"%s%s"}`, code, code)
	}
	return []byte(b.String() + `]}`)
}

// contexts are the sizes of the benchmarks: tokens, at about 3.6 bytes each.
var contexts = []int{10_000, 50_000, 100_000}

func BenchmarkParseJSON(b *testing.B) {
	for _, tokens := range contexts {
		body := benchBody(tokens * 36 / 10)
		b.Run(fmt.Sprintf("%dk", tokens/1000), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseJSON(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRender(b *testing.B) {
	tmpl, err := Compile(benchTemplate)
	if err != nil {
		b.Fatal(err)
	}
	for _, tokens := range contexts {
		vars, err := ParseJSON(benchBody(tokens * 36 / 10))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%dk", tokens/1000), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(vars); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
