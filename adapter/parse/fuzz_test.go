package parse

import (
	"encoding/json"
	"slices"
	"testing"
)

func FuzzQwen3Coder(f *testing.F)  { fuzzTools(f, "qwen3_coder") }
func FuzzQwen25(f *testing.F)      { fuzzTools(f, "qwen25") }
func FuzzHermes(f *testing.F)      { fuzzTools(f, "hermes") }
func FuzzGLM45(f *testing.F)       { fuzzTools(f, "glm45") }
func FuzzGLM47(f *testing.F)       { fuzzTools(f, "glm47") }
func FuzzKimiK2(f *testing.F)      { fuzzTools(f, "kimi_k2") }
func FuzzDeepseekV3(f *testing.F)  { fuzzTools(f, "deepseekv3") }
func FuzzDeepseekV31(f *testing.F) { fuzzTools(f, "deepseekv31") }
func FuzzDeepseekV32(f *testing.F) { fuzzTools(f, "deepseekv32") }
func FuzzDeepseekV4(f *testing.F)  { fuzzTools(f, "deepseekv4") }
func FuzzMinimaxM2(f *testing.F)   { fuzzTools(f, "minimax-m2") }
func FuzzMistral(f *testing.F)     { fuzzTools(f, "mistral") }
func FuzzLlama3(f *testing.F)      { fuzzTools(f, "llama3") }
func FuzzGPTOSS(f *testing.F)      { fuzzTools(f, "gpt-oss") }
func FuzzMimo(f *testing.F)        { fuzzTools(f, "mimo") }
func FuzzStep3(f *testing.F)       { fuzzTools(f, "step3") }
func FuzzPythonic(f *testing.F)    { fuzzTools(f, "pythonic") }

// fuzzTools checks what holds for any bytes in one format: no panic, spans
// that tile the text, and of what strict delivers only JSON objects.
func fuzzTools(f *testing.F, name string) {
	var tools []caseTool
	for _, c := range readCases[toolCase](f, "cases/"+name+".jsonl.gz") {
		f.Add(c.Text, false)
		f.Add(c.Text[:len(c.Text)*2/3], true)
		for _, t := range c.Tools {
			if !slices.ContainsFunc(tools, func(o caseTool) bool { return o.Function.Name == t.Function.Name }) {
				tools = append(tools, t)
			}
		}
	}
	offered := chatTools(tools)
	f.Fuzz(func(t *testing.T, text string, cut bool) {
		if _, err := ReadTools(name, Compat, text, offered, cut); err != nil {
			t.Fatal(err)
		}
		got, err := ReadTools(name, Strict, text, offered, cut)
		if err != nil {
			t.Fatal(err)
		}
		checkSpans(t, text, got.Spans)
		for _, c := range got.Calls {
			var args map[string]json.RawMessage
			if err := json.Unmarshal(c.Args, &args); err != nil {
				t.Errorf("call %s(%q) of %q: %v", c.Name, c.Args, text, err)
			}
			if withholds(c.Flags) || c.Name == "" {
				t.Errorf("call %q with flags %q is delivered", c.Name, c.Flags)
			}
		}
	})
}

func FuzzReasoning(f *testing.F) {
	for _, name := range []string{"qwen3", "kimi", "gpt-oss", "gemma4"} {
		for _, c := range readCases[reasoningCase](f, "cases/reasoning_"+name+".jsonl.gz") {
			f.Add(c.Input, "<think>\n")
		}
	}
	f.Fuzz(func(t *testing.T, text, tail string) {
		for _, r := range reasoningFormats() {
			if _, _, err := ReadReasoning(r.name, text, nil); err != nil {
				t.Fatal(err)
			}
			p, err := New("qwen3_coder", r.name, Strict)
			if err != nil {
				t.Fatal(err)
			}
			got := p.Parse(Input{Text: text, PromptTail: tail, Tools: remoteTools()})
			checkSpans(t, text, got.Spans)
		}
	})
}

// FuzzPython checks that what Python's readers take is written as JSON that
// they take again, with the same value.
func FuzzPython(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5e3, NaN], "b": "\ud83d\ude00\n"}`, `{'a': True, 1: (None,), "x": b'y'}`, `[1_000, 0x1F, 1+2j, -0.0, ...]`, `"""a"""r'\d' "b"`, `1e400`, `"\u2028"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, read := range []func(string) (value, error){pyLoads, pyLiteral} {
			v, err := read(s)
			if err != nil {
				continue
			}
			text, err := pyDumps(v)
			if err != nil {
				continue
			}
			again, err := pyLoads(text)
			if err != nil {
				t.Fatalf("%q is written as %q: %v", s, text, err)
			}
			if twice, err := pyDumps(again); err != nil || twice != text {
				t.Fatalf("%q is written as %q, and then as %q: %v", s, text, twice, err)
			}
		}
		numbersAndText(s)
	})
}

// numbersAndText goes through the readers that return no value.
func numbersAndText(s string) {
	i, _ := pyInt(s)
	f, _ := pyParseFloat(s)
	_ = i.repr() + pyFloat(f) + strValue(s).repr() + pyUnescape(s)
}
