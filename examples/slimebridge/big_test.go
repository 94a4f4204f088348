package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
)

// TestBigRows: a row of 100 MB comes back whole; one beyond the limit is refused
// in words that say what to do.
func TestBigRows(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	r := newRig(t, 1, demo.EngineOptions{})
	b := newBridge(agentrl.Config{Agent: "mini", Sandbox: "local", AdapterBindHost: "127.0.0.1"}, 0, nil)
	defer b.close()
	srv := httptest.NewServer(b.handler())
	defer srv.Close()
	post := func(body io.Reader) (status int, answer map[string]json.RawMessage) {
		t.Helper()
		res, err := http.Post(srv.URL+"/v1/generate", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, answer
	}
	tests := strings.Repeat("x", 100<<20)
	args := agentrl.Args{HFCheckpoint: r.args["hf_checkpoint"].(string), SGLangURL: "http://127.0.0.1:1"}
	body := raw(map[string]any{"args": args, "sample": map[string]any{"index": 5, "metadata": map[string]any{"instance_id": "no image", "tests": tests}}})
	status, answer := post(strings.NewReader(string(body)))
	var samples []agentrl.Sample
	if err := json.Unmarshal(answer["samples"], &samples); err != nil || status != http.StatusOK || len(samples) != 1 {
		t.Fatalf("a row of 100 MB: status %d, %v, %.300s", status, err, answer["error"])
	}
	if s := samples[0]; s.Status != agentrl.Aborted || s.Metadata["tests"] != tests || s.Metadata["abort_reason"] != "missing_image_or_workdir" {
		t.Errorf("a row of 100 MB came back as %s, %v", s.Status, s.Metadata["abort_reason"])
	}
	status, answer = post(io.LimitReader(neverEnding('x'), maxBody+1))
	if status != http.StatusBadRequest || !strings.Contains(string(answer["error"]), "larger than 256 MiB: take what the rollout does not need") {
		t.Errorf("a request beyond the limit: status %d, %s", status, answer["error"])
	}
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}
