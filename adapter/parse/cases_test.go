package parse

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A toolCase is one input with what SGLang returns for it.
type toolCase struct {
	ID, Parser, Note string
	Malformed        bool
	Why              string
	Text             string
	Tools            []caseTool
	HasToolCall      bool   `json:"has_tool_call"`
	NormalText       string `json:"normal_text"`
	Calls            []struct{ Name, Arguments string }
	Error            *string
}

type caseTool struct {
	Function struct {
		Name        string
		Description string
		Parameters  json.RawMessage
	}
}

func chatTools(in []caseTool) []chat.Tool {
	var out []chat.Tool
	for _, t := range in {
		out = append(out, chat.Tool{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	return out
}

// readCases reads a gzipped file of JSON lines below testdata.
func readCases[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s line %d: %v", path, len(out)+1, err)
		}
		out = append(out, one)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
