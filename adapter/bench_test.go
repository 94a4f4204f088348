package adapter_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
)

// benchTurns is how many turns a session of a benchmark has.
const benchTurns = 20

// BenchmarkTurns measures what the adapter adds to a turn: the client's wall
// clock less the time that the engine double spent on it. Sessions have 20
// turns, each continuing a conversation of about that many tokens.
func BenchmarkTurns(b *testing.B) {
	for _, context := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(context), func(b *testing.B) { benchmarkTurns(b, context) })
	}
}

func benchmarkTurns(b *testing.B, contextLen int) {
	tok, err := token.Load("../testdata/tokenizer")
	if err != nil {
		b.Fatal(err)
	}
	tmpl, err := template.Load("../testdata/tokenizer")
	if err != nil {
		b.Fatal(err)
	}
	end, _ := tok.EOS()
	answer := tok.AppendEncode(nil, `Looking.<tool_call>{"name":"bash","arguments":{"command":"ls"}}</tool_call>`)
	r := newRig(b, sglangtest.Options{EOS: []int32{end}, Decode: tok.Decode, MaxLog: 1 << 20, NoIDs: true, Policy: func(c sglangtest.Call) sglangtest.Output {
		if len(c.Prompt) < contextLen*9/10 {
			b.Errorf("prompt of %d tokens, want about %d", len(c.Prompt), contextLen)
		}
		return sglangtest.Output{IDs: answer}
	}}, func(o *adapter.Options) {
		o.Tokenizer, o.Template = tok, tmpl
		o.Logger = slog.New(slog.DiscardHandler)
	})
	r.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 256
	text := prose(tok, contextLen)
	goroutines, heap := settledGoroutines(), liveHeap()
	sessions := (b.N + benchTurns - 1) / benchTurns
	durations := make([][]time.Duration, sessions)
	b.ResetTimer()
	queue := make(chan int)
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range queue {
				durations[i] = benchSession(b, r, fmt.Sprint(i), text)
			}
		})
	}
	for i := range sessions {
		queue <- i
	}
	close(queue)
	wg.Wait()
	b.StopTimer()
	added := addedLatency(r.engine.Log(), durations)
	held := liveHeap() - heap
	b.ReportMetric(float64(added[len(added)/2])/1e6, "added-p50-ms")
	b.ReportMetric(float64(added[len(added)*99/100])/1e6, "added-p99-ms")
	b.ReportMetric(float64(held)/float64(sessions), "B/session")
	for i := range sessions {
		r.server.DropSession(fmt.Sprint(i))
	}
	r.client.CloseIdleConnections()
	r.engineHTTP.CloseIdleConnections()
	after := settledGoroutines()
	b.ReportMetric(float64(goroutines), "goroutines-before")
	b.ReportMetric(float64(after), "goroutines-after")
	if after > goroutines {
		b.Errorf("%d goroutines before, %d after", goroutines, after)
	}
}

// benchSession plays one session and returns how long each turn took.
func benchSession(b *testing.B, r *rig, id, text string) []time.Duration {
	ses, err := r.server.OpenSession(context.Background(), id, adapter.SessionOptions{})
	if err != nil {
		b.Error(err)
		return nil
	}
	messages := []any{user(text)}
	var took []time.Duration
	for i := range benchTurns {
		began := time.Now()
		status, data, err := r.post(context.Background(), ses.Token, map[string]any{"messages": messages, "tools": bashTool()})
		took = append(took, time.Since(began))
		if err != nil || status != 200 {
			b.Errorf("turn %d: status %d, %v: %s", i, status, err, data)
			return took
		}
		reply := replyOf(b, data)
		messages = append(messages, reply, toolResult(callIDOf(b, reply, 0), fmt.Sprintf("file %d", i)))
	}
	return took
}

// addedLatency returns the turns' durations less the engine's, sorted.
func addedLatency(log []sglangtest.Generation, durations [][]time.Duration) []time.Duration {
	nth := map[string]int{}
	var added []time.Duration
	for _, g := range log {
		var session int
		fmt.Sscan(g.RoutingKey, &session)
		n := nth[g.RoutingKey]
		nth[g.RoutingKey]++
		if n < len(durations[session]) {
			added = append(added, durations[session][n]-g.Ended.Sub(g.Started))
		}
	}
	slices.Sort(added)
	return added
}

// prose makes text of about n tokens.
func prose(tok *token.Tokenizer, n int) string {
	words := strings.Fields("the file test returns value when error path name check func import string range index build list map read write open close")
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for tokens := 0; tokens < n; {
		line := ""
		for range 200 {
			line += words[rng.IntN(len(words))] + " "
		}
		b.WriteString(line + "\n")
		tokens += len(tok.AppendEncode(nil, line+"\n"))
	}
	return b.String()
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settledGoroutines counts goroutines once connections have had time to end.
func settledGoroutines() int {
	n := runtime.NumGoroutine()
	for range 50 {
		time.Sleep(10 * time.Millisecond)
		n = min(n, runtime.NumGoroutine())
	}
	return n
}
