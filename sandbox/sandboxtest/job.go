package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

var jobCells = []cell{
	{"status", testJobStatus},
	{"user", testJobUser},
	{"log", testJobLog},
	{"stopped", testJobStopped},
	{"stopped at once", testJobStoppedAtOnce},
	{"ignores TERM", testJobIgnoresTerm},
	{"daemon of the agent", testAgentDaemon},
	{"daemon of root", testRootDaemon},
	{"lost", testJobLost},
	{"cancelled", testJobCancelled},
	{"refused", testJobRefused},
	{"out of reach", testJobReach},
	{"concurrent", testJobsConcurrent},
	{"interrupt", testJobInterrupt},
}

// job runs a detached command to its end.
func job(t testing.TB, sb sandbox.Sandbox, d sandbox.Detached) sandbox.Exit {
	t.Helper()
	exit, err := sandbox.RunDetached(t.Context(), sb, d)
	if err != nil {
		t.Fatalf("RunDetached(%s): %v", abbreviate(d.Script), err)
	}
	return exit
}

func wantExit(t testing.TB, what string, got, want sandbox.Exit) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, code %d, want %v, code %d", what, got.State, got.Code, want.State, want.Code)
	}
}

func testJobStatus(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	for _, as := range []string{"", user} {
		for script, want := range map[string]int{":": 0, "exit 7": 7, "kill -KILL $$": 137, "no-such-command-x": 127} {
			exit := job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: script, User: as}})
			wantExit(t, fmt.Sprintf("job %q of %q", script, as), exit, sandbox.Exit{Code: want})
		}
	}
	large := "x='" + strings.Repeat("y\n", 150_000) + "'; [ ${#x} = 300000 ] && exit 9"
	wantExit(t, "a script of 300 kB", job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: large}}), sandbox.Exit{Code: 9})
}

func testJobUser(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	output(t, sb, sandbox.Cmd{Script: "mkdir -m 755 " + sandbox.Path("/tmp/at")})
	cmd := sandbox.Cmd{User: user, Dir: "/tmp/at", Env: map[string]string{"TEXT": "a 'b'\n\"c\" $d"},
		Script: `id -un; pwd; echo "$TEXT"; echo "$HOME"; umask; cat; echo $0 >/dev/null`}
	exit := job(t, sb, sandbox.Detached{Cmd: cmd, Log: "/tmp/user.log"})
	wantExit(t, "job", exit, sandbox.Exit{})
	want := output(t, sb, sandbox.Cmd{User: user, Dir: "/tmp/at", Env: cmd.Env, Script: `id -un; pwd; echo "$TEXT"; echo "$HOME"; echo 0022`})
	if got := strings.TrimSpace(read(t, sb, "/tmp/user.log")); got != want {
		t.Errorf("a detached command finds %q, want %q", got, want)
	}
	cmd.Env = map[string]string{"HOME": "/tmp/at", "USER": "somebody"}
	cmd.Script = `echo "$HOME $USER"`
	job(t, sb, sandbox.Detached{Cmd: cmd, Log: "/tmp/user.log"})
	if got := read(t, sb, "/tmp/user.log"); got != "/tmp/at somebody\n" {
		t.Errorf("HOME and USER of the command's own Env are %q", got)
	}
}

func testJobLog(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	write(t, sb, "/tmp/target", "", "kept")
	output(t, sb, sandbox.Cmd{Script: "mkdir -p " + sandbox.Path("/tmp/logs") + " && ln -s " + sandbox.Path("/tmp/target") + " " + sandbox.Path("/tmp/logs/log")})
	script := "echo one; echo two >&2; echo three >/dev/stdout; printf 'bin\\000\\377\\n' >/dev/stderr; head -c 200000 /dev/zero | tr '\\0' x; echo; echo end"
	want := "one\ntwo\nthree\nbin\x00\xff\n" + strings.Repeat("x", 200_000) + "\nend\n"
	for _, path := range []string{"/tmp/logs/log", "/tmp/logs/it's new/log", "/tmp/logs/log"} {
		job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: script, User: user}, Log: path})
		if got := read(t, sb, path); got != want {
			t.Errorf("log %s holds %d bytes %q, want %d", path, len(got), abbreviate(got), len(want))
		}
	}
	if got := read(t, sb, "/tmp/target"); got != "kept" {
		t.Errorf("the log was written through a link: %q", abbreviate(got))
	}
	tail, err := sandbox.Tail(t.Context(), sb, "/tmp/logs/log", 10)
	if err != nil || string(tail) != "xxxxx\nend\n" {
		t.Errorf("Tail = %q, %v", tail, err)
	}
}

// whenBegun calls fn once a file of the job, spelled for a script, holds min
// bytes: however slow the machine is, the job is then on its way.
func whenBegun(t testing.TB, sb sandbox.Sandbox, file string, min int, fn func()) {
	go func() {
		soon(t, "the job's begin", func() bool {
			res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: fmt.Sprintf("[ $(wc -c <%s) -ge %d ] 2>/dev/null", file, min)})
			return err != nil || res.Ok()
		})
		fn()
	}()
}

