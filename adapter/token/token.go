package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// A Tokenizer turns text into ids and back. It never changes and is safe for
// concurrent use.
type Tokenizer struct {
	chars        *charTables
	added        []AddedToken // by id
	addedIDs     map[string]int32
	verbatim     *tokenSet // added tokens that are found in text as it is
	normalized   *tokenSet // added tokens that are found in normalized text
	normalizers  []normalizer
	steps        []splitter
	vocab        *vocab
	byteIDs      [256]int32 // of the tokens that stand for one byte
	ignoreMerges bool
	decoder      decoder
	eos          string
	cache        *wordCache
	encodings    sync.Pool // of *encoding
}

// New makes a Tokenizer of the content of a tokenizer.json. It refuses what it
// could not do exactly, with the reason; the package's documentation lists
// what. It keeps nothing of tokenizerJSON.
func New(tokenizerJSON []byte) (*Tokenizer, error) {
	f, err := readFile(tokenizerJSON)
	if err != nil {
		return nil, fmt.Errorf("token: tokenizer.json: %w", err)
	}
	t, err := f.build()
	if err != nil {
		return nil, fmt.Errorf("token: tokenizer.json: %w", err)
	}
	return t, nil
}

// Load makes a Tokenizer of a checkpoint's directory: of its tokenizer.json
// and, where there is one, its tokenizer_config.json, which names the end of
// sequence and must not add tokens of its own.
func Load(dir string) (*Tokenizer, error) {
	data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("token: %w: want the directory of a downloaded checkpoint that has a tokenizer.json (a hub id is not looked up; a tiktoken.model or tokenizer.model must be converted first)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	t, err := New(data)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "tokenizer_config.json")
	config, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	if err := t.configure(config); err != nil {
		return nil, fmt.Errorf("token: %s: %w", path, err)
	}
	return t, nil
}

// configure reads a tokenizer_config.json. It refuses tokens that tokenizer.json
// does not have as added tokens: Python would add them.
func (t *Tokenizer) configure(data []byte) error {
	var config struct {
		BOS        tokenName            `json:"bos_token"`
		EOS        tokenName            `json:"eos_token"`
		Unknown    tokenName            `json:"unk_token"`
		Separator  tokenName            `json:"sep_token"`
		Padding    tokenName            `json:"pad_token"`
		Class      tokenName            `json:"cls_token"`
		Mask       tokenName            `json:"mask_token"`
		Additional []tokenName          `json:"additional_special_tokens"`
		Added      map[string]tokenName `json:"added_tokens_decoder"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return err
	}
	named := append(config.Additional, config.BOS, config.EOS, config.Unknown, config.Separator, config.Padding, config.Class, config.Mask)
	for _, name := range named {
		if _, ok := t.addedIDs[string(name)]; name != "" && !ok {
			return fmt.Errorf("special token %q is not among the added tokens of tokenizer.json, Python would add it: save the tokenizer again (save_pretrained) so that both agree", name)
		}
	}
	for id, name := range config.Added {
		if known, ok := t.addedIDs[string(name)]; !ok || fmt.Sprint(known) != id {
			return fmt.Errorf("added_tokens_decoder has %q with id %s, which is not among the added tokens of tokenizer.json, Python would add it: save the tokenizer again (save_pretrained) so that both agree", name, id)
		}
	}
	t.eos = string(config.EOS)
	return nil
}

// A tokenName is a token in a tokenizer_config.json: a string, an object with
// the string as its content, or null.
type tokenName string

// UnmarshalJSON reads any of the three.
func (n *tokenName) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return json.Unmarshal(data, (*string)(n))
	}
	var object struct{ Content *string }
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	if object.Content == nil {
		return errors.New("token without content")
	}
	*n = tokenName(*object.Content)
	return nil
}

// ID returns the id of a token, spelled as in tokenizer.json.
func (t *Tokenizer) ID(token string) (id int32, ok bool) {
	if id, ok := t.addedIDs[token]; ok {
		return id, true
	}
	return t.vocab.id([]byte(token))
}

// Token returns what an id is decoded from, spelled as in tokenizer.json;
// normalized added tokens are normalized.
func (t *Tokenizer) Token(id int32) (token string, ok bool) {
	return t.vocab.spelled(id)
}

// EOS returns the id of the eos_token of tokenizer_config.json; false where
// there is none, as after New. What ends an answer of the engine's is rather
// in the checkpoint's generation_config.json.
func (t *Tokenizer) EOS() (id int32, ok bool) {
	if t.eos == "" {
		return 0, false
	}
	return t.ID(t.eos)
}

// VocabSize returns the number of tokens, added ones included, as Python's
// len(tokenizer).
func (t *Tokenizer) VocabSize() int { return t.vocab.count }
