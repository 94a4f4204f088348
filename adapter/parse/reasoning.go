package parse

import "strings"

// A reasoningFormat splits a thought from what is said.
type reasoningFormat struct {
	name       string
	start, end string
	label      string // follows the start tag
	toolMarker string // a call that closes a thought; "" is none
	forced     bool   // a thought is open at the start unless told otherwise
	fixed      bool   // forced, or not, whatever is told
	harmony    bool
	keep       bool // minimax-append-think: the text with a start tag before it
	dropEnd    bool // an end tag at the start that closes nothing is left out
}

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// reasoningFormats lists the formats that are read here.
func reasoningFormats() []reasoningFormat {
	think := func(name, marker string) reasoningFormat {
		return reasoningFormat{name: name, start: thinkOpen, end: thinkClose, toolMarker: marker}
	}
	always := func(f reasoningFormat) reasoningFormat {
		f.forced, f.fixed = true, true
		return f
	}
	kimi := reasoningFormat{name: "kimi", start: "◁think▷", end: "◁/think▷", fixed: true}
	harmony := reasoningFormat{name: "gpt-oss", start: "<|channel|>analysis<|message|>", end: "<|end|>", harmony: true}
	appendThink := think("minimax-append-think", "")
	appendThink.keep = true
	return []reasoningFormat{
		think("qwen3", callOpen), think("interns1", callOpen), think("glm45", callOpen),
		always(think("qwen3-thinking", callOpen)), always(think("minimax", callOpen)),
		always(think("deepseek-r1", "")), always(think("step3", "")), always(think("step3p5", "")),
		think("deepseek-v3", callOpen), think("deepseek-v4", callOpen),
		think("mimo", callOpen), think("poolside_v1", callOpen),
		think("kimi_k2", "<|tool_calls_section_begin|>"), kimi,
		think("nemotron_3", ""), appendThink, harmony,
		{name: "mistral", start: "[THINK]", end: "[/THINK]"},
		{name: "gemma4", start: "<|channel>", label: "thought\n", end: "<channel|>"},
		think("hunyuan", "<tool_calls>"),
		{name: "minimax-m3", start: "<mm:think>", end: "</mm:think>", dropEnd: true},
		{name: "kimi_k3", start: "<|open|>think<|sep|>", end: "<|close|>think<|sep|>", toolMarker: "<|open|>tools<|sep|>", forced: true},
	}
}

// A thought is where a text's reasoning lies: text[start:end]; what is said
// begins at rest. rest 0 is a text without a thought.
type thought struct {
	start, end, rest int
	closed           bool // by its own tag
	byCall           bool // by a call's markup
}

// split is SGLang's one-shot reading.
func (f *reasoningFormat) split(text string, force *bool) (reasoning, rest string) {
	switch {
	case f.keep:
		return "", f.start + text
	case f.harmony:
		var said, thought strings.Builder
		for _, e := range harmonyEvents(text) {
			switch e.kind {
			case SpanReasoning:
				thought.WriteString(e.text)
			case SpanCall:
				said.WriteString(e.raw)
			default:
				said.WriteString(e.text)
			}
		}
		return thought.String(), said.String()
	}
	t := f.find(text, f.open(force) || strings.Contains(text, f.start))
	return text[t.start:t.end], text[t.rest:]
}

func (f *reasoningFormat) open(force *bool) bool {
	if force == nil || f.fixed {
		return f.forced
	}
	return *force
}

// find returns the thought of a text that has one.
func (f *reasoningFormat) find(text string, in bool) thought {
	t := thought{}
	if !in {
		if f.dropEnd && strings.HasPrefix(text, f.end) {
			t.rest, t.closed = len(f.end), true
		}
		return t
	}
	tag := f.start + f.label
	for strings.HasPrefix(text[t.start:], tag) {
		t.start += len(tag)
	}
	if i := strings.Index(text[t.start:], f.end); i >= 0 {
		t.end = t.start + i
		t.rest = t.end + len(f.end)
		t.closed = true
		return t
	}
	t.end = len(text)
	if f.toolMarker != "" {
		if i := strings.Index(text[t.start:], f.toolMarker); i >= 0 {
			t.end = t.start + i
			t.byCall = true
		}
	}
	t.rest = t.end
	return t
}
