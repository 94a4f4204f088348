package parse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// callOfSize is a well-formed output of about size bytes in a format: one call
// with a long value, behind text.
func callOfSize(t testing.TB, name string, size int) (string, []chat.Tool) {
	t.Helper()
	for _, c := range readCases[toolCase](t, "cases/"+name+".jsonl.gz") {
		long := ""
		for _, word := range []string{"ls -la", "git status", "echo hi"} {
			if strings.Count(c.Text, word) == 1 {
				long = word
			}
		}
		if c.Malformed || long == "" || len(c.Calls) != 1 {
			continue
		}
		line := "x = y + 1; "
		text := strings.Replace(c.Text, long, strings.Repeat(line, max(1, size/len(line)))+long, 1)
		return text, chatTools(c.Tools)
	}
	t.Fatalf("%s has no case with a command", name)
	return "", nil
}

func BenchmarkStrict(b *testing.B) { benchmarkTools(b, Strict) }
func BenchmarkCompat(b *testing.B) { benchmarkTools(b, Compat) }

func benchmarkTools(b *testing.B, mode Mode) {
	for _, name := range givenFormats() {
		for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
			text, tools := callOfSize(b, name, size)
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					got, err := ReadTools(name, mode, text, tools, false)
					if err != nil || len(got.Calls) != 1 {
						b.Fatalf("%d calls, error %v", len(got.Calls), err)
					}
				}
			})
		}
	}
}

// markupOf lists what a format's readers look for.
func markupOf(name string) []string {
	xml := []string{callOpen, callClose, functionOpen, functionClose, paramOpen, paramClose, ">", "\n", "x"}
	json := []string{callOpen, callClose, "{", "[", `"`, `\`, "}", `{"name":`, ",", "\n", "1"}
	glm := []string{callOpen, callClose, keyOpen, keyClose, valueOpen, valueClose, "\n", `\n`, "x"}
	ds := []string{dsOpen, dsClose, dsCall, dsCallEnd, dsSep, "function", dsJSON, dsFence, "{", `"`, "}"}
	dsml := func(word string) []string {
		return []string{"<｜DSML｜" + word + ">", "</｜DSML｜" + word + ">", dsmlInvoke + ` name="a">`, dsmlInvoke, dsmlInvokeClose, dsmlParam + ` name="k" string="true">`, dsmlParam + ` name="`, dsmlParamClose, `"`, "{", "x"}
	}
	return map[string][]string{
		"qwen3_coder": xml, "mimo": xml, "qwen25": json, "hermes": json, "glm45": glm, "glm47": glm,
		"kimi_k2":    {kimiOpen, kimiClose, kimiCall, kimiCallEnd, kimiArgument, "functions.a:0", "{", `"`, "}", " "},
		"deepseekv3": ds, "deepseekv31": ds, "deepseekv32": dsml("function_calls"), "deepseekv4": dsml("tool_calls"),
		"gpt-oss":    {hStart, hChannel, hMessage, hConstrain, hEnd, hCall, hReturn, "<|", "|>", "commentary to=functions.a ", "final", "analysis", harmonyToolMark, "{", `"`},
		"minimax-m2": {minimaxOpen, minimaxClose, minimaxInvoke, minimaxInvoke + `a">`, minimaxInvokeClose, minimaxParam, minimaxParam + `k">`, paramClose, `">`, "x"},
		"mistral":    {mistralMark, "[TOOL_CALLS] ", mistralArgs, "[ARGS]", "[", "]", "{", "}", `"`, `{"name":`, ",", "a"},
		"llama3":     {llamaTag, "{", "}", `{"name":`, `{'name':`, `"`, ";", "[", "1", ","},
		"step3":      {stepOpen, stepClose, stepCall, stepCallEnd, stepSep, stepInvoke + `a">`, stepInvoke, stepInvokeClose, stepParam + `k">`, stepParam, stepParamClose, "function", "x"},
		"pythonic":   {"[", "]", "Bash(", "[Bash(", "[Bash(command=", ")", "(", "=", ",", `"`, "'''", "{", "#", "\n", "1"},
	}[name]
}

// A hostile is a text that a format's readers could take quadratic time for:
// a beginning, and two pieces of markup again and again.
type hostile struct{ name, head, unit, tail string }

func hostiles(name string, pairs bool) []hostile {
	marks := markupOf(name)
	seconds := []string{""}
	if pairs {
		seconds = append(seconds, marks...)
	}
	var out []hostile
	for _, a := range marks {
		for _, b := range seconds {
			out = append(out, hostile{head: marks[0], unit: a + b}, hostile{head: strings.Join(marks[:5], ""), unit: a + b, tail: marks[1]})
		}
	}
	for i := range out {
		out[i].name = name
	}
	return out
}

func (h hostile) text(size int) string {
	return h.head + strings.Repeat(h.unit, size/len(h.unit)) + h.tail
}
