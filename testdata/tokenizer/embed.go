// Package tokenizer holds the small tokenizer and chat template of our own that
// tests and examples use, as a checkpoint directory has them. The program
// beside it made the tokenizer.
package tokenizer

import "embed"

// Files are tokenizer.json and tokenizer_config.json.
//
//go:embed tokenizer.json tokenizer_config.json
var Files embed.FS
