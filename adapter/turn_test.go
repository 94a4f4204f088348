package adapter_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

func TestKeepAlives(t *testing.T) {
	message := map[string]any{"role": "user", "content": "x"}
	for _, c := range []struct {
		name, path string
		body       map[string]any
		sign       string // what each sign of life looks like on the wire
	}{
		{"messages", "/v1/messages", map[string]any{"stream": true, "messages": []any{message}}, "event: ping\n"},
		{"messages, no stream", "/v1/messages", map[string]any{"messages": []any{message}}, " "},
		{"chat", "/v1/chat/completions", map[string]any{"stream": true, "messages": []any{message}}, "data: {"},
		{"chat, no stream", "/v1/chat/completions", map[string]any{"messages": []any{message}}, " "},
		{"responses", "/v1/responses", map[string]any{"stream": true, "input": []any{message}}, "event: response.in_progress\ndata: {"},
		{"responses, no stream", "/v1/responses", map[string]any{"input": []any{message}}, " "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newMemRig(t, sglangtest.Options{Policy: say("done"), PerToken: 100 * time.Second})
				ses := r.open("s", adapter.SessionOptions{})
				data, err := json.Marshal(c.body)
				if err != nil {
					t.Fatal(err)
				}
				req, err := http.NewRequest(http.MethodPost, r.url+c.path, bytes.NewReader(data))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+ses.Token)
				began := time.Now()
				res, err := r.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if wait := time.Since(began); wait > 10*time.Second {
					t.Errorf("headers after %v, want at most 10s", wait)
				}
				silence, signs := longestSilence(t, res.Body, began, c.sign)
				if silence > 10*time.Second || signs < 50 {
					t.Errorf("longest silence %v with %d signs of life in 500s of generation, want at most 10s", silence, signs)
				}
			})
		})
	}
}

// longestSilence reads a body to its end and returns the longest time without
// a byte, and how often sign was seen.
func longestSilence(t *testing.T, body io.Reader, last time.Time, sign string) (silence time.Duration, signs int) {
	t.Helper()
	var all strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := body.Read(buf)
		all.Write(buf[:n])
		if n > 0 {
			silence = max(silence, time.Since(last))
			last = time.Now()
		}
		if err == io.EOF {
			return silence, strings.Count(all.String(), sign)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRetryJoinsTheTurnInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, sglangtest.Options{Policy: say("one answer"), PerToken: time.Second})
		ses := r.open("s", adapter.SessionOptions{})
		body := map[string]any{"messages": []any{user("x")}}
		first, leave := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { r.post(first, ses.Token, body) })
		time.Sleep(3 * time.Second)
		var answers [2][]byte
		for i := range answers {
			wg.Go(func() {
				var err error
				if _, answers[i], err = r.post(context.Background(), ses.Token, body); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		leave() // others still wait: the generation goes on
		wg.Wait()
		synctest.Wait()
		if n := len(r.engine.Log()); n != 1 {
			t.Errorf("%d generations, want 1", n)
		}
		if !bytes.Equal(answers[0], answers[1]) || !bytes.Contains(answers[0], []byte("one answer")) {
			t.Errorf("answers %s and %s, want the same", answers[0], answers[1])
		}
		if rec := r.finish("s"); rec.Turns != 1 {
			t.Errorf("%d turns recorded, want 1", rec.Turns)
		}
	})
}

func TestSameRequestAfterItsAnswerIsANewTurn(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say("first", "second", "third")})
	ses := r.open("s", adapter.SessionOptions{})
	c := &conversation{rig: r, token: ses.Token}
	c.ask(user("x"))
	c.messages = nil
	if again := c.ask(user("x")); again["content"] != "second" {
		t.Errorf("the repeated request was answered %v, want a new turn", again["content"])
	}
	c.ask(user("go on"))
	rec := r.finish("s")
	var trained strings.Builder
	for _, seg := range rec.Segments {
		if seg.Untrained == "" {
			trained.WriteString(seg.Text)
		}
	}
	if strings.Contains(trained.String(), "first") || !strings.Contains(trained.String(), "second") {
		t.Errorf("trained text %q, want without the superseded turn", trained.String())
	}
}

func TestPauseEmptiesTheEngineAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, sglangtest.Options{WeightVersion: "w1", PerToken: time.Second, Policy: continuing("abcdefghij")})
		ses := r.open("s", adapter.SessionOptions{})
		var wg sync.WaitGroup
		var answer []byte
		wg.Go(func() {
			_, answer, _ = r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user("x")}})
		})
		time.Sleep(4500 * time.Millisecond)
		if err := r.server.Pause(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := r.engine.Live(); n != 0 {
			t.Fatalf("%d generations in the engine after Pause", n)
		}
		res, err := r.client.Post("http://engine/release_memory_occupation", "application/json", nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("release_memory_occupation: %+v, %v", res, err)
		}
		res.Body.Close()
		time.Sleep(5 * time.Minute)
		if n := len(r.engine.Log()); n != 1 {
			t.Errorf("%d generations were posted during the pause", n-1)
		}
		r.engine.SetWeightVersion("w2")
		r.server.Resume()
		wg.Wait()
		if !bytes.Contains(answer, []byte("abcdefghij")) {
			t.Errorf("answer %s, want the whole text", answer)
		}
		rec := r.finish("s")
		if rec.Turns != 1 || len(rec.Segments) != 1 || rec.Segments[0].Untrained != "" {
			t.Fatalf("record: %+v", rec)
		}
		var versions []string
		for _, v := range rec.Segments[0].Versions {
			versions = append(versions, v.Version)
		}
		if !slices.Equal(versions, []string{"w1", "w2"}) {
			t.Errorf("versions %v, want w1 then w2", versions)
		}
		log := r.engine.Log()
		checkPrefixes(t, log)
	})
}

