// This program trains the small tokenizer beside it on this repository's own
// Go sources and documents:
//
//	go run ./testdata/tokenizer/train
//
// It writes tokenizer.json, a byte-level BPE with Qwen's pipeline, and
// tokenizer_config.json with the chat template of chat_template.jinja.
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	merges  = 3000
	out     = "testdata/tokenizer"
	pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

//go:embed chat_template.jinja
var chatTemplate string

// The added tokens; only the first three are special, as in Qwen's tokenizers.
var added = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}

const specials = 3

func main() {
	log.SetFlags(0)
	words, err := count(".")
	if err != nil {
		log.Fatal(err)
	}
	t := train(words)
	if err := t.write(); err != nil {
		log.Fatal(err)
	}
}

// count counts the words of the repository's sources and documents.
func count(root string) (map[string]int, error) {
	// Go's engine has no look-ahead; a run of spaces goes with the word after
	// it, less one. For training that is near enough.
	split := regexp.MustCompile(strings.Replace(pattern, `|\s+(?!\S)`, "", 1))
	words := make(map[string]int)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, w := range split.FindAllString(string(data), -1) {
			words[w]++
		}
		return err
	})
	return words, err
}

// A trainer learns merges from words, each with the number of its occurrences.
type trainer struct {
	words  [][]string
	counts []int
	vocab  map[string]int
	merges [][2]string
}

func train(words map[string]int) *trainer {
	t := &trainer{vocab: make(map[string]int)}
	for _, c := range slices.Sorted(maps.Values(alphabet())) {
		t.vocab[c] = len(t.vocab)
	}
	chars := alphabet()
	for _, w := range slices.Sorted(maps.Keys(words)) {
		var symbols []string
		for _, b := range []byte(w) {
			symbols = append(symbols, chars[b])
		}
		t.words = append(t.words, symbols)
		t.counts = append(t.counts, words[w])
	}
	for len(t.merges) < merges {
		pair, n := t.commonest()
		if n < 2 {
			break
		}
		t.merge(pair)
	}
	return t
}

// alphabet gives each byte its printable character, as GPT-2 does.
func alphabet() map[byte]string {
	chars := make(map[byte]string)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if prints := b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad; !prints {
			r = next
			next++
		}
		chars[byte(b)] = string(r)
	}
	return chars
}

// commonest returns the pair with the most occurrences; of equal ones the
// first in order.
func (t *trainer) commonest() (best [2]string, n int) {
	counts := make(map[[2]string]int)
	for i, w := range t.words {
		for k := range len(w) - 1 {
			counts[[2]string{w[k], w[k+1]}] += t.counts[i]
		}
	}
	for pair, count := range counts {
		if count > n || count == n && cmp.Or(cmp.Compare(pair[0], best[0]), cmp.Compare(pair[1], best[1])) < 0 {
			best, n = pair, count
		}
	}
	return best, n
}

func (t *trainer) merge(pair [2]string) {
	joined := pair[0] + pair[1]
	if _, ok := t.vocab[joined]; !ok {
		t.vocab[joined] = len(t.vocab)
	}
	t.merges = append(t.merges, pair)
	for i, w := range t.words {
		merged := w[:0]
		for k := 0; k < len(w); k++ {
			if k+1 < len(w) && w[k] == pair[0] && w[k+1] == pair[1] {
				merged = append(merged, joined)
				k++
				continue
			}
			merged = append(merged, w[k])
		}
		t.words[i] = merged
	}
}

type object = map[string]any

func (t *trainer) write() error {
	var tokens []object
	decoder := make(object)
	for i, content := range added {
		token := object{"content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": i < specials}
		id := len(t.vocab) + i
		decoder[fmt.Sprint(id)] = maps.Clone(token)
		token["id"] = id
		tokens = append(tokens, token)
	}
	level := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	split := object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false}
	model := object{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": "", "end_of_word_suffix": "",
		"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": t.vocab, "merges": t.merges}
	err := writeJSON("tokenizer.json", "", object{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": tokens,
		"normalizer": object{"type": "NFC"}, "pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{split, level}},
		"post_processor": nil, "decoder": level, "model": model})
	if err != nil {
		return err
	}
	return writeJSON("tokenizer_config.json", "  ", object{"added_tokens_decoder": decoder, "bos_token": nil, "eos_token": "<|im_end|>",
		"pad_token": "<|endoftext|>", "clean_up_tokenization_spaces": false, "model_max_length": 131072,
		"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": chatTemplate})
}

func writeJSON(name, indent string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name), b.Bytes(), 0o644)
}
