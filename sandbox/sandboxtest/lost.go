package sandboxtest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
)

var lostCells = []cell{
	{"one reply", testOneReplyLost},
	{"every first reply", testEveryReplyLost},
	{"every first request", testEveryRequestLost},
}

// lossy drops the reply of the nth command through it, counted from 0.
func lossy(sb sandbox.Sandbox, n int32) *Dropping {
	var seen atomic.Int32
	return &Dropping{Sandbox: sb, Drop: func(sandbox.Cmd) bool { return seen.Add(1)-1 == n }}
}

// countScript leaves a line behind each time that it runs.
func countScript(file, last string) string { return "echo ran >>" + file + "\n" + last }

// A lost reply at any point changes nothing in the outcome, and the job ran once.
func testOneReplyLost(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	output(t, sb, sandbox.Cmd{Script: "mkdir -m 777 " + sandbox.Path("/tmp/once")})
	for n := range int32(4) {
		for i, last := range []string{"sleep 0.2; exit 8", "sleep 60; exit 9"} {
			file := fmt.Sprintf("/tmp/once/%d-%d", n, i)
			d := sandbox.Detached{Cmd: sandbox.Cmd{Script: countScript(sandbox.Path(file), last), User: user}}
			want := sandbox.Exit{Code: 8}
			if i == 1 {
				d.Stop = stopWhenBegun(t, sb, sandbox.Path(file), 4)
				want = sandbox.Exit{State: sandbox.TimedOut}
			}
			what := fmt.Sprintf("reply %d lost, %s", n, last)
			wantExit(t, what, job(t, lossy(sb, n), d), want)
			if got := read(t, sb, file); got != "ran\n" {
				t.Errorf("%s: the job ran %d times", what, strings.Count(got, "ran"))
			}
		}
	}
}

// everyOther loses the first, third, … of the commands with the same script.
func everyOther() func(sandbox.Cmd) bool {
	var n atomic.Int32
	return func(sandbox.Cmd) bool { return n.Add(1)%2 == 1 }
}

func testEveryReplyLost(t *testing.T, b *bench) {
	sb := b.boot(t)
	d := sandbox.Detached{Cmd: sandbox.Cmd{Script: countScript(sandbox.Path("/tmp/once"), "sleep 0.5; exit 8")}}
	wantExit(t, "every other reply lost", job(t, &Dropping{Sandbox: sb, Drop: everyOther()}, d), sandbox.Exit{Code: 8})
	if got := read(t, sb, "/tmp/once"); got != "ran\n" {
		t.Errorf("the job ran %d times", strings.Count(got, "ran"))
	}
}

func testEveryRequestLost(t *testing.T, b *bench) {
	sb := b.boot(t)
	d := sandbox.Detached{Cmd: sandbox.Cmd{Script: countScript(sandbox.Path("/tmp/once"), "sleep 0.5; exit 8")}}
	wantExit(t, "every other request lost", job(t, &Dropping{Sandbox: sb, Lose: everyOther()}, d), sandbox.Exit{Code: 8})
	if got := read(t, sb, "/tmp/once"); got != "ran\n" {
		t.Errorf("the job ran %d times", strings.Count(got, "ran"))
	}
}
