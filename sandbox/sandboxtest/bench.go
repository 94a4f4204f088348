package sandboxtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
)

// Bench measures a backend: the round trip of a command, alone and 200 at
// once, 100 MB of output, 200 MB up and down, a creation with its close, and a
// durable job. Each reports this process's peak memory where the system tells
// (Linux).
func Bench(b *testing.B, p sandbox.Provider, spec sandbox.Spec) {
	b.Run("create", func(b *testing.B) {
		measure(b, func() { closeNow(b, createNow(b, p, spec)) })
	})
	sb := createNow(b, p, spec)
	defer closeNow(b, sb)
	b.Run("exec", func(b *testing.B) {
		measure(b, func() { mustRun(b, sb, ":") })
	})
	b.Run("exec-200-at-once", func(b *testing.B) {
		measure(b, func() {
			together(200, func(i int) {
				script := fmt.Sprintf("echo %d; exit %d", i, i%100)
				res, err := sb.Exec(b.Context(), sandbox.Cmd{Script: script})
				if err != nil || res.Code != i%100 || string(res.Stdout) != fmt.Sprintln(i) {
					b.Errorf("%s: %d, %q, %v", script, res.Code, res.Stdout, err)
				}
			})
		})
	})
	b.Run("job", func(b *testing.B) {
		measure(b, func() {
			if _, err := sandbox.RunDetached(b.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: ":"}}); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("output-100MB", func(b *testing.B) {
		b.SetBytes(100 << 20)
		measure(b, func() {
			res, err := sb.Exec(b.Context(), sandbox.Cmd{Script: "head -c 104857600 /dev/zero"})
			if err != nil || len(res.Stdout) != 100<<20 {
				b.Fatalf("%d bytes, %v", len(res.Stdout), err)
			}
		})
	})
	const size = 200 << 20
	b.Run("up-200MB", func(b *testing.B) {
		b.SetBytes(size)
		measure(b, func() {
			if err := sb.WriteFile(b.Context(), "/tmp/large", "", &zeros{size: size}); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("down-200MB", func(b *testing.B) {
		b.SetBytes(size)
		measure(b, func() {
			r, err := sb.ReadFile(b.Context(), "/tmp/large")
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			if n, err := io.Copy(io.Discard, r); n != size || err != nil {
				b.Fatalf("%d bytes, %v", n, err)
			}
		})
	})
}

// measure times fn and reports the peak of this process's memory meanwhile.
func measure(b *testing.B, fn func()) {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // sets the peak back
	for b.Loop() {
		fn()
	}
	if mb := peakMB(); mb > 0 {
		b.ReportMetric(mb, "peak-MB")
	}
}

// peakMB is the most memory that this process has had, 0 where it is not known.
func peakMB() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	kb, _ := strconv.ParseFloat(strings.Fields(string(after) + " 0")[0], 64)
	return kb / 1024
}

func createNow(b *testing.B, p sandbox.Provider, spec sandbox.Spec) sandbox.Sandbox {
	b.Helper()
	sb, err := p.Create(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	return sb
}

func closeNow(b *testing.B, sb sandbox.Sandbox) {
	b.Helper()
	if err := sb.Close(); err != nil {
		b.Fatal(err)
	}
}

func mustRun(b *testing.B, sb sandbox.Sandbox, script string) {
	b.Helper()
	res, err := sb.Exec(b.Context(), sandbox.Cmd{Script: script})
	if err != nil || !res.Ok() {
		b.Fatalf("%s: %d, %v", script, res.Code, err)
	}
}

// zeros is a content of zeros that costs nothing to make.
type zeros struct{ size, at int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.at >= z.size {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.size-z.at)
	clear(p[:n])
	z.at += n
	return int(n), nil
}

func (z *zeros) Seek(offset int64, whence int) (int64, error) {
	z.at = offset + []int64{0, z.at, z.size}[whence]
	return z.at, nil
}
