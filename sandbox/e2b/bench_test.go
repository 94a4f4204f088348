//go:build linux

package e2b_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

func BenchmarkSandbox(b *testing.B) {
	_, p := start(b, e2btest.Options{})
	sandboxtest.Bench(b, p, sandbox.Spec{Image: "base", Workdir: "/tmp"})
}

// BenchmarkWaiting counts what 500 waiting jobs ask of the server: the budget
// of one address is 40,000 requests a minute. They wait in 20 sandboxes, which
// is the same to the client.
func BenchmarkWaiting(b *testing.B) {
	srv, p := start(b, e2btest.Options{})
	const jobs, boxes = 500, 20
	sandboxes := make([]sandbox.Sandbox, boxes)
	for i := range sandboxes {
		sandboxes[i] = boot(b, p, sandbox.Spec{})
	}
	for b.Loop() {
		srv.Reset()
		begin := time.Now()
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		for i := range jobs {
			// What RunDetached waits by, without the job: one request held for 20 s.
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = sandboxes[i%boxes].Exec(ctx, sandbox.Cmd{Script: "exec sleep 20", Replayable: true})
				}
			})
		}
		time.Sleep(45 * time.Second)
		n := srv.Stats().Requests["Start"]
		cancel()
		wg.Wait()
		b.ReportMetric(float64(n)/time.Since(begin).Minutes(), "requests/min")
	}
}

func TestConstantMemory(t *testing.T) {
	const variable = "AGENTRL_TEST_E2B_URL"
	url := os.Getenv(variable)
	if url == "" {
		srv, _ := start(t, e2btest.Options{})
		url = srv.URL
	}
	sandboxtest.ConstantMemory(t, variable, url, func(url string) sandbox.Sandbox {
		p, err := e2b.New(e2b.Options{APIKey: "e2b_00", APIURL: url, SandboxURL: url})
		if err != nil {
			t.Fatal(err)
		}
		return boot(t, p, sandbox.Spec{})
	})
}
