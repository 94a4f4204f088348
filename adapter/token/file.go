package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxID bounds ids and, with them, the memory that a file can ask for.
const maxID = 1 << 22

// A file is a tokenizer.json taken apart. What is large stays unread in the
// file's own bytes.
type file struct {
	Added        []AddedToken
	Normalizer   *component
	PreTokenizer *component
	Decoder      *component
	Model        model
}

// A component is any of the parts of a pipeline: the type says which, and
// which of the fields it has.
type component struct {
	Type          string
	Normalizers   []component
	PreTokenizers []component
	Decoders      []component
	Pattern       *struct{ String, Regex *string }
	Content       *string
	Behavior      string
	Invert        bool
	Prepend       string
	Start, Stop   int

	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`

	IndividualDigits bool `json:"individual_digits"`
}

type model struct {
	Type                    string
	Dropout                 *float64
	ContinuingSubwordPrefix string `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string `json:"end_of_word_suffix"`
	ByteFallback            bool   `json:"byte_fallback"`
	IgnoreMerges            bool   `json:"ignore_merges"`

	vocab, merges []byte
}

func readFile(data []byte) (*file, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	f := &file{}
	j := &jsonScanner{data: data}
	err := j.object(func(key []byte) error {
		name := string(key)
		raw, err := j.skip()
		if err != nil {
			return err
		}
		if err := f.readPart(name, raw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if j.peek() != 0 {
		return nil, j.errorf("more after the end")
	}
	return f, nil
}

func (f *file) readPart(name string, raw []byte) error {
	switch name {
	case "added_tokens":
		return unmarshal(raw, &f.Added)
	case "normalizer":
		return unmarshal(raw, &f.Normalizer)
	case "pre_tokenizer":
		return unmarshal(raw, &f.PreTokenizer)
	case "decoder":
		return unmarshal(raw, &f.Decoder)
	case "model":
		return f.Model.read(raw)
	case "version":
		if string(raw) != `"1.0"` {
			return fmt.Errorf("%s is not known, only \"1.0\"", raw)
		}
	case "truncation", "padding":
		if string(raw) != "null" {
			return errors.New("it would change the ids of every text: set it to null")
		}
	}
	return nil // post_processor, which only adds special tokens
}

// unmarshal is json.Unmarshal into a fresh value; it refuses half a surrogate
// pair, which would silently become U+FFFD.
func unmarshal[T any](raw []byte, v *T) error {
	j := &jsonScanner{data: raw}
	for {
		i := bytes.IndexByte(j.data[j.pos:], '"')
		if i < 0 {
			break
		}
		j.pos += i
		if _, err := j.str(); err != nil {
			return err
		}
	}
	*v = *new(T)
	return json.Unmarshal(raw, v)
}

// read reads a model, leaving out what is large.
func (m *model) read(raw []byte) error {
	small := []byte{'{'}
	j := &jsonScanner{data: raw}
	err := j.object(func(key []byte) error {
		name := string(key)
		value, err := j.skip()
		switch name {
		case "vocab":
			m.vocab = value
		case "merges":
			m.merges = value
		default:
			quoted, _ := json.Marshal(name)
			small = append(append(append(append(small, quoted...), ':'), value...), ',')
		}
		return err
	})
	if err != nil {
		return err
	}
	return json.Unmarshal(append(bytes.TrimSuffix(small, []byte{','}), '}'), m)
}
