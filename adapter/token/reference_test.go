package token

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/agentrl-go/agentrl/internal/cases"
)

// A question is put to the reference implementation; testdata/reference
// says which there are.
type question struct {
	Op   string  `json:"op"`
	Text string  `json:"text"`
	File string  `json:"file,omitempty"`
	IDs  []int32 `json:"ids,omitempty"`
	Runs int     `json:"runs,omitempty"`
}

type answer struct {
	IDs     []int32
	Text    string
	Seconds float64
	Error   string
}

// askReference puts questions about a tokenizer.json to the reference, calling
// each with every answer as it comes. Without the reference the test is skipped.
func askReference(t testing.TB, tokenizerJSON string, questions []question, each func(i int, a answer)) {
	t.Helper()
	cases.Cache(t, "reference/node_modules/tokenizers", "reference")
	cmd := exec.Command("node", filepath.Join(cases.Root(), "testdata", "reference", "reference.js"), tokenizerJSON)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(in)
		enc := json.NewEncoder(w)
		var err error
		for i := 0; i < len(questions) && err == nil; i++ {
			err = enc.Encode(questions[i])
		}
		w.Flush()
		in.Close()
		sent <- err
	}()
	dec := json.NewDecoder(bufio.NewReaderSize(out, 1<<20))
	for i := range questions {
		var a answer
		if err := dec.Decode(&a); err != nil {
			t.Fatalf("reference: answer %d: %v", i, err)
		}
		if a.Error != "" {
			t.Fatalf("reference: answer %d: %s", i, a.Error)
		}
		each(i, a)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("reference: %v", err)
	}
}
