//go:build linux

package e2b_test

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

// TestNoGoroutineLeft: whatever was done with sandboxes, and however it ended,
// nothing of it runs when the provider is closed.
func TestNoGoroutineLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("work", func(t *testing.T) {
		srv, p := start(t, e2btest.Options{})
		sb := boot(t, p, sandbox.Spec{})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, _ = sb.Exec(ctx, sandbox.Cmd{Script: "sleep 5"})
		_, _ = sb.Exec(t.Context(), sandbox.Cmd{Script: "sleep 2 & echo held"})
		srv.Inject(e2btest.Fault{Kind: e2btest.CutFrame, Op: "Start"})
		_, _ = sb.Exec(t.Context(), sandbox.Cmd{Script: "echo cut"})
		if err := sb.WriteFile(t.Context(), "/tmp/f", "", strings.NewReader(strings.Repeat("x", 1<<20))); err != nil {
			t.Error(err)
		}
		r, err := sb.ReadFile(t.Context(), "/tmp/f")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(io.Discard, r, 10)
		r.Close()
		go func() { time.Sleep(100 * time.Millisecond); sb.Close() }()
		if _, err := sb.Exec(t.Context(), sandbox.Cmd{Script: "sleep 5"}); class(err) != "gone" {
			t.Errorf("Exec under Close: %v", err)
		}
	})
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}
