package parse

import (
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// TestHostileInputsGrowLinearly logs how much more processor time eight times
// the text takes. It asserts no time: the figure is for the reader. With
// AGENTRL_HOSTILE=pairs it takes every pair of a format's markup, which takes
// half a minute.
func TestHostileInputsGrowLinearly(t *testing.T) {
	pairs := os.Getenv("AGENTRL_HOSTILE") == "pairs"
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	const small, factor = 12 << 10, 8
	inputs, quadratic := 0, 0
	for _, name := range givenFormats() {
		_, tools := callOfSize(t, name, 0)
		for _, h := range hostiles(name, pairs) {
			inputs++
			if growth := growthOf(t, h, tools, small, factor); growth > 3*factor {
				quadratic++
				t.Logf("%s: %q… %q takes %.0f times as long for %d times the text", name, h.head, h.unit, growth, factor)
			}
		}
	}
	t.Logf("figure: %d quadratic of %d hostile inputs of %d KB, in both modes", quadratic, inputs, small*factor>>10)
}

// growthOf measures until the growth is that of linear time, five times at
// most: a busy machine adds time, it takes none away.
func growthOf(t *testing.T, h hostile, tools []chat.Tool, small, factor int) float64 {
	a, b := h.text(small), h.text(small*factor)
	less, more := time.Hour, time.Hour
	for range 5 {
		less = min(less, processorTime(t, h.name, a, tools))
		more = min(more, processorTime(t, h.name, b, tools))
		if more < 2*time.Duration(factor)*less {
			break
		}
	}
	return float64(more) / float64(less)
}

func processorTime(t *testing.T, name, text string, tools []chat.Tool) time.Duration {
	t.Helper()
	start := threadTime(t)
	for _, mode := range []Mode{Strict, Compat} {
		if _, err := ReadTools(name, mode, text, tools, true); err != nil {
			t.Fatal(err)
		}
	}
	return threadTime(t) - start + time.Microsecond
}

// threadTime is the processor time of this thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	const thread = 3 // CLOCK_THREAD_CPUTIME_ID
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, thread, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		t.Fatal(errno)
	}
	return time.Duration(now.Nano())
}
