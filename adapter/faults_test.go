//go:build linux

package adapter_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
)

// newest is the Claude Code that the longer tests run.
func newest(t *testing.T) string {
	return cli(t, "claude-"+claudes[len(claudes)-1])
}

// freeWithin is how soon after its client's death a slot of the engine has to be
// free. An engine that finds out by itself does so after a minute here.
const freeWithin = time.Second

func TestKilledClientFreesTheEngine(t *testing.T) {
	path := newest(t)
	for _, routed := range []bool{false, true} {
		t.Run(fmt.Sprintf("routed %v", routed), func(t *testing.T) {
			c := newCLIRig(t, func(string) string { return strings.Repeat("word ", 4000) }, func(s *cliSetup) {
				s.routed, s.engine.PerToken, s.engine.DisconnectPoll = routed, 20*time.Millisecond, time.Minute
			})
			ses := c.open("s", optionsFor(t))
			cmd := c.claude(context.Background(), path, ses.Token, task)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := c.engine.WaitLive(1, patience); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if err := c.engine.WaitLive(0, patience); err != nil {
				t.Fatal(err)
			}
			freed := time.Since(began)
			if freed > freeWithin {
				t.Errorf("the slot was free after %v, want %v", freed, freeWithin)
			}
			if rec := c.finish("s"); rec.Turns != 0 || rec.Abandoned != 1 {
				t.Errorf("%d turns recorded, %d abandoned, want 0 and 1", rec.Turns, rec.Abandoned)
			}
			t.Logf("figure: slot free %v after SIGKILL", freed.Round(time.Millisecond))
		})
	}
}

func TestPauseUnderLiveClaudeCodes(t *testing.T) { pauseLiveRuns(t, 20*time.Second) }

// TestSoakPause pauses live runs for as long as a big weight update may take. It
// runs where AGENTRL_SOAK is set.
func TestSoakPause(t *testing.T) {
	if os.Getenv("AGENTRL_SOAK") == "" {
		t.Skip("AGENTRL_SOAK is not set: minutes of pause")
	}
	pauseLiveRuns(t, 200*time.Second)
}

// pauseLiveRuns pauses 16 Claude Codes in the middle of their turns, for so long.
func pauseLiveRuns(t *testing.T, length time.Duration) {
	path := newest(t)
	const n, turns = 16, 4
	c := newCLIRig(t, func(prompt string) string {
		if i := turnsSaid(prompt); i < turns-1 {
			return fmt.Sprintf("Step %d. %s\n", i, strings.Repeat("word ", 200)) + call("Bash", fmt.Sprintf(`{"command": "echo %d", "description": "e"}`, i))
		}
		return "Finished."
	}, func(s *cliSetup) { s.engine.PerToken = 10 * time.Millisecond })
	ctx, cancel := context.WithTimeout(context.Background(), patience+length)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		ses := c.open(fmt.Sprint(i), optionsFor(t))
		cmd := c.claude(ctx, path, ses.Token, task)
		wg.Go(func() {
			if code, out := run(t, cmd); code != 0 {
				t.Errorf("run %d: exit %d: %s", i, code, lastBytes(out, 1000))
			}
		})
	}
	if err := c.engine.WaitLive(n, patience); err != nil {
		t.Error(err)
	}
	began := time.Now()
	if err := c.server.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	paused := time.Since(began)
	if res, err := c.client.Post(c.engineURL+"/release_memory_occupation", "application/json", nil); err != nil || res.StatusCode != 200 {
		t.Errorf("release_memory_occupation during the pause: %+v, %v", res, err)
	}
	time.Sleep(length)
	c.engine.SetWeightVersion("w2")
	c.server.Resume()
	wg.Wait()
	var mixed, recorded int
	for i := range n {
		id := fmt.Sprint(i)
		rec := c.finish(id)
		recorded += rec.Turns
		for _, seg := range rec.Segments {
			if seg.Untrained != "" {
				t.Errorf("run %d: segment not trainable: %s", i, seg.Untrained)
			}
			if len(seg.Versions) > 1 {
				mixed++
			}
		}
	}
	if recorded != n*turns || mixed != n {
		t.Errorf("%d turns recorded, want %d; %d of %d runs have both weight versions", recorded, n*turns, mixed, n)
	}
	t.Logf("figure: %d live runs, engine empty %v after Pause, %v of pause, %d of %d turns recorded, %d with both weight versions", n, paused.Round(time.Millisecond), length, recorded, n*turns, mixed)
}

// eachCLI runs a test with the newest Claude Code and with Codex.
func eachCLI(t *testing.T, f func(t *testing.T, name, path string)) {
	for name, path := range map[string]string{"claude": newest(t), "codex": codexPath(t)} {
		t.Run(name, func(t *testing.T) { f(t, name, path) })
	}
}

// launcher prepares the CLI of eachCLI.
func (c *cliRig) launcher(name string) launch {
	if name == "codex" {
		return c.codex
	}
	return c.claude
}

// counted puts a front before the adapter that counts the requests for turns.
func (c *cliRig) counted(t *testing.T) *atomic.Int64 {
	t.Helper()
	var requests atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			requests.Add(1)
		}
		c.server.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	c.url = front.URL
	return &requests
}

// TestSealedSessionEndsTheCLIAtOnce: one request, and none after it.
func TestSealedSessionEndsTheCLIAtOnce(t *testing.T) {
	eachCLI(t, func(t *testing.T, name, path string) {
		r := newCLIRig(t, func(string) string { return "never said" })
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		requests := r.counted(t)
		ses := r.open("s", adapter.SessionOptions{})
		r.finish("s")
		began := time.Now()
		code, out := run(t, r.launcher(name)(ctx, path, ses.Token, task))
		if code != 1 || requests.Load() != 1 {
			t.Errorf("exit %d after %d requests, want 1 after 1; output:\n%s", code, requests.Load(), lastBytes(out, 2000))
		}
		t.Logf("figure: %s exits %d after %d request and %v", name, code, requests.Load(), time.Since(began).Round(100*time.Millisecond))
	})
}

// TestSpentTimeEndsTheCLIAtOnce spends the time budget in the middle of a turn
// whose signs of life the CLI has already seen: Claude Code asks once more,
// without a stream, and is refused.
func TestSpentTimeEndsTheCLIAtOnce(t *testing.T) {
	eachCLI(t, func(t *testing.T, name, path string) {
		r := newCLIRig(t, func(string) string { return "never said" }, func(s *cliSetup) { s.engine.PerToken = time.Hour })
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		const budget = 12 * time.Second // longer than the first sign of life takes
		requests := r.counted(t)
		ses := r.open("s", adapter.SessionOptions{MaxTime: budget})
		began := time.Now()
		code, out := run(t, r.launcher(name)(ctx, path, ses.Token, task))
		if code != 1 || requests.Load() > 2 {
			t.Errorf("exit %d after %d requests, want 1 after 2 at most; output:\n%s", code, requests.Load(), lastBytes(out, 2000))
		}
		if rec := r.finish("s"); rec.Budget != "time" || rec.Turns != 0 {
			t.Errorf("budget %q, %d turns", rec.Budget, rec.Turns)
		}
		t.Logf("figure: %s exits %d after %d requests and %v, with a budget of %v", name, code, requests.Load(), time.Since(began).Round(100*time.Millisecond), budget)
	})
}