// stopWhenBegun returns a channel that is closed then.
func stopWhenBegun(t testing.TB, sb sandbox.Sandbox, file string, min int) <-chan struct{} {
	stop := make(chan struct{})
	whenBegun(t, sb, file, min, func() { close(stop) })
	return stop
}

func testJobStopped(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	for i, as := range []string{"", user} {
		log := fmt.Sprintf("/tmp/stopped-%d.log", i)
		d := sandbox.Detached{Log: log, Stop: stopWhenBegun(t, sb, sandbox.Path(log), 6)}
		d.Cmd = sandbox.Cmd{User: as, Script: "trap 'echo told; exit 3' TERM; echo begin; while :; do sleep 0.1; done"}
		exit := job(t, sb, d)
		wantExit(t, "job that was stopped", exit, sandbox.Exit{State: sandbox.TimedOut})
		if got := read(t, sb, log); !strings.HasPrefix(got, "begin\n") || !strings.Contains(got, "told\n") { // a shell may say "Terminated" of a child
			t.Errorf("its log holds %q", got)
		}
	}
}

func testJobStoppedAtOnce(t *testing.T, b *bench) {
	sb := b.boot(t)
	stop := make(chan struct{})
	close(stop)
	exit := job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: "sleep 60"}, Stop: stop})
	wantExit(t, "job whose time is over before it starts", exit, sandbox.Exit{State: sandbox.TimedOut})
}

// writer is a script that goes on writing to a file, whatever it is told.
func writer(file string) string {
	return "trap '' TERM HUP INT; while :; do echo x >>" + file + "; sleep 0.02; done"
}

// daemon is a script that leaves two writers behind that are out of its
// group and its session, one with an empty environment, and then does last.
func daemon(file, last string) string {
	in := strings.ReplaceAll(writer(file), "'", `'\''`)
	return "echo begin >" + file + "\n" +
		"setsid sh -c '" + in + "' >/dev/null 2>&1 &\n" +
		"(setsid env -i PATH=\"$PATH\" sh -c '" + in + "' >/dev/null 2>&1 &)\nsleep 0.3\n" + last
}

// wantSilence checks that a file was written to and is not any more.
func wantSilence(t testing.TB, sb sandbox.Sandbox, what, file string) {
	t.Helper()
	got := output(t, sb, sandbox.Cmd{Script: "a=$(wc -c <" + file + "); sleep 0.4; b=$(wc -c <" + file + "); [ $a = $b ] && [ $a -gt 10 ] && echo silent || echo $a, then $b"})
	if got != "silent" {
		t.Errorf("%s: its file has %s bytes", what, got)
	}
}

func testJobIgnoresTerm(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	output(t, sb, sandbox.Cmd{Script: "mkdir -m 777 " + sandbox.Path("/tmp/w")})
	for i, as := range []string{"", user} {
		file := sandbox.Path(fmt.Sprintf("/tmp/w/%d", i))
		var told time.Time
		stop := make(chan struct{})
		whenBegun(t, sb, file, 12, func() { told = time.Now(); close(stop) })
		exit := job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: writer(file), User: as}, Stop: stop})
		wantExit(t, "job that ignores TERM", exit, sandbox.Exit{State: sandbox.TimedOut})
		wantSilence(t, sb, "after KILL", file)
		t.Logf("figure: a job that ignores TERM is dead %v after it was told to stop", time.Since(told).Round(100*time.Millisecond))
	}
}

func testDaemon(t *testing.T, sb sandbox.Sandbox, as string) {
	t.Helper()
	output(t, sb, sandbox.Cmd{Script: "mkdir -m 777 " + sandbox.Path("/tmp/d")})
	for i, last := range []string{"exit 6", "sleep 60"} {
		file := sandbox.Path(fmt.Sprintf("/tmp/d/%d", i))
		var stop <-chan struct{}
		if i == 1 {
			stop = stopWhenBegun(t, sb, file, 40)
		}
		exit := job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: daemon(file, last), User: as}, Stop: stop})
		want := []sandbox.Exit{{Code: 6}, {State: sandbox.TimedOut}}[i]
		wantExit(t, "job with daemons, then "+last, exit, want)
		wantSilence(t, sb, "daemons of a job, then "+last, file)
	}
}

func testAgentDaemon(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	testDaemon(t, sb, user)
}

func testRootDaemon(t *testing.T, b *bench) {
	testDaemon(t, b.boot(t), "")
}

// supervisor is the process that waits for the only job in a sandbox.
const supervisorKill = `for f in "${AGENTRL_ROOT-}"/var/lib/agentrl/*/sup; do read -r pid start <"$f"; kill -KILL "$pid"; done`

