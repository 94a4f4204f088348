package template

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/cases"
)

// moreStops are tokens that, by its generation_config.json, end a turn of a
// model whose template alone is in the cache.
var moreStops = map[string][]string{
	"gemma-4-26B-A4B-it-UD-Q8_K_XL": {"<turn|>", "<|tool_response>"},
	"gpt-oss-20b-Q8_0":              {"<|return|>", "<|call|>"},
}

// realTemplates returns the templates of the cache by name.
func realTemplates(t testing.TB) map[string]*Template {
	t.Helper()
	dir := cases.Cache(t, "templates", "fetch-templates")
	found := map[string]*Template{}
	files, _ := filepath.Glob(filepath.Join(dir, "*.jinja"))
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".jinja")
		tmpl, err := New(string(source), Settings{
			Tokens: map[string]string{"bos_token": "<BOS>", "eos_token": "<EOS>"}, Stops: moreStops[name],
		})
		if err != nil {
			t.Fatalf("New(%s): %v", file, err)
		}
		found[name] = tmpl
	}
	configs, _ := filepath.Glob(filepath.Join(dir, "*", "tokenizer_config.json"))
	for _, file := range configs {
		tmpl, err := Load(filepath.Dir(file))
		if err != nil {
			t.Fatalf("Load(%s): %v", filepath.Dir(file), err)
		}
		found[filepath.Base(filepath.Dir(file))] = tmpl
	}
	return found
}

// wireMessage is a message of the cases.
type wireMessage struct {
	Role      string
	Content   json.RawMessage
	Reasoning string `json:"reasoning_content"`
	ToolCalls []struct {
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	} `json:"tool_calls"`
}

type wireTool struct {
	Function struct {
		Name, Description string
		Parameters        json.RawMessage
	}
}

type conversation struct {
	messages []chat.Message
	tools    []chat.Tool
}

// conversations reads those of the cases that the adapter could have decoded:
// text contents, argument objects.
func conversations(t testing.TB) []conversation {
	t.Helper()
	dir := cases.Dir(t, "templates")
	var list []conversation
	for _, name := range []string{"conversations.json", "fuzz_conversations.json.gz"} {
		var wire []struct {
			Messages []wireMessage
			Tools    []wireTool
		}
		if err := json.Unmarshal(readAll(t, filepath.Join(dir, name)), &wire); err != nil {
			t.Fatal(err)
		}
		for _, w := range wire {
			if c, ok := decode(w.Messages, w.Tools); ok {
				list = append(list, c)
			}
		}
	}
	return list
}

func readAll(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(messages []wireMessage, tools []wireTool) (conversation, bool) {
	var c conversation
	for _, w := range messages {
		m := chat.Message{Role: w.Role, Reasoning: w.Reasoning}
		if len(w.Content) > 0 && json.Unmarshal(w.Content, &m.Content) != nil {
			return c, false
		}
		for _, call := range w.ToolCalls {
			if len(call.Function.Arguments) == 0 || call.Function.Arguments[0] != '{' {
				return c, false
			}
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{Name: call.Function.Name, Arguments: call.Function.Arguments})
		}
		c.messages = append(c.messages, m)
	}
	for _, w := range tools {
		c.tools = append(c.tools, chat.Tool{Name: w.Function.Name, Description: w.Function.Description, Parameters: w.Function.Parameters})
	}
	return c, true
}

// TestRealVerdicts prints the verdict on each real template.
func TestRealVerdicts(t *testing.T) {
	exact := 0
	templates := realTemplates(t)
	for name, tmpl := range templates {
		v := tmpl.Conform(Options{})
		t.Logf("%s\n%s", name, v)
		if v.Policy == Exact {
			exact++
		}
	}
	t.Logf("figure: %d of %d real templates exact in every case that they take", exact, len(templates))
	if len(templates) < 22 {
		t.Errorf("%d templates, want 22", len(templates))
	}
}

// TestRealDeltas compares the deltas after every assistant turn of every
// conversation with whole renderings.
func TestRealDeltas(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	convs := conversations(t)
	run, exact, failed := 0, 0, 0
	for name, tmpl := range realTemplates(t) {
		for _, c := range convs {
			whole, err := tmpl.Render(c.messages, c.tools, Options{})
			if err != nil {
				continue
			}
			for from := 1; from < len(c.messages); from++ {
				if c.messages[from-1].Role != chat.Assistant {
					continue
				}
				run++
				ok, wrong := checkDelta(t, tmpl, c, from, whole)
				if ok {
					exact++
				}
				if wrong != "" {
					if failed++; failed < 10 {
						t.Errorf("%s: %s", name, wrong)
					}
				}
			}
		}
	}
	t.Logf("figure: %d turns continued, %d of them exact, %d wrong", run, exact, failed)
	if run < 1000 || exact < run*9/10 {
		t.Errorf("%d turns continued, %d exact: too few", run, exact)
	}
}

// checkDelta renders what follows one turn and says what is wrong with it.
func checkDelta(t *testing.T, tmpl *Template, c conversation, from int, whole string) (exact bool, wrong string) {
	t.Helper()
	text, exact, err := tmpl.RenderFrom(c.messages, from, c.tools, Options{})
	if err != nil {
		t.Fatalf("RenderFrom: %v", err)
	}
	if !exact {
		return false, ""
	}
	if !strings.HasSuffix(whole, text) {
		return true, fmt.Sprintf("the delta %.200q is not the end of %.400q", text, whole[max(0, len(whole)-len(text)-100):])
	}
	v := tmpl.verdict(len(c.tools) > 0, Options{})
	before := strings.TrimSuffix(whole, text)
	ends := slices.ContainsFunc(append(v.Stops, v.Close), func(stop string) bool { return stop != "" && strings.HasSuffix(before, stop) })
	if role := c.messages[from].Role; !ends && (role == chat.User || role == chat.ToolRole) {
		return true, fmt.Sprintf("the delta begins after %.60q, which ends no turn", before[max(0, len(before)-60):])
	}
	cut, exact, err := tmpl.RenderFrom(c.messages, from, c.tools, Options{Ended: CutInText})
	if err != nil || !exact || !strings.HasSuffix(cut, text) || ends && len(cut) == len(text) {
		return true, fmt.Sprintf("the delta of a cut turn %.200q (%v, %v) does not close the turn before %.200q", cut, exact, err, text)
	}
	return true, ""
}
