package token

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	model := func(change func(m object)) func(object) {
		return func(f object) { change(f["model"].(object)) }
	}
	split := func(pattern any, behavior string) func(object) {
		return func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{
				object{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": false},
				object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}}
		}
	}
	regex := func(re string) func(object) { return split(object{"Regex": re}, "Isolated") }
	added := func(tokens ...any) func(object) { return func(f object) { f["added_tokens"] = tokens } }
	part := func(name string, value any) func(object) { return func(f object) { f[name] = value } }
	for _, tt := range []struct {
		name   string
		change func(object)
		want   string
	}{
		{"Unigram", model(func(m object) { m["type"] = "Unigram" }), "only BPE"},
		{"dropout", model(func(m object) { m["dropout"] = 0.1 }), "dropout"},
		{"prefix", model(func(m object) { m["continuing_subword_prefix"] = "##" }), "continuing_subword_prefix"},
		{"suffix", model(func(m object) { m["end_of_word_suffix"] = "</w>" }), "end_of_word_suffix"},
		{"no merges", model(func(m object) { delete(m, "merges") }), "missing"},
		{"byte missing", model(func(m object) { delete(m["vocab"].(object), "!") }), "byte 0x21"},
		{"id twice", model(func(m object) { m["vocab"].(object)["zzzz"] = 7 }), "twice"},
		{"id too large", model(func(m object) { m["vocab"].(object)["zzzz"] = 1 << 22 }), "id below"},
		{"id negative", model(func(m object) { m["vocab"].(object)["zzzz"] = -1 }), "id below"},
		{"merge unknown", model(func(m object) { m["merges"] = []any{[]any{"zq", "qz"}} }), "not in the vocabulary"},
		{"merges mixed", model(func(m object) { m["merges"] = []any{[]any{"Ġ", "Ġ"}, "Ġ Ġ"} }), "want '['"},
		{"merge of three", model(func(m object) { m["merges"] = []any{[]any{"Ġ", "Ġ", "Ġ"}} }), "two tokens"},
		{"merge of one", model(func(m object) { m["merges"] = []any{"Ġ"} }), "two tokens"},
		{"not byte-level", part("pre_tokenizer", nil), "byte_fallback"},
		{"Metaspace", part("pre_tokenizer", object{"type": "Metaspace"}), `"Metaspace" is not known`},
		{"after ByteLevel", part("pre_tokenizer", object{"type": "Sequence", "pretokenizers": []any{
			object{"type": "ByteLevel", "add_prefix_space": false}, object{"type": "Digits"}}}), "after ByteLevel"},
		{"NFKC", part("normalizer", object{"type": "NFKC"}), `"NFKC" is not known`},
		{"Replace by regex", part("normalizer", object{"type": "Replace", "pattern": object{"Regex": "a+"}, "content": ""}), "String pattern"},
		{"WordPiece decoder", part("decoder", object{"type": "WordPiece"}), `"WordPiece" is not known`},
		{"truncation", part("truncation", object{"max_length": 9}), "truncation"},
		{"padding", part("padding", object{"pad_id": 0}), "padding"},
		{"version", part("version", "2.0"), "2.0"},
		{"behavior", split(object{"String": " "}, "Sideways"), "Sideways"},
		{"no pattern", split(nil, "Isolated"), "without a pattern"},
		{"look-behind", regex(`(?<=a)b`), "group"},
		{"look-ahead", regex(`a(?=b)`), "group"},
		{"capture", regex(`(a)b`), "group"},
		{"repeated group", regex(`(?:ab)+`), "optional"},
		{"lazy", regex(`a+?`), "lazy"},
		{"possessive bounds", regex(`a{1,2}+`), "after {}"},
		{"anchor", regex(`^a`), "not known here"},
		{"property", regex(`\p{Greek}+`), "Greek"},
		{"word class", regex(`\w+`), `\w`},
		{"POSIX class", regex(`[[:alpha:]]+`), "class"},
		{"empty match", regex(`a*`), "empty string"},
		{"folded letter", regex(`(?i:k)`), "case-insensitive"},
		{"folded pair", regex(`(?i:st)`), "case-insensitive"},
		{"open class", regex(`[a`), "class without end"},
		{"open group", regex(`(?:a`), "group without end"},
		{"added twice", added(object{"id": 3256, "content": "<a>"}, object{"id": 3257, "content": "<a>"}), "twice"},
		{"added empty", added(object{"id": 3256, "content": ""}), "empty"},
		{"added id", added(object{"id": 4000, "content": "<a>"}), "would give it 3256"},
		{"added alike", added(object{"id": 3256, "content": "a\u0323", "normalized": true}, object{"id": 3257, "content": "\u1ea1", "normalized": true}), "same as another"},
	} {
		_, err := New(smallJSON(t, tt.change))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: New: %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

func TestNewRefusesBrokenJSON(t *testing.T) {
	whole := smallJSON(t, func(object) {})
	for _, data := range []string{"", "[]", "null", "{", string(whole[:len(whole)/2]), string(whole) + "x", `{"model": {"vocab": {"\ud800": 1}, "merges": []}}`, "{\"a\xff\": 1}"} {
		if _, err := New([]byte(data)); err == nil {
			t.Errorf("New(%.40q): no error", data)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	if _, err := Load("Qwen/Qwen3-8B"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "hub id") {
		t.Errorf("Load of a hub id: %v", err)
	}
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.json", string(smallJSON(t, func(object) {})))
	if tok, err := Load(dir); err != nil {
		t.Errorf("Load without a tokenizer_config.json: %v", err)
	} else if _, ok := tok.EOS(); ok {
		t.Error("EOS without a tokenizer_config.json: want none")
	}
	write("tokenizer_config.json", `{"eos_token": {"content": "<|im_end|>"}, "added_tokens_decoder": {"9000": {"content": "<extra>"}}}`)
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "<extra>") {
		t.Errorf("Load with a token that Python would add: %v", err)
	}
	for _, config := range []string{`{"pad_token": "<pad>"}`, `{"additional_special_tokens": ["user"]}`} {
		write("tokenizer_config.json", config)
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "Python would") {
			t.Errorf("Load with %s: %v", config, err)
		}
	}
	write("tokenizer_config.json", `{"eos_token": {"content": "<|im_end|>", "lstrip": false}}`)
	if tok, err := Load(dir); err != nil {
		t.Errorf("Load with an eos_token that is an object: %v", err)
	} else if id, _ := tok.EOS(); id != 3258 {
		t.Errorf("EOS() = %d, want 3258", id)
	}
}
