// Package token turns text into the ids of a model's tokenizer and back,
// exactly as Hugging Face's own tokenizers library does with the same
// tokenizer.json, and fast enough to encode at every turn.
package token
