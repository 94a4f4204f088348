package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Load reads the chat template of a checkpoint's directory as transformers
// does: chat_template.jinja (with additional_chat_templates/tool_use.jinja), or
// else chat_template of tokenizer_config.json, which is a string or a list of
// named templates, of which tool_use is used when tools are given and default
// otherwise. Special tokens are those of tokenizer_config.json; the tokens that
// end a turn are eos_token and the eos_token_id of generation_config.json.
func Load(dir string) (*Template, error) {
	cfg, err := readConfig(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil {
		return nil, err
	}
	set := cfg.settings()
	source, err := cfg.source(dir, &set)
	if err != nil {
		return nil, err
	}
	if set.Stops, err = readStops(dir, cfg); err != nil {
		return nil, err
	}
	t, err := New(source, set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return t, nil
}

// config is what matters here of tokenizer_config.json.
type config struct {
	path     string
	raw      map[string]json.RawMessage
	Template json.RawMessage       `json:"chat_template"`
	Added    map[string]addedToken `json:"added_tokens_decoder"`
}

type addedToken struct {
	Content string `json:"content"`
}

func readConfig(path string) (*config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	cfg := &config{path: path}
	if err := json.Unmarshal(data, &cfg.raw); err != nil {
		return nil, fmt.Errorf("chat template: %s: %w", path, err)
	}
	if err := json.Unmarshal(data, cfg); err != nil {
		return nil, fmt.Errorf("chat template: %s: %w", path, err)
	}
	return cfg, nil
}

// tokenNames are the special tokens that transformers passes to a template.
var tokenNames = [...]string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

func (c *config) settings() Settings {
	set := Settings{Tokens: map[string]string{}}
	for _, name := range tokenNames {
		if token, ok := tokenText(c.raw[name]); ok {
			set.Tokens[name] = token
		}
	}
	var extra map[string]json.RawMessage
	if json.Unmarshal(c.raw["extra_special_tokens"], &extra) == nil {
		for name, raw := range extra {
			if token, ok := tokenText(raw); ok {
				set.Tokens[name] = token
			}
		}
	}
	for _, token := range c.Added {
		set.Added = append(set.Added, token.Content)
	}
	return set
}

// tokenText reads a special token: a string, or an object with its content.
func tokenText(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) == nil && s != nil {
		return *s, true
	}
	var object *addedToken
	if json.Unmarshal(raw, &object) == nil && object != nil {
		return object.Content, true
	}
	return "", false
}

// source finds the template's source, and that of tool_use if there is one.
func (c *config) source(dir string, set *Settings) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if err == nil {
		tools, err := os.ReadFile(filepath.Join(dir, "additional_chat_templates", "tool_use.jinja"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("chat template: %w", err)
		}
		set.ToolUse = string(tools)
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("chat template: %w", err)
	}
	var source *string
	if json.Unmarshal(c.Template, &source) == nil && source != nil {
		return *source, nil
	}
	var named []struct{ Name, Template string }
	if json.Unmarshal(c.Template, &named) == nil && len(named) > 0 {
		sources := map[string]string{}
		for _, n := range named {
			sources[n.Name] = n.Template
		}
		if sources["default"] == "" {
			return "", fmt.Errorf("chat template: %s: chat_template is a list without a template named default", c.path)
		}
		set.ToolUse = sources["tool_use"]
		return sources["default"], nil
	}
	return "", fmt.Errorf("chat template: neither %s nor chat_template in %s: this checkpoint has no chat template (a base model?); put the served model's chat_template.jinja there",
		filepath.Join(dir, "chat_template.jinja"), c.path)
}

// readStops returns the tokens that generation_config.json ends a turn with.
func readStops(dir string, c *config) ([]string, error) {
	path := filepath.Join(dir, "generation_config.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	var g struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if err := json.Unmarshal(data, &g); err != nil {
		return nil, fmt.Errorf("chat template: %s: %w", path, err)
	}
	var ids []int
	var one *int
	if json.Unmarshal(g.EOS, &one) == nil && one != nil {
		ids = []int{*one}
	} else {
		_ = json.Unmarshal(g.EOS, &ids) // anything else names no token
	}
	var stops []string
	for _, id := range ids {
		if token, ok := c.Added[strconv.Itoa(id)]; ok {
			stops = append(stops, token.Content)
		}
	}
	return stops, nil
}

// longestFirst returns the distinct non-empty tokens, longest first.
func longestFirst(tokens []string) []string {
	out := slices.DeleteFunc(slices.Clone(tokens), func(s string) bool { return strings.TrimSpace(s) == "" })
	slices.SortFunc(out, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(out)
}
