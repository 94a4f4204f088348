package docker_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

func BenchmarkSandbox(b *testing.B) {
	sandboxtest.Bench(b, provider(b), sandbox.Spec{Image: image, Workdir: "/tmp"})
}

const childVar = "AGENTRL_TEST_DOCKER_CHILD"

// TestConstantMemory moves 200 MB up and down in a process of its own.
func TestConstantMemory(t *testing.T) {
	const size, limit = 200 << 20, 64 // bytes, MB
	provider(t)
	if os.Getenv(childVar) != "" {
		moveBoth(t, size)
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestConstantMemory$", "-test.v")
	c.Env = append(os.Environ(), childVar+"=1")
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

func moveBoth(t *testing.T, size int64) {
	debug.SetGCPercent(50)
	sb := boot(t, provider(t), sandbox.Spec{})
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
