package adapter_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

// TestSameRequestRightAfterItsAnswer sends a request again as soon as the answer
// is read, while the adapter still works on its record: it is a new turn, and
// does not join the one that is over.
func TestSameRequestRightAfterItsAnswer(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say("first", "second")})
	told := make(chan struct{})
	ses, err := r.server.OpenSession(context.Background(), "s", adapter.SessionOptions{OnTurn: func(adapter.TurnInfo) { <-told }})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() *http.Response {
		req, err := http.NewRequest(http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(`{"messages":[{"role":"user","content":"x"}],"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+ses.Token)
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := ask()
	defer first.Body.Close()
	var read strings.Builder
	for buf := make([]byte, 4096); !strings.Contains(read.String(), "[DONE]"); {
		n, err := first.Body.Read(buf)
		read.Write(buf[:n])
		if err != nil {
			t.Fatalf("read %q: %v", read.String(), err)
		}
	}
	again := make(chan *http.Response)
	go func() { again <- ask() }()
	time.AfterFunc(50*time.Millisecond, func() { close(told) })
	second := <-again
	defer second.Body.Close()
	if text, err := io.ReadAll(second.Body); err != nil || !strings.Contains(string(text), "second") {
		t.Errorf("the repeated request was answered %q, %v; want a new turn", text, err)
	}
}

// TestAgentsOfOneTaskHaveTurnsOfTheirOwn: two sub-agents that were told the same
// send the same body at once.
func TestAgentsOfOneTaskHaveTurnsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, sglangtest.Options{Policy: say("one", "other"), PerToken: time.Second})
		ses := r.open("s", adapter.SessionOptions{})
		said := make(chan string, 2)
		for _, agent := range []string{"a1", "a2"} {
			go func() {
				req, _ := http.NewRequest(http.MethodPost, r.url+"/v1/messages", strings.NewReader(`{"messages":[{"role":"user","content":"x"}],"tools":[{"name":"Bash"}]}`))
				req.Header.Set("X-Api-Key", ses.Token)
				req.Header.Set("X-Claude-Code-Agent-Id", agent)
				res, err := r.client.Do(req)
				if err != nil {
					said <- err.Error()
					return
				}
				defer res.Body.Close()
				text, _ := io.ReadAll(res.Body)
				said <- string(text)
			}()
		}
		if both := <-said + <-said; !strings.Contains(both, "one") || !strings.Contains(both, "other") {
			t.Errorf("the agents were answered %s", both)
		}
		if rec := r.finish("s"); rec.Turns != 2 || rec.Abandoned != 0 {
			t.Errorf("%d turns, %d abandoned, want 2 and 0", rec.Turns, rec.Abandoned)
		}
	})
}

// TestFailureIsMadeUpForInAnotherForm: Claude Code asks again without a stream
// after some errors, and with another limit.
func TestFailureIsMadeUpForInAnotherForm(t *testing.T) {
	down := func(c sglangtest.Call) sglangtest.Output {
		out := say("ok")(c)
		if c.N < 2 {
			out.Fault = &sglangtest.Fault{Status: 503, Body: "starting"}
		}
		return out
	}
	message := user("x")
	for _, c := range []struct {
		name   string
		again  map[string]any
		madeUp bool
	}{
		{"without a stream", map[string]any{"messages": []any{message}, "max_tokens": 7}, true},
		{"something else", map[string]any{"messages": []any{user("y")}}, false},
	} {
		r := newRig(t, sglangtest.Options{Policy: down})
		ses := r.open("s", adapter.SessionOptions{})
		first, _, _ := r.postTo(context.Background(), "/v1/messages", ses.Token, map[string]any{"stream": true, "messages": []any{message}})
		second, _, _ := r.postTo(context.Background(), "/v1/messages", ses.Token, c.again)
		if first != 503 || second != 200 {
			t.Fatalf("%s: status %d, then %d", c.name, first, second)
		}
		if err := r.server.SealSession(context.Background(), "s"); (err == nil) != c.madeUp {
			t.Errorf("%s: SealSession: %v", c.name, err)
		}
	}
}

// TestTurnBudgetHoldsForTurnsAtOnce: those in flight count, and those that came
// to nothing do not.
func TestTurnBudgetHoldsForTurnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, sglangtest.Options{Policy: say("x"), PerToken: time.Second})
		ses := r.open("s", adapter.SessionOptions{MaxTurns: 3})
		gone, leave := context.WithCancel(context.Background())
		ask := func(ctx context.Context, text string) int {
			status, _, _ := r.post(ctx, ses.Token, map[string]any{"messages": []any{user(text)}})
			return status
		}
		go ask(gone, "never read")
		synctest.Wait()
		leave()
		synctest.Wait()
		var mu sync.Mutex
		var wg sync.WaitGroup
		statuses := map[int]int{}
		for i := range 10 {
			wg.Go(func() {
				status := ask(context.Background(), string(rune('a'+i)))
				mu.Lock()
				defer mu.Unlock()
				statuses[status]++
			})
		}
		wg.Wait()
		if rec := r.finish("s"); rec.Turns != 3 || statuses[200] != 3 || statuses[400] != 7 || rec.Budget != "turns" {
			t.Errorf("%d turns, statuses %v, budget %q; want 3, 3 times 200 and 7 times 400, turns", rec.Turns, statuses, rec.Budget)
		}
	})
}

// TestContinuedTurnKeepsItsLeastLength: min_new_tokens is that of the whole turn.
func TestContinuedTurnKeepsItsLeastLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, sglangtest.Options{PerToken: time.Second, Policy: func(c sglangtest.Call) sglangtest.Output {
			out := continuing(strings.Repeat("a", 40))(c)
			if c.N < 2 {
				out.Fault = &sglangtest.Fault{Abort: 18}
			}
			return out
		}})
		ses := r.open("s", adapter.SessionOptions{Sampling: map[string]any{"min_new_tokens": 35, "max_new_tokens": 50}})
		_, body, err := r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user("x")}})
		if err != nil || !strings.Contains(string(body), strings.Repeat("a", 40)) {
			t.Errorf("read %s, error %v", body, err)
		}
		var least []any
		for _, g := range r.engine.Log() {
			least = append(least, g.Sampling["min_new_tokens"])
		}
		if text, _ := json.Marshal(least); string(text) != "[35,17,0]" {
			t.Errorf("min_new_tokens of the requests: %s, want 35, 17, 0", text)
		}
		r.finish("s")
	})
}

// TestMalformedCallKeepsItsPlace: the results come back in the order in which the
// model wrote the calls.
func TestMalformedCallKeepsItsPlace(t *testing.T) {
	const bad = `<tool_call>{"name":"bash","arguments":{"command":"B-bad</tool_call>`
	for _, c := range []struct{ name, text, order string }{
		{"first", bad + callText("bash", `{"command":"one"}`), "B-bad one"},
		{"between", callText("bash", `{"command":"one"}`) + bad + callText("bash", `{"command":"two"}`), "one B-bad two"},
		{"last", callText("bash", `{"command":"one"}`) + bad, "one B-bad"},
	} {
		r := newRig(t, sglangtest.Options{Policy: say(c.text, "done")})
		ses := r.open("s", adapter.SessionOptions{})
		talk := &conversation{rig: r, token: ses.Token, tools: bashTool()}
		reply := talk.ask(user("x"))
		text, _ := json.Marshal(reply["tool_calls"])
		at := -1
		for mark := range strings.FieldsSeq(c.order) {
			next := strings.Index(string(text), mark)
			if next < at {
				t.Errorf("%s: calls went out as %s, want %s", c.name, text, c.order)
			}
			at = next
		}
		results := []any{}
		for i := range reply["tool_calls"].([]any) {
			results = append(results, toolResult(callIDOf(t, reply, i), "r"))
		}
		talk.ask(results...)
		if rec := r.finish("s"); len(rec.Segments) != 1 {
			t.Errorf("%s: %d segments, want 1", c.name, len(rec.Segments))
		}
	}
}

// TestTokenInThePathIsNotLogged, nor told to whoever reads the session's error.
func TestTokenInThePathIsNotLogged(t *testing.T) {
	for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses"} {
		r := newRig(t, sglangtest.Options{})
		ses := r.open("s", adapter.SessionOptions{})
		status, body, err := r.postTo(context.Background(), "/s/"+ses.Token+path, "", map[string]any{"messages": 1, "input": 1})
		sealed := r.server.SealSession(context.Background(), "s")
		if status != 400 || err != nil || sealed == nil {
			t.Errorf("%s: status %d, error %v, SealSession %v", path, status, err, sealed)
			continue
		}
		if strings.Contains(r.log.String()+sealed.Error()+string(body), ses.Token) || !strings.Contains(sealed.Error(), path) {
			t.Errorf("%s: log %s, SealSession %v", path, r.log, sealed)
		}
	}
}
