package parse

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A composeCase is one output with what slime's parse_model_output returns.
type composeCase struct {
	ID, Text        string
	Tools           []caseTool
	ToolParser      string `json:"tool_parser"`
	ReasoningParser string `json:"reasoning_parser"`
	Expect          struct {
		Reasoning, Text string
		ToolUses        []struct {
			Name  string
			Input string `json:"input_json"`
		} `json:"tool_uses"`
		IllFormed bool `json:"ill_formed"`
	}
}

func TestComposeCompat(t *testing.T) {
	cases := readCases[composeCase](t, "cases/slime_compose.jsonl.gz")
	for _, c := range cases {
		p, err := New(c.ToolParser, c.ReasoningParser, Compat)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Parse(Input{Text: c.Text, Tools: chatTools(c.Tools)})
		if got.Reasoning != c.Expect.Reasoning || got.Text != c.Expect.Text {
			t.Errorf("%s %q: reasoning %q text %q, want %q %q", c.ID, c.Text, got.Reasoning, got.Text, c.Expect.Reasoning, c.Expect.Text)
		}
		if len(got.Calls) != len(c.Expect.ToolUses) {
			t.Errorf("%s: %d calls, want %d", c.ID, len(got.Calls), len(c.Expect.ToolUses))
			continue
		}
		for i, call := range got.Calls {
			want := c.Expect.ToolUses[i]
			if args := slimeInput(t, call.Args); call.Name != want.Name || args != want.Input {
				t.Errorf("%s: call %s(%s), want %s(%s)", c.ID, call.Name, args, want.Name, want.Input)
			}
			if c.Expect.IllFormed != slices.Contains(call.Flags, InvalidJSONArgs) {
				t.Errorf("%s: flags %q, ill-formed %v", c.ID, call.Flags, c.Expect.IllFormed)
			}
		}
	}
	t.Logf("figure: %d compositions equal slime's", len(cases))
}

// slimeInput is what slime hands on for a call's arguments: those that are no
// JSON are wrapped.
func slimeInput(t *testing.T, args json.RawMessage) string {
	t.Helper()
	v, err := pyLoads(string(args))
	if err != nil {
		d := dictValue()
		d.set(strValue("_raw_arguments"), strValue(string(args)))
		v = d.value()
	}
	out, err := pyDumps(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// strictComposition lists where strict mode reads a composition otherwise than
// slime, with the reason.
func strictComposition() map[string]string {
	return map[string]string{
		"q_json_style":             "JSON under the XML parser is withheld, not text",
		"q_trunc_name":             "a cut call is withheld, not text",
		"q_nan":                    "NaN is no JSON: withheld",
		"no_tp_xml_fallback_typed": "values have the schema's types",
		"no_tp_xml_strip":          "values keep their blanks",
		"no_tp_xml_missing_close":  "an open call is withheld, not text",
		"qwen25_raise_fallback":    "both blocks are no calls in the format: withheld",
		"qwen25_args_string":       "arguments that are no object are withheld",
		"qwen25_args_null":         "arguments that are no object are withheld",
		"kimi_bad_json":            "arguments that are no JSON are withheld",
		"kimi_dup_keys":            "duplicate keys are withheld",
		"glm45_json_file":          "JSON text in a string keeps its bytes",
		"gptoss_call_first":        "a call as the first message is a call",
		"gptoss_plain":             "text without marks is text",
		"minimax_append_think":     "the tag that SGLang puts before the text is no reasoning",
	}
}

func TestComposeStrict(t *testing.T) {
	differs := strictComposition()
	for _, c := range readCases[composeCase](t, "cases/slime_compose.jsonl.gz") {
		p, err := New(c.ToolParser, c.ReasoningParser, Strict)
		if err != nil {
			t.Fatal(err)
		}
		// Whoever knows the ids has taken the stop token off.
		text, want := withoutStop(c.Text), pyStrip(withoutStop(c.Expect.Text))
		got := p.Parse(Input{Text: text, Tools: chatTools(c.Tools)})
		checkSpans(t, text, got.Spans)
		same := got.Reasoning == withoutStop(c.Expect.Reasoning) && got.Text == want && len(got.Calls) == len(c.Expect.ToolUses)
		for i := 0; same && i < len(got.Calls); i++ {
			same = got.Calls[i].Name == c.Expect.ToolUses[i].Name && sameJSON(string(got.Calls[i].Args), c.Expect.ToolUses[i].Input)
		}
		if reason := differs[c.ID]; same == (reason != "") {
			t.Errorf("%s %q: reasoning %q text %q calls %v withheld %v flags %q; same as slime %v, listed as %q",
				c.ID, c.Text, got.Reasoning, got.Text, got.Calls, got.Withheld, got.Flags, same, reason)
		}
	}
}

func withoutStop(text string) string {
	for _, stop := range []string{"<|im_end|>", "<|observation|>", "<｜end▁of▁sentence｜>", "[e~[", "</s>"} {
		text = strings.TrimSuffix(text, stop)
	}
	return text
}

func TestPromptTail(t *testing.T) {
	const call = "<tool_call>\n<function=Ping>\n</function>\n</tool_call>"
	tools := chatTools(readCases[composeCase](t, "cases/slime_compose.jsonl.gz")[0].Tools)
	for _, c := range []struct {
		name, reasoning, tail, text string
		wantReasoning, wantText     string
		flags                       []Flag
	}{
		{"cut in an open thought", "qwen3", "<|im_start|>assistant\n<think>\n", "I should list", "I should list", "", []Flag{ThinkUnclosed}},
		{"open thought closed", "qwen3", "<think>\n", "plan\n</think>\n\nhi", "plan\n", "hi", nil},
		{"thought closed in the prompt", "qwen3", "<think>\n\n</think>\n\n", "Use the <think> tag.", "", "Use the <think> tag.", nil},
		{"thought closed in the prompt, always forced", "deepseek-r1", "<think>\n\n</think>\n\n", "Hi.", "", "Hi.", nil},
		{"no thought in the prompt, forced", "deepseek-r1", "<|assistant|>", "plan</think>Hi.", "plan", "Hi.", nil},
		{"tag in an answer", "qwen3", "<|im_start|>assistant\n", "Use the <think> tag.", "", "Use the <think> tag.", nil},
		{"own tag", "qwen3", "<|im_start|>assistant\n", "<think>plan</think>Hi.", "plan", "Hi.", nil},
		{"call closes the thought", "qwen3", "<think>\n", "plan " + call, "plan ", "", []Flag{ThinkUnclosed}},
		{"call in an open thought", "deepseek-r1", "<think>\n", "plan " + call, "plan " + call, "", []Flag{ThinkUnclosed, CallInOpenThink}},
	} {
		p, err := New("qwen3_coder", c.reasoning, Strict)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Parse(Input{Text: c.text, Tools: tools, PromptTail: c.tail})
		hard := slices.DeleteFunc(slices.Clone(got.Flags), func(f Flag) bool { return f == UnknownTool })
		if got.Reasoning != c.wantReasoning || got.Text != c.wantText || !cmp.Equal(hard, c.flags, cmp.Comparer(func(a, b Flag) bool { return a == b })) && len(hard)+len(c.flags) > 0 {
			t.Errorf("%s: reasoning %q text %q flags %q, want %q %q %q", c.name, got.Reasoning, got.Text, got.Flags, c.wantReasoning, c.wantText, c.flags)
		}
	}
}
