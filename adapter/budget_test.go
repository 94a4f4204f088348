package adapter_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

// TestTimeBudget spends MaxTime in the middle of a turn, with a pause in it: in
// each protocol the turn ends when the time is over, not counting what was
// before the first turn and in the pause, and the next one is refused for good.
func TestTimeBudget(t *testing.T) {
	message := map[string]any{"role": "user", "content": "x"}
	for _, c := range []struct {
		name, path string
		stream     bool
		told       string // what the client reads of the turn that is cut
	}{
		{"messages", "/v1/messages", true, "event: error\n"},
		{"messages, no stream", "/v1/messages", false, " "},
		{"chat", "/v1/chat/completions", true, `data: {"error":`},
		{"chat, no stream", "/v1/chat/completions", false, " "},
		{"responses", "/v1/responses", true, `"code":"invalid_prompt"`},
		{"responses, no stream", "/v1/responses", false, " "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newMemRig(t, sglangtest.Options{Policy: say("never said"), PerToken: time.Hour})
				ses := r.open("s", adapter.SessionOptions{MaxTime: time.Minute})
				body := map[string]any{"stream": c.stream, "messages": []any{message}, "input": []any{message}}
				time.Sleep(time.Hour) // booting the sandbox
				began := time.Now()
				var wg sync.WaitGroup
				var told []byte
				var err error
				wg.Go(func() { _, told, err = r.postTo(context.Background(), c.path, ses.Token, body) })
				time.Sleep(10 * time.Second)
				if err := r.server.Pause(context.Background()); err != nil {
					t.Fatal(err)
				}
				r.server.Pause(context.Background()) // twice is once
				time.Sleep(time.Hour)
				r.server.Resume()
				wg.Wait()
				if took := time.Since(began); took != time.Hour+time.Minute {
					t.Errorf("the turn ended after %v, want a pause of 1h and the budget of 1m", took)
				}
				if clean := err == nil; clean != (c.path == "/v1/responses" && c.stream) || !strings.Contains(string(told), c.told) {
					t.Errorf("read %q, error %v: want %q and no clean end but that of a failed response", told, err, c.told)
				}
				if n := r.engine.Live(); n != 0 {
					t.Errorf("%d generations in the engine", n)
				}
				status, told, err := r.postTo(context.Background(), c.path, ses.Token, body)
				if err != nil || status != 400 || !strings.Contains(string(told), "the session's budget of 1m0s is spent") {
					t.Errorf("next turn: status %d, %s, %v", status, told, err)
				}
				if rec := r.finish("s"); rec.Budget != "time" || rec.Turns != 0 {
					t.Errorf("budget %q, %d turns, want time, 0", rec.Budget, rec.Turns)
				}
			})
		})
	}
}

// TestTimeBudgetOfASessionOpenedInAPause begins with the clock held.
func TestTimeBudgetOfASessionOpenedInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, sglangtest.Options{Policy: say("ok"), PerToken: time.Second})
		if err := r.server.Pause(context.Background()); err != nil {
			t.Fatal(err)
		}
		ses := r.open("s", adapter.SessionOptions{MaxTime: time.Minute})
		var wg sync.WaitGroup
		var status int
		wg.Go(func() {
			status, _, _ = r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user("x")}})
		})
		time.Sleep(time.Hour)
		r.server.Resume()
		wg.Wait()
		if status != 200 {
			t.Errorf("status %d, want 200: the pause is not counted", status)
		}
		time.Sleep(time.Minute)
		if rec := r.finish("s"); rec.Turns != 1 || rec.Budget != "" {
			t.Errorf("%d turns, budget %q, want 1 and none: no turn was refused", rec.Turns, rec.Budget)
		}
	})
}
