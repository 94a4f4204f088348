package endmark

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// run gives the command to a real shell and its output to the mark, in pieces
// of n bytes. It does not wait for holders of the output.
func run(t *testing.T, piped bool, sh string, script string, n int) *Mark {
	t.Helper()
	m := New(1 << 20)
	argv := m.Argv([]string{sh, "-c"}, script)
	if piped {
		argv = m.PipedArgv([]string{sh, "-c"}, script)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	stdout, _ := cmd.StdoutPipe()
	stderr, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 1)
	go func() { errs <- feed(stderr, n, func(p []byte) (bool, error) { return m.stderr.marked, m.Stderr(p) }) }()
	if err := feed(stdout, n, func(p []byte) (bool, error) { _, ok := m.status(); return ok, m.Stdout(p) }); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	stdout.Close()
	stderr.Close()
	_ = cmd.Wait()
	return m
}

func feed(r io.Reader, n int, take func([]byte) (bool, error)) error {
	buf := make([]byte, n)
	for {
		k, err := r.Read(buf)
		if _, terr := take(buf[:k]); terr != nil {
			return terr
		}
		if done, _ := take(nil); done || err != nil {
			return nil
		}
	}
}

func TestShells(t *testing.T) {
	tests := []struct {
		name, script   string
		code           int
		signal         string
		stdout, stderr string
	}{
		{"nothing", ":", 0, "", "", ""},
		{"output", "printf a; printf b >&2; exit 3", 3, "", "a", "b"},
		{"stdin is empty", "cat; echo $?", 0, "", "0\n", ""},
		{"exit 137", "exit 137", 137, "", "", ""},
		{"killed", "printf x; kill -KILL $$", 0, "SIGKILL", "x", ""},
		{"terminated", "kill -TERM $$", 0, "SIGTERM", "", ""},
		{"segfault", "kill -SEGV $$", 0, "SIGSEGV", "", ""},
		{"a child killed", "{ sh -c 'kill -KILL $$'; } 2>/dev/null; exit 5", 5, "", "", ""},
		{"quotes", `printf '%s' "a'b\"c"`, 0, "", `a'b"c`, ""},
		{"binary", `printf '\000\377\036'`, 0, "", "\x00\xff\x1e", ""},
		{"held output", "sleep 30 & printf a; exit 4", 4, "", "a", ""},
	}
	for _, sh := range []string{"dash", "bash", "busybox"} {
		path, err := exec.LookPath(sh)
		if err != nil {
			continue // at least one of them is /bin/sh
		}
		if sh == "busybox" {
			path = "/bin/sh"
		}
		for _, tt := range tests {
			for _, piped := range []bool{false, true} {
				t.Run(fmt.Sprint(sh, "/", tt.name, "/", piped), func(t *testing.T) {
					start := time.Now()
					m := run(t, piped, path, tt.script, 7)
					if took := time.Since(start); took > 20*time.Second {
						t.Errorf("took %v: waited for the holder", took)
					}
					code, signal, err := m.Status()
					stdout, stderr := m.Output()
					if err != nil || !m.Done() || code != tt.code || signal != tt.signal || string(stdout) != tt.stdout || string(stderr) != tt.stderr {
						t.Errorf("%q: got %d %q %q %q, error %v, done %v", tt.script, code, signal, stdout, stderr, err, m.Done())
					}
				})
			}
		}
	}
}

func TestTooLong(t *testing.T) {
	m := New(100)
	var long TooLongError
	if err := m.Stdout(bytes.Repeat([]byte("x"), 10_000)); !errors.As(err, &long) || long.Limit != 100 {
		t.Errorf("Stdout past the limit: %v, want TooLongError{100}", err)
	}
}

func TestNoStatus(t *testing.T) {
	for _, text := range []string{"", "x", " x", " 1x"} {
		m := New(1000)
		_ = m.Stdout([]byte(string(m.mark) + text + string(m.mark)))
		if _, _, err := m.Status(); err == nil {
			t.Errorf("Status of %q: no error", text)
		}
	}
	if _, _, err := New(10).Status(); err == nil {
		t.Error("Status before the end: no error")
	}
}

func FuzzMark(f *testing.F) {
	f.Add([]byte("out"), []byte("tail"), "Killed\n 137", uint8(3))
	f.Add([]byte("\x1e"), []byte(""), " 0", uint8(1))
	f.Fuzz(func(t *testing.T, out, tail []byte, text string, n uint8) {
		m := New(1 << 20)
		if bytes.Contains(out, m.mark) || strings.Contains(text, string(m.mark)) {
			t.Skip()
		}
		all := append(append(append(append(bytes.Clone(out), m.mark...), text...), m.mark...), tail...)
		for len(all) > 0 {
			k := min(int(n)+1, len(all))
			if err := m.Stdout(all[:k]); err != nil {
				t.Skip()
			}
			all = all[k:]
		}
		if got, _ := m.Output(); !bytes.Equal(got, out) {
			t.Errorf("Output = %q, want %q", got, out)
		}
		_, _, _ = m.Status()
	})
}
