package sandboxtest

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
)

// ConstantMemory moves 200 MB up and down and wants the peak memory of the
// process that does it to stay under 64 MB. It is a process of its own: the
// calling test, run again with the variable set to value, which boot gets.
func ConstantMemory(t *testing.T, variable, value string, boot func(value string) sandbox.Sandbox) {
	const size, limit = 200 << 20, 64 // bytes, MB
	if v := os.Getenv(variable); v != "" {
		debug.SetGCPercent(50)
		moveBoth(t, boot(v), size)
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), variable+"="+value)
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

// moveBoth writes and reads a file of size bytes and prints the peak memory.
func moveBoth(t *testing.T, sb sandbox.Sandbox, size int64) {
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
