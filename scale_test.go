package agentrl_test

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/openai"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/internal/memhttp"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// A fleet is a Generator with the real adapter over in-memory HTTP; sandboxes
// and the agents in them are fakes, the engine is the double.
type fleet struct {
	*agentrl.Generator
	net    *memhttp.Network
	server *adapter.Server
	boxes  *sandboxtest.Fake
	engine *sglangtest.Engine
}

const checkpoint = "testdata/tokenizer"

func newFleet(t testing.TB, turns int) *fleet {
	t.Helper()
	tok := must(token.Load(checkpoint))(t)
	answer := tok.Encode("I will look at that." + strings.Repeat(" More words about it.", 10) + "<|im_end|>")
	f := &fleet{net: memhttp.New(), boxes: &sandboxtest.Fake{}}
	f.engine = sglangtest.New(sglangtest.Options{MaxLog: -1, EOS: answer[len(answer)-1:],
		Policy: func(sglangtest.Call) sglangtest.Output { return sglangtest.Output{IDs: answer} }})
	client := must(sglang.New(f.net.Handle("engine", f.engine), sglang.Options{HTTP: f.net.Client()}))(t)
	mux := &adapter.Mux{}
	url := f.net.Serve("adapter", adapter.HTTPServer(mux, slog.New(slog.DiscardHandler)))
	f.server = must(adapter.New(adapter.Options{
		Engine: client, Tokenizer: tok, Template: must(template.Load(checkpoint))(t), Parser: must(parse.New("qwen25", "qwen3", parse.Strict))(t),
		Dialects: []chat.Dialect{openai.Chat{}}, LocalURL: url, Logger: slog.New(slog.DiscardHandler),
	}))(t)
	mux.Attach(f.server)
	f.Generator = &agentrl.Generator{
		Config: agentrl.Config{BootConcurrency: 1 << 20}, Protocol: &swetest.Protocol{}, Sandboxes: f.boxes, Adapter: f.server,
		Harness: &harnesstest.Agent{Turns: turns, Client: f.net.Client()}, Logger: slog.New(slog.DiscardHandler),
	}
	return f
}

// must turns an error of a constructor into the test's end.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// run makes n concurrent calls and returns the number of samples.
func (f *fleet) run(t testing.TB, n int) int {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for i := range n {
		wg.Go(func() {
			base := row()
			index := int64(i)
			base.Index = &index
			samples, err := f.Generate(t.Context(), base, agentrl.SamplingParams{"temperature": 1.0})
			mu.Lock()
			defer mu.Unlock()
			total += len(samples)
			if err != nil || len(samples) != 1 || samples[0].Status != agentrl.Completed {
				t.Errorf("call %d: %v, %+v", i, err, samples)
			}
		})
	}
	wg.Wait()
	return total
}

func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func TestManyCallsLeaveNothing(t *testing.T) {
	calls, turns := 200, 10
	if n, err := strconv.Atoi(os.Getenv("AGENTRL_TEST_CALLS")); err == nil {
		calls = n
	}
	goroutines, fds := runtime.NumGoroutine(), descriptors()
	f := newFleet(t, turns)
	samples := f.run(t, calls)
	f.boxes.CheckClosed(t)
	if n := f.server.Sessions(); n != 0 {
		t.Errorf("%d sessions left", n)
	}
	if n := f.engine.Live(); n != 0 {
		t.Errorf("%d generations left in the engine", n)
	}
	f.net.Close()
	for range 100 {
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond) // connections close in their own goroutines
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines, %d before:\n%s", n, goroutines, buf[:runtime.Stack(buf, true)])
	}
	if n := descriptors(); n > fds {
		t.Errorf("%d file descriptors, %d before", n, fds)
	}
	t.Logf("figure: %d calls of %d turns, %d samples; left: 0 goroutines, 0 descriptors, 0 sandboxes, 0 sessions", calls, turns, samples)
}

// BenchmarkGenerate is the overhead of a call over fakes: orchestration,
// adapter, tokenizer, template and trajectory, with in-memory HTTP.
func BenchmarkGenerate(b *testing.B) {
	for _, turns := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			f := newFleet(b, turns)
			defer f.net.Close()
			b.ReportAllocs()
			for b.Loop() {
				f.run(b, 1)
			}
		})
	}
}

// BenchmarkLiveRollouts is the memory of a rollout that is under way, at three
// numbers of them: what grows with the number is per rollout.
func BenchmarkLiveRollouts(b *testing.B) {
	for _, live := range []int{100, 300, 1000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			for b.Loop() {
				f := newFleet(b, 10)
				var before, during runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				var once sync.Once
				var arrived sync.WaitGroup
				arrived.Add(live)
				f.Harness = &harnesstest.Agent{Turns: 10, Client: f.net.Client(), AtEnd: func() {
					arrived.Done()
					arrived.Wait()
					once.Do(func() {
						runtime.GC()
						runtime.ReadMemStats(&during)
					})
				}}
				f.run(b, live)
				f.net.Close()
				b.ReportMetric(float64(during.HeapInuse+during.StackInuse-before.HeapInuse-before.StackInuse)/float64(live), "B/rollout")
			}
		})
	}
}
