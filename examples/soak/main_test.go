//go:build linux

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

const asProgram = "AGENTRL_TEST_SOAK"

func TestMain(m *testing.M) {
	e2btest.RunChild()
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// soak is the program with these arguments.
func soak(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if err := e2btest.CanRun(); err != nil {
		t.Skip(err)
	}
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+t.TempDir())
	return c
}

// sampleLine is a whole line of measures.
var sampleLine = regexp.MustCompile(`^ *[0-9hms]+ rollouts=[0-9]+( [a-z-]+=[0-9.e+]+(MB|kB)?){9}$`)

func TestNothingIsLeft(t *testing.T) {
	out, err := soak(t, "-n", "100", "-parallel", "8", "-every", "1m").CombinedOutput() // too few samples to judge
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"\nleft: 0 sandboxes, 0 ledger entries (0 bytes), 0 generations, ",
		"completed: right answer, reward 1\n", "completed: wrong answer, reward 0\n",
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// TestTerminated: SIGTERM in the middle ends the program cleanly, within the
// time that it states itself.
func TestTerminated(t *testing.T) {
	c := soak(t, "-parallel", "8", "-every", "500ms", "-grace", "60s")
	var problems bytes.Buffer
	c.Stderr = &problems
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	samples, told := 0, time.Time{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), " rollouts=") {
			samples++
			if !sampleLine.MatchString(lines.Text()) {
				t.Errorf("not a whole line of measures: %q", lines.Text())
			}
		}
		if told.IsZero() && samples >= 3 && !strings.Contains(lines.Text(), "rollouts=0 ") {
			told = time.Now()
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %s", err, problems.String())
	}
	for _, want := range []string{"a terminated run ends within 1m0s", "\nterminated after ", "\nleft: 0 sandboxes, 0 ledger entries (0 bytes), 0 generations, "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, text.String())
		}
	}
	t.Logf("figure: SIGTERM in the middle of 8 rollouts: ended in %.1f s, status 0, 0 sandboxes, 0 ledger entries", time.Since(told).Seconds())
}

func TestGrowthIsSeen(t *testing.T) {
	var out bytes.Buffer
	w := &watch{out: &out}
	for i := range 30 {
		m := measures{20, 50, 300, 200, 30, 30, 12, 1000, 11}
		m[3] += float64(i * 10) // a descriptor leak
		w.lines = append(w.lines, m)
	}
	if err := w.judge(); err == nil || err.Error() != "descriptors grows" {
		t.Errorf("judge = %v, want descriptors alone\n%s", err, out.String())
	}
}
