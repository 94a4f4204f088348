package grading

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/swe"
)

// TestE2BIsTheConfiguredOne: gradings boot where rollouts do.
func TestE2BIsTheConfiguredOne(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-Key") == "e2b_key" {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(srv.Close)
	t.Setenv("E2B_API_KEY", "")
	if _, err := Open("scaleswe", "e2b", true); err == nil || !strings.Contains(err.Error(), "E2B_API_KEY") {
		t.Errorf("without a key: %v", err)
	}
	t.Setenv("E2B_API_KEY", "e2b_key")
	t.Setenv("E2B_API_URL", srv.URL)
	g, err := Open("scaleswe", "e2b", true)
	if err != nil {
		t.Fatal(err)
	}
	row := agentrl.Sample{Metadata: map[string]any{"image": "x", "workdir": "/repo", "problem_statement": "p", "eval_cmd": "true"}}
	_, err = g.Grade(t.Context(), row, swe.Patch{})
	if agentrl.FailureOf(err).Code != agentrl.CodeUnauthorized || asked.Load() == 0 {
		t.Errorf("Grade: %v, after %d requests to E2B_API_URL", err, asked.Load())
	}
}
