package template

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// checkpoint writes files into a directory of their own.
func checkpoint(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	const config, jinja = "tokenizer_config.json", "chat_template.jinja"
	user := []chat.Message{{Role: chat.User, Content: "q"}}
	for _, c := range []struct {
		name             string
		files            map[string]string
		plain, withTools string
	}{
		{"string", map[string]string{config: `{"chat_template":"A"}`}, "A", "A"},
		{"list", map[string]string{config: `{"chat_template":[{"name":"default","template":"D"},{"name":"tool_use","template":"T"},{"name":"rag","template":"{% bad"}]}`}, "D", "T"},
		{"list without tool_use", map[string]string{config: `{"chat_template":[{"name":"default","template":"D"}]}`}, "D", "D"},
		{"file wins", map[string]string{config: `{"chat_template":"A"}`, jinja: "F"}, "F", "F"},
		{"file and tool_use", map[string]string{config: `{}`, jinja: "F", "additional_chat_templates/tool_use.jinja": "U"}, "F", "U"},
		{"token as string", map[string]string{config: `{"bos_token":"<s>","chat_template":"{{ bos_token }}"}`}, "<s>", "<s>"},
		{"token as object", map[string]string{config: `{"bos_token":{"__type":"AddedToken","content":"<b>","lstrip":false},"chat_template":"{{ bos_token }}"}`}, "<b>", "<b>"},
		{"token null", map[string]string{config: `{"bos_token":null,"chat_template":"{{ bos_token is defined }}"}`}, "False", "False"},
		{"token absent", map[string]string{config: `{"chat_template":"{{ bos_token is defined }}{{ pad_token }}"}`}, "False", "False"},
		{"extra token", map[string]string{config: `{"extra_special_tokens":{"image_token":"<img>"},"chat_template":"{{ image_token }}"}`}, "<img>", "<img>"},
		{"flag is no token", map[string]string{config: `{"add_bos_token":true,"chat_template":"{{ add_bos_token is defined }}"}`}, "False", "False"},
	} {
		tmpl, err := Load(checkpoint(t, c.files))
		if err != nil {
			t.Errorf("%s: Load: %v", c.name, err)
			continue
		}
		for tools, want := range map[*chat.Tool]string{nil: c.plain, {Name: "t"}: c.withTools} {
			var list []chat.Tool
			if tools != nil {
				list = []chat.Tool{*tools}
			}
			if got, err := tmpl.Render(user, list, Options{}); got != want || err != nil {
				t.Errorf("%s: Render with %d tools = %q, %v, want %q", c.name, len(list), got, err, want)
			}
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, "tokenizer_config.json: no such file"},
		{"no template", map[string]string{"tokenizer_config.json": `{}`}, "this checkpoint has no chat template (a base model?)"},
		{"null template", map[string]string{"tokenizer_config.json": `{"chat_template":null}`}, "has no chat template"},
		{"no default", map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"R"}]}`}, "without a template named default"},
		{"bad JSON", map[string]string{"tokenizer_config.json": `{`}, "unexpected end of JSON"},
		{"bad template", map[string]string{"tokenizer_config.json": `{"chat_template":"{% for %}"}`}, "chat template: template line 1: expected a name"},
		{"bad generation config", map[string]string{"tokenizer_config.json": `{"chat_template":"A"}`, "generation_config.json": `[]`}, "generation_config.json"},
	} {
		if _, err := Load(checkpoint(t, c.files)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Load: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestLoadStops reads the tokens that end a turn from generation_config.json.
func TestLoadStops(t *testing.T) {
	glm, err := os.ReadFile(filepath.Join("testdata", "glm.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	dir := checkpoint(t, map[string]string{
		"chat_template.jinja":    string(glm),
		"tokenizer_config.json":  `{"eos_token":"<|endoftext|>","added_tokens_decoder":{"1":{"content":"<|endoftext|>"},"2":{"content":"<|user|>"},"3":{"content":"<|observation|>"},"4":{"content":"<|assistant|>"}}}`,
		"generation_config.json": `{"eos_token_id":[1,2,3,99]}`,
	})
	tmpl, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tmpl.Conform(Options{}).Stops, " "); got != "<|observation|> <|endoftext|> <|user|>" {
		t.Errorf("Stops = %s", got)
	}
	text, exact, err := tmpl.RenderFrom(worked(twoResults...), 5, nil, Options{})
	if want := "\n<tool_response>\nok\n</tool_response>\n<tool_response>\nPASS\n</tool_response><|assistant|>"; text != want || !exact || err != nil {
		t.Errorf("RenderFrom = %q, %v, %v, want %q", text, exact, err, want)
	}
}
