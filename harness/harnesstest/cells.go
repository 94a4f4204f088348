package harnesstest

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A cell is one line of the contract.
type cell struct {
	name string
	run  func(*testing.T, *bench)
}

// cells are the ends that a run can have, and what must hold of each.
var cells = []cell{
	{"solved", solved},
	{"gave up", gaveUp},
	{"max turns", maxTurns},
	{"context exhausted", contextExhausted},
	{"refused", refused},
	{"crashed", crashed},
	{"unreachable", unreachable},
	{"cut off", cutOff},
	{"budget", budget},
	{"nested agent", nested},
}

// daemon forks twice, ignores TERM, and writes to a file for ever.
const daemon = `(setsid sh -c 'trap "" TERM HUP INT; while :; do echo x >>"$0"; sleep 0.1; done' "$PWD/written" >/dev/null 2>&1 </dev/null &)`

// solved: the agent edits a file, leaves a daemon behind, and ends.
func solved(t *testing.T, b *bench) {
	r := b.begin(t, "solved", Model{Policy: func(prompt string) string {
		switch Turn(prompt) {
		case 0:
			return "First.\n" + b.c.Call(prompt, "printf fixed >answer.txt")
		case 1:
			return b.c.Call(prompt, daemon+"; until [ -s written ]; do sleep 0.1; done")
		}
		return "Fixed it."
	}})
	rss := r.watchMemory()
	report := r.run(harness.Finished)
	t.Logf("figure: peak RSS %d MB", rss()/1024)
	if got := r.status(); got != "?? answer.txt\n?? written" {
		t.Errorf("the work directory has %q; log:\n%s", got, report.Log)
	}
	r.unchanged()
	if report.Exit != (sandbox.Exit{}) || report.Version == "" || report.Log == "" {
		t.Errorf("Report: exit %+v, version %q, log %q", report.Exit, report.Version, report.Log)
	}
	t.Logf("figure: version %q, turns %d, sessions %q", report.Version, report.Turns, report.Sessions)
}

// gaveUp: every answer is cut by length.
func gaveUp(t *testing.T, b *bench) {
	b.begin(t, "gave up", Model{Policy: func(string) string { return "On and on" + b.c.Cut }}).run(harness.GaveUp)
}

// maxTurns: the session's turns are spent.
func maxTurns(t *testing.T, b *bench) {
	r := b.begin(t, "max turns", Model{MaxTurns: 2, Policy: func(prompt string) string {
		return b.c.Call(prompt, "echo "+strconv.Itoa(Turn(prompt)))
	}})
	r.run(harness.MaxTurns)
}

// contextExhausted: the prompt alone is too long, for more than the agent was
// told.
func contextExhausted(t *testing.T, b *bench) {
	r := b.begin(t, "context exhausted", Model{MaxContext: 100, Policy: func(string) string { return "Hello." }})
	r.run(harness.ContextExhausted)
}

// refused: the token is worth nothing.
func refused(t *testing.T, b *bench) {
	r := b.begin(t, "refused", Model{Policy: func(string) string { return "Hello." }})
	r.job.Token = "of-another-session"
	r.run(harness.Refused)
}

// crashed: the agent is killed by its own command.
func crashed(t *testing.T, b *bench) {
	r := b.begin(t, "crashed", Model{Policy: func(prompt string) string { return b.c.Call(prompt, "kill -9 $PPID; sleep 30") }})
	if report := r.run(harness.Crashed); report.Exit.State == sandbox.Exited && report.Exit.Code == 0 {
		t.Error("a crash has exit status 0")
	}
}

// unreachable: nothing listens at the adapter's address.
func unreachable(t *testing.T, b *bench) {
	r := b.begin(t, "unreachable", Model{Policy: func(string) string { return "Hello." }})
	r.model.Vanish()
	r.checkUnreachable(r.run(harness.Unreachable))
}

