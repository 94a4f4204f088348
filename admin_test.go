package agentrl_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

func get(t *testing.T, url, host string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestLiveView(t *testing.T) {
	b := newBench(agentrl.Config{AdminAddr: "0"})
	var url string
	var state agentrl.AdminState
	b.agent.OnRun = func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
		url = b.AdminURL()
		_, text := get(t, url+"/state.json", "")
		if err := json.Unmarshal([]byte(text), &state); err != nil {
			t.Errorf("state.json: %v\n%s", err, text)
		}
		if _, page := get(t, url+"/", ""); !strings.Contains(page, "<td>sum</td>") || !strings.Contains(page, sb.ID()) {
			t.Errorf("the page does not show the rollout:\n%s", page)
		}
		return answer("42")(ctx, sb, job)
	}
	b.generate(t)
	if len(state.Rollouts) != 1 || state.Sandboxes != 1 || state.Stages[agentrl.StageRun] != 1 {
		t.Fatalf("state %+v", state)
	}
	r := state.Rollouts[0]
	if r.InstanceID != "sum" || r.Stage != agentrl.StageRun || r.Since.IsZero() || r.Session != "cagent-sum-0-0" || r.Mode != "generate" {
		t.Errorf("rollout %+v", r)
	}
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("the live view is at %s, want the loopback", url)
	}
	if status, _ := get(t, url+"/", "rebound.example"); status != http.StatusForbidden {
		t.Errorf("a foreign name is answered with %d", status)
	}
	if status, text := get(t, url+"/debug/pprof/goroutine?debug=1", ""); status != 200 || !strings.Contains(text, "goroutine profile") {
		t.Errorf("pprof: %d %.80s", status, text)
	}
	if _, text := get(t, url+"/", ""); !strings.Contains(text, "None is running.") {
		t.Errorf("the page after the rollout:\n%s", text)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get(url); err == nil {
		resp.Body.Close()
		t.Error("the live view is served after Close")
	}
	t.Logf("figure: stage %s, sandbox %s, %d rollout seen", r.Stage, r.Sandbox, len(state.Rollouts))
}

func TestAdminAddressesThatAreRefused(t *testing.T) {
	for addr, want := range map[string]string{"18001": "ADAPTER_PORT", "127.0.0.1:18001": "ADAPTER_PORT", "localhost:web": "HOST:PORT", "1.2.3.4:": "HOST:PORT"} {
		_, err := agentrl.ConfigFromEnv([]string{"AGENTRL_ADMIN_ADDR=" + addr})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("AGENTRL_ADMIN_ADDR=%s: %v, want an error that says %s", addr, err, want)
		}
	}
	if _, err := agentrl.ConfigFromEnv([]string{"AGENTRL_ADMIN_ADDR=6061"}); err != nil {
		t.Error(err)
	}
}

// TestLiveViewIsShared: Generators of one process share an address.
func TestLiveViewIsShared(t *testing.T) {
	a, b := newBench(agentrl.Config{AdminAddr: "0"}), newBench(agentrl.Config{})
	a.generate(t)
	b.Config.AdminAddr = "127.0.0.1:0"
	b.generate(t)
	if a.AdminURL() != b.AdminURL() || a.AdminURL() == "" {
		t.Errorf("two views: %q, %q", a.AdminURL(), b.AdminURL())
	}
	url := a.AdminURL()
	a.Close()
	if status, _ := get(t, url, ""); status != 200 {
		t.Errorf("status %d after the first of two was closed", status)
	}
	b.Close()
}