func testJobLost(t *testing.T, b *bench) {
	own, user := b.withUser(t)
	sb := &Dropping{Sandbox: own} // also where the backend has a way of its own
	output(t, sb, sandbox.Cmd{Script: "mkdir -m 777 " + sandbox.Path("/tmp/l")})
	for i, as := range []string{"", user} {
		file := sandbox.Path(fmt.Sprintf("/tmp/l/%d", i))
		killed := make(chan time.Time, 1)
		whenBegun(t, sb, file, 12, func() {
			if _, err := sb.Exec(t.Context(), sandbox.Cmd{Script: supervisorKill}); err != nil {
				t.Errorf("kill the supervisor: %v", err)
			}
			killed <- time.Now()
		})
		exit := job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: writer(file), User: as}})
		wantExit(t, "job whose supervisor was killed", exit, sandbox.Exit{State: sandbox.Lost})
		t.Logf("figure: a loss is seen after %v", time.Since(<-killed).Round(10*time.Millisecond))
		wantSilence(t, sb, "after the loss", file)
	}
}

func testJobCancelled(t *testing.T, b *bench) {
	sb := b.boot(t)
	file := sandbox.Path("/tmp/cancelled")
	spent := errors.New("budget spent")
	ctx, cancel := context.WithCancelCause(t.Context())
	var start time.Time
	whenBegun(t, sb, file, 12, func() { start = time.Now(); cancel(spent) })
	_, err := sandbox.RunDetached(ctx, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: writer(file)}})
	wantErr(t, "RunDetached whose ctx ended", err, spent)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("RunDetached took %v after its ctx had ended", took)
	}
	wantSilence(t, sb, "after cancelling", file)
}

func testJobRefused(t *testing.T, b *bench) {
	sb := b.boot(t)
	for name, d := range map[string]sandbox.Detached{
		"missing directory": {Cmd: sandbox.Cmd{Script: ":", Dir: "/no/such"}},
		"NUL":               {Cmd: sandbox.Cmd{Script: "a\x00"}},
		"relative log":      {Cmd: sandbox.Cmd{Script: ":"}, Log: "log"},
	} {
		_, err := sandbox.RunDetached(t.Context(), sb, d)
		wantErr(t, "RunDetached, "+name, err, sandbox.ErrInvalid)
	}
	write(t, sb, "/tmp/no directory", "", "")
	_, err := sandbox.RunDetached(t.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: ":"}, Log: "/tmp/no directory/log"})
	if err == nil {
		t.Error("RunDetached with a log that cannot be made succeeds")
	}
	if !b.caps.OneUser {
		_, err = sandbox.RunDetached(t.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: ":", User: "nobody-here"}})
		if err == nil || !strings.Contains(err.Error(), "nobody-here") {
			t.Errorf("RunDetached of a missing user: %v", err)
		}
	}
	if left := output(t, sb, sandbox.Cmd{Script: "cd " + sandbox.Path("/var/lib/agentrl") + " 2>/dev/null && ls; :"}); left != "" && len(strings.Fields(left)) > 2 {
		t.Errorf("refused jobs leave %q", left)
	}
}

func testJobReach(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	if b.caps.OneUser {
		t.Log("figure: there is one user")
		return
	}
	script := `d=/var/lib/agentrl; ls $d 2>/dev/null; j=$d/$AGENTRL_JOB; ls $j 2>/dev/null; (: >$j/rc.0) 2>/dev/null && echo wrote; (echo x >$j.sh) 2>/dev/null && echo rewrote
for f in $d/$AGENTRL_JOB/*; do cat $f 2>/dev/null; done; kill -KILL $PPID 2>/dev/null && echo killed; exit 5`
	exit := job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: script, User: user}, Log: "/tmp/reach.log"})
	wantExit(t, "job that reaches for its files", exit, sandbox.Exit{Code: 5})
	if got := read(t, sb, "/tmp/reach.log"); got != "" {
		t.Errorf("the job could: %s", got)
	}
	if left := output(t, sb, sandbox.Cmd{Script: "ls /var/lib/agentrl"}); left != "" {
		t.Errorf("after its end there is %q", left)
	}
}

func testJobsConcurrent(t *testing.T, b *bench) {
	sb := b.boot(t)
	var longest time.Duration
	delays := make(chan time.Duration, 10)
	together(10, func(i int) {
		file := fmt.Sprintf("/tmp/end-%d", i)
		d := sandbox.Detached{Cmd: sandbox.Cmd{Script: fmt.Sprintf("sleep 1; date +%%s.%%N >%s; exit %d", sandbox.Path(file), i)}, Log: fmt.Sprintf("/tmp/log-%d", i)}
		exit, err := sandbox.RunDetached(t.Context(), sb, d)
		end := time.Now()
		if err != nil || exit != (sandbox.Exit{Code: i}) {
			t.Errorf("job %d of 10 at once: %v, %v", i, exit, err)
			return
		}
		var at float64
		if _, err := fmt.Sscan(read(t, sb, file), &at); err == nil {
			delays <- end.Sub(time.UnixMicro(int64(at * 1e6)))
		}
	})
	close(delays)
	for d := range delays {
		longest = max(longest, d)
	}
	t.Logf("figure: of 10 jobs at once the last end was seen after %v", longest.Round(time.Millisecond))
}

func testJobInterrupt(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	for _, as := range []string{"", user} {
		job(t, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: "sh -c 'kill -INT $$; echo survived'; :", User: as}, Log: "/tmp/int.log"})
		if got := read(t, sb, "/tmp/int.log"); got != "" {
			t.Errorf("SIGINT is ignored in a job of %q: %q", as, got)
		}
	}
}
