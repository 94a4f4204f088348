package adapter_test

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
)

// Ids of the byte tokenizer's special tokens.
const (
	imStart = 256
	imEnd   = 257
)

// byteTokenizer has a token for each byte and two special ones.
type byteTokenizer struct{}

func (byteTokenizer) AppendEncode(dst []int32, text string) []int32 {
	for text != "" {
		switch {
		case strings.HasPrefix(text, "<|im_start|>"):
			dst, text = append(dst, imStart), text[len("<|im_start|>"):]
		case strings.HasPrefix(text, "<|im_end|>"):
			dst, text = append(dst, imEnd), text[len("<|im_end|>"):]
		default:
			dst, text = append(dst, int32(text[0])), text[1:]
		}
	}
	return dst
}

func (byteTokenizer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		switch id {
		case imStart:
			b.WriteString("<|im_start|>")
		case imEnd:
			b.WriteString("<|im_end|>")
		default:
			b.WriteByte(byte(id))
		}
	}
	return b.String()
}

func (byteTokenizer) Specials() []token.AddedToken {
	return []token.AddedToken{{ID: imStart, Content: "<|im_start|>", Special: true}, {ID: imEnd, Content: "<|im_end|>", Special: true}}
}

// chatml is a template in the manner of ChatML, with exact deltas.
type chatml struct{}

func (chatml) Render(m []chat.Message, t []chat.Tool, _ template.Options) (string, error) {
	var b strings.Builder
	if len(t) > 0 {
		b.WriteString("<|im_start|>tools")
		for _, tool := range t {
			b.WriteString("\n" + tool.Name + " " + string(tool.Parameters))
		}
		b.WriteString("<|im_end|>\n")
	}
	for _, msg := range m {
		b.WriteString(line(msg))
	}
	return b.String() + "<|im_start|>assistant\n", nil
}

func (chatml) RenderFrom(m []chat.Message, from int, _ []chat.Tool, o template.Options) (string, bool, error) {
	var b strings.Builder
	if o.Ended == template.CutInReasoning {
		b.WriteString("</think>")
	}
	if o.Ended != template.Stopped {
		b.WriteString("<|im_end|>")
	}
	b.WriteString("\n")
	for _, msg := range m[from:] {
		b.WriteString(line(msg))
	}
	return b.String() + "<|im_start|>assistant\n", true, nil
}

func line(m chat.Message) string {
	text := m.Content
	if m.Reasoning != "" {
		text = "<think>" + m.Reasoning + "</think>" + text
	}
	for _, c := range m.ToolCalls {
		text += callText(c.Name, string(c.Arguments))
	}
	return "<|im_start|>" + m.Role + "\n" + text + "<|im_end|>\n"
}

func callText(name, args string) string {
	return `<tool_call>{"name":"` + name + `","arguments":` + args + `}</tool_call>`
}

// hermesish reads <think>…</think> and <tool_call>JSON</tool_call>.
type hermesish struct{}

var callPattern = regexp.MustCompile(`(?s)<tool_call>(.*?)(?:</tool_call>|$)`)

func (hermesish) Parse(in parse.Input) parse.Result {
	var res parse.Result
	text := in.Text
	if rest, ok := strings.CutPrefix(text, "<think>"); ok {
		res.Reasoning, text, _ = strings.Cut(rest, "</think>")
	}
	res.Text, _, _ = strings.Cut(text, "<tool_call>")
	for _, m := range callPattern.FindAllStringSubmatch(text, -1) {
		var c struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		err := json.Unmarshal([]byte(m[1]), &c)
		call := parse.Call{Name: c.Name, Args: c.Arguments, Raw: m[0]}
		if err == nil && strings.HasSuffix(m[0], "</tool_call>") {
			res.Calls = append(res.Calls, call)
		} else {
			_, after, _ := strings.Cut(m[1], `"name":"`)
			call.Name, _, _ = strings.Cut(after, `"`)
			res.Withheld = append(res.Withheld, call)
		}
	}
	return res
}
