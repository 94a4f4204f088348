package demo

import (
	"os"

	"github.com/agentrl-go/agentrl/testdata/tokenizer"
)

// Checkpoint writes the built-in tokenizer and chat template to dir, as a
// checkpoint directory has them.
func Checkpoint(dir string) (string, error) {
	return dir, os.CopyFS(dir, tokenizer.Files)
}