// cutOff: the adapter vanishes while the agent works.
func cutOff(t *testing.T, b *bench) {
	var r *run
	var gone atomic.Int64
	r = b.begin(t, "cut off", Model{Policy: func(prompt string) string {
		if Turn(prompt) > 0 && gone.CompareAndSwap(0, time.Now().UnixNano()) {
			r.model.Vanish()
		}
		return b.c.Call(prompt, "echo edit >edit.txt")
	}})
	r.checkUnreachable(r.run(harness.Unreachable))
	t.Logf("figure: the run is over %.1f s after the adapter went", time.Since(time.Unix(0, gone.Load())).Seconds())
}

func (r *run) checkUnreachable(report harness.Report) {
	r.t.Helper()
	if !strings.Contains(report.Log, r.job.BaseURL) || !strings.Contains(report.Log, "check") {
		r.t.Errorf("the message names neither the address %s nor what to check:\n%s", r.job.BaseURL, report.Log)
	}
}

// budget: time is up in the middle of an edit, with a daemon that writes on.
func budget(t *testing.T, b *bench) {
	r := b.begin(t, "budget", Model{Policy: func(prompt string) string {
		return b.c.Call(prompt, daemon+`; trap "" TERM; while :; do echo x >>edit.txt; sleep 0.1; done`)
	}})
	go func() {
		r.await("written")
		r.await("edit.txt")
		close(r.stop)
	}()
	if report := r.run(harness.Budget); report.Exit.State != sandbox.TimedOut {
		t.Errorf("Exit %+v, want one that timed out", report.Exit)
	}
	if got := r.status(); got != "?? edit.txt\n?? written" {
		t.Errorf("the work directory has %q", got)
	}
	r.unchanged()
}

// nested: an agent starts another one, whose session is kept too.
func nested(t *testing.T, b *bench) {
	if b.c.Nested == "" {
		t.Log("figure: nested agent: empty: the agent cannot start another one")
		return
	}
	r := b.begin(t, "nested agent", Model{Policy: func(prompt string) string {
		switch {
		case strings.Contains(prompt, innerTask) && !strings.Contains(prompt, "answer.txt"):
			return "Inner done."
		case Turn(prompt) == 0:
			return b.c.Call(prompt, "echo "+innerTask+" | "+b.c.Nested)
		}
		return "Outer done."
	}})
	report := r.run(harness.Finished)
	if len(report.Sessions) != 2 {
		t.Errorf("sessions %q, want two", report.Sessions)
	}
	t.Logf("figure: sessions of the agent and of one within it: %q", report.Sessions)
}

const innerTask = "INNER-TASK"

// unchanged checks that nothing writes to the work directory any more.
func (r *run) unchanged() {
	r.t.Helper()
	sum := sandbox.Cmd{Script: "find . -path ./.git -prune -o -type f -print | sort | xargs cat | cksum", Dir: r.dir}
	before := r.sh(sum)
	time.Sleep(400 * time.Millisecond)
	if after := r.sh(sum); after != before {
		r.t.Errorf("the work directory still changes: %s, then %s", before, after)
	}
}

// watchMemory samples the largest resident set of the agent's processes until
// the returned function is called, which returns it in kB.
func (r *run) watchMemory() func() int {
	done, result := make(chan struct{}), make(chan int)
	script := fmt.Sprintf(`u=$(id -u %s); for p in /proc/[0-9]*/status; do
	grep -q "^Uid:[[:space:]]*$u[[:space:]]" $p 2>/dev/null && sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' $p 2>/dev/null; done | sort -n | tail -n 1`, sandbox.AgentUser)
	go func() {
		peak := 0
		for {
			select {
			case <-done:
				result <- peak
				return
			case <-time.After(250 * time.Millisecond):
			}
			if res, err := r.b.box.Exec(r.t.Context(), sandbox.Cmd{Script: script}); err == nil {
				n, _ := strconv.Atoi(strings.TrimSpace(string(res.Stdout))) // empty before the agent starts
				peak = max(peak, n)
			}
		}
	}()
	return func() int {
		close(done)
		return <-result
	}
}