// continuing makes a policy that says text, going on where the prompt ends in a
// part of it.
func continuing(text string) sglangtest.Policy {
	return func(c sglangtest.Call) sglangtest.Output {
		prompt := byteTokenizer{}.Decode(c.Prompt)
		_, said, _ := cutLast(prompt, "<|im_start|>assistant\n")
		return sglangtest.Output{IDs: byteTokenizer{}.AppendEncode(nil, text[len(said):])}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func TestAbortByTheEngine(t *testing.T) {
	aborting := func(times int) sglangtest.Policy {
		return func(c sglangtest.Call) sglangtest.Output {
			out := continuing("abcdefghij")(c)
			if c.N < times {
				out.Fault = &sglangtest.Fault{Abort: 3}
			}
			return out
		}
	}
	for _, c := range []struct {
		name    string
		policy  adapter.AbortPolicy
		aborts  int
		perTok  time.Duration
		posts   int
		aborted bool
	}{
		{"continue", adapter.Continue, 1, time.Second, 2, false},
		{"continue, rare aborts", adapter.Continue, 2, 2 * time.Second, 3, false},
		{"continue, an engine that only aborts", adapter.Continue, 99, time.Millisecond, 2, true},
		{"restart", adapter.Restart, 1, time.Second, 2, false},
		{"fail", adapter.Fail, 1, time.Second, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newMemRig(t, sglangtest.Options{Policy: aborting(c.aborts), PerToken: c.perTok}, func(o *adapter.Options) { o.OnAbort = c.policy })
				ses := r.open("s", adapter.SessionOptions{})
				status, body, err := r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user("x")}})
				if err != nil {
					t.Fatal(err)
				}
				if got := len(r.engine.Log()); got != c.posts {
					t.Errorf("%d posts, want %d", got, c.posts)
				}
				sealed := r.server.SealSession(context.Background(), "s")
				var engine *sglang.Error
				switch {
				case c.aborted && (status == 200 || !errors.As(sealed, &engine) || engine.Kind != sglang.Aborted):
					t.Errorf("status %d, SealSession %v: want a refusal and an aborted engine", status, sealed)
				case !c.aborted && (status != 200 || sealed != nil || !strings.Contains(string(body), "abcdefghij")):
					t.Errorf("status %d, body %s, SealSession %v", status, body, sealed)
				}
			})
		})
	}
}

func TestSealEndsTurnsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, sglangtest.Options{Policy: say("never read"), PerToken: time.Hour})
		ses := r.open("s", adapter.SessionOptions{})
		var wg sync.WaitGroup
		var status int
		wg.Go(func() {
			status, _, _ = r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user("x")}})
		})
		synctest.Wait()
		began := time.Now()
		rec := r.finish("s")
		wg.Wait()
		if rec.Turns != 0 || r.engine.Live() != 0 || time.Since(began) > time.Second || status != 403 {
			t.Errorf("%d turns, %d live, after %v, the client got %d", rec.Turns, r.engine.Live(), time.Since(began), status)
		}
		if err := r.server.DropSession("s"); err != nil {
			t.Error(err)
		}
		if _, err := r.server.OpenSession(context.Background(), "s", adapter.SessionOptions{}); err != nil {
			t.Errorf("the id can't be used again after Drop: %v", err)
		}
	})
}

func TestFailingTurnNeverEndsAsACleanStream(t *testing.T) {
	message := map[string]any{"role": "user", "content": "x"}
	for _, c := range []struct {
		path, event string
		terminal    bool // the event itself ends the protocol's stream
	}{
		{"/v1/messages", "event: error\n", false}, {"/v1/chat/completions", `data: {"error":`, false}, {"/v1/responses", "event: response.failed\n", true},
	} {
		t.Run(c.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newMemRig(t, sglangtest.Options{PerToken: 20 * time.Second, Policy: func(sglangtest.Call) sglangtest.Output {
					return sglangtest.Output{IDs: []int32{'a'}, Fault: &sglangtest.Fault{NaN: true}}
				}})
				ses := r.open("s", adapter.SessionOptions{})
				_, body, err := r.postTo(context.Background(), c.path, ses.Token, map[string]any{"stream": true, "messages": []any{message}, "input": []any{message}})
				if (err == nil) != c.terminal || !strings.Contains(string(body), c.event) {
					t.Errorf("read %q, error %v: want the error event, and a cut connection unless that is the end", body, err)
				}
			})
		})
	}
}

func TestSlowBodyIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, sglangtest.Options{Policy: say("x")})
		ses := r.open("s", adapter.SessionOptions{})
		body, never := io.Pipe()
		req, err := http.NewRequest(http.MethodPost, r.url+"/v1/messages", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+ses.Token)
		go never.Write([]byte(`{"model":`))
		began := time.Now()
		res, err := r.client.Do(req)
		if err == nil {
			line, _ := bufio.NewReader(res.Body).ReadString('\n')
			res.Body.Close()
			if res.StatusCode != 400 || !strings.Contains(line, "reading the body") {
				t.Errorf("status %d, body %q", res.StatusCode, line)
			}
		}
		if wait := time.Since(began); wait > 61*time.Second {
			t.Errorf("the connection was held for %v", wait)
		}
		never.Close()
	})
}
