//go:build linux

package e2b_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
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

const childVar = "AGENTRL_TEST_E2B_URL"

// TestConstantMemory moves 200 MB up and down in a process of its own.
func TestConstantMemory(t *testing.T) {
	const size, limit = 200 << 20, 64 // bytes, MB
	if url := os.Getenv(childVar); url != "" {
		moveBoth(t, url, size)
		return
	}
	srv, _ := start(t, e2btest.Options{})
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestConstantMemory$", "-test.v")
	c.Env = append(os.Environ(), childVar+"="+srv.URL)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, after, _ := strings.Cut(string(out), "peak ")
	peak, err := strconv.Atoi(strings.Fields(after + " x")[0])
	if err != nil {
		t.Fatalf("no peak in %s", out)
	}
	t.Logf("figure: 200 MB up and down in %d MB", peak)
	if peak > limit {
		t.Errorf("peak memory %d MB, want at most %d", peak, limit)
	}
}

func moveBoth(t *testing.T, url string, size int64) {
	debug.SetGCPercent(50)
	p, err := e2b.New(e2b.Options{APIKey: "e2b_00", APIURL: url, SandboxURL: url})
	if err != nil {
		t.Fatal(err)
	}
	sb := boot(t, p, sandbox.Spec{})
	file, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		err = file.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := sb.WriteFile(t.Context(), "/tmp/large", "", file); err != nil {
		t.Fatal(err)
	}
	r, err := sb.ReadFile(t.Context(), "/tmp/large")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := io.Copy(io.Discard, r); n != size || err != nil {
		t.Fatalf("%d bytes came back, %v", n, err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("peak %d MB\n", kb>>10)
}
