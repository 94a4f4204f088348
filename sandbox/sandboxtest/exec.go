package sandboxtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

var execCells = []cell{
	{"status", testStatus},
	{"signal", testSignal},
	{"binary output", testBinary},
	{"large output", testLargeOutput},
	{"environment", testEnv},
	{"directory", testDir},
	{"missing directory", testNoDir},
	{"missing user", testNoUser},
	{"stdin", testStdin},
	{"background child", testBackground},
	{"large script", testLargeScript},
	{"NUL", testNUL},
	{"cancel", testCancel},
	{"concurrent", testConcurrent},
	{"interrupt", testInterrupt},
}

func testStatus(t *testing.T, b *bench) {
	sb := b.boot(t)
	for script, want := range map[string]int{":": 0, "exit 3": 3, "exit 255": 255, "no-such-command-x": 127, "exit 137": 137, "/": 126} {
		res := run(t, sb, sandbox.Cmd{Script: script})
		if res.Code != want || res.Signal != "" || res.Ok() != (want == 0) {
			t.Errorf("Exec(%s) = %d, signal %q, Ok %t, want %d", script, res.Code, res.Signal, res.Ok(), want)
		}
	}
}

func testSignal(t *testing.T, b *bench) {
	sb := b.boot(t)
	for _, sig := range []string{"KILL", "TERM", "SEGV"} {
		res := run(t, sb, sandbox.Cmd{Script: "kill -" + sig + " $$; sleep 5"})
		if res.Signal != "SIG"+sig || res.Code != 0 || res.Ok() {
			t.Errorf("Exec of a shell killed by %s = code %d, signal %q", sig, res.Code, res.Signal)
		}
	}
}

func testBinary(t *testing.T, b *bench) {
	sb := b.boot(t)
	res := run(t, sb, sandbox.Cmd{Script: `printf 'a\000b\377\n\r\n\033[0m'; printf '\200\201' >&2`})
	if got, want := string(res.Stdout), "a\x00b\xff\n\r\n\x1b[0m"; got != want {
		t.Errorf("stdout = %q, want %q", got, want)
	}
	if got, want := string(res.Stderr), "\x80\x81"; got != want {
		t.Errorf("stderr = %q, want %q", got, want)
	}
}

func testLargeOutput(t *testing.T, b *bench) {
	sb := b.boot(t)
	const lines = 100_000
	res := run(t, sb, sandbox.Cmd{Script: fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo 0123456789; i=$((i+1)); done; echo end >&2", lines)})
	if got, want := string(res.Stdout), strings.Repeat("0123456789\n", lines); got != want {
		t.Errorf("stdout is %d bytes, want %d, and the same", len(got), len(want))
	}
	if string(res.Stderr) != "end\n" {
		t.Errorf("stderr = %q", res.Stderr)
	}
}

func testEnv(t *testing.T, b *bench) {
	spec := b.caps.Spec
	spec.Env = map[string]string{"FROM_SPEC": "spec", "BOTH": "spec"}
	sb := b.bootSpec(t, spec)
	long := strings.Repeat("x", 60<<10)
	env := map[string]string{"BOTH": "cmd", "TEXT": "it's \"ü\" 日本\n$HOME `id` \\", "EMPTY": "", "LONG": long}
	got := output(t, sb, sandbox.Cmd{Script: `printf '%s|%s|%s|%s|%s' "$FROM_SPEC" "$BOTH" "$TEXT" "${EMPTY-unset}" "${#LONG}"`, Env: env})
	if want := fmt.Sprintf("spec|cmd|%s||%d", env["TEXT"], len(long)); got != want {
		t.Errorf("environment = %q, want %q", got, want)
	}
	if got := output(t, sb, sandbox.Cmd{Script: "command -v ls >/dev/null && echo ${PATH:+set} ${HOME:+set}"}); got != "set set" {
		t.Errorf("PATH and HOME are %q, want set set", got)
	}
}

func testDir(t *testing.T, b *bench) {
	sb := b.boot(t)
	run(t, sb, sandbox.Cmd{Script: "mkdir -p " + sandbox.Path("/tmp/a dir's")})
	got := output(t, sb, sandbox.Cmd{Script: `pwd; [ "$(pwd)" = ` + sandbox.Path("/tmp/a dir's") + ` ] && echo same`, Dir: "/tmp/a dir's"})
	if !strings.HasSuffix(got, "\nsame") {
		t.Errorf("pwd = %q", got)
	}
	root := output(t, sb, sandbox.Cmd{Script: `cd ` + sandbox.Path("/") + ` && a=$(pwd -P); cd - >/dev/null; [ "$(pwd -P)" = "$a" ] && echo same`})
	if root != "same" {
		t.Errorf("without Dir a command does not run in /")
	}
}

func testNoDir(t *testing.T, b *bench) {
	sb := b.boot(t)
	_, err := sb.Exec(t.Context(), sandbox.Cmd{Script: ":", Dir: "/no/such/directory"})
	wantErr(t, "Exec in a missing directory", err, sandbox.ErrInvalid)
}

func testNoUser(t *testing.T, b *bench) {
	if b.caps.OneUser {
		t.Log("figure: there is one user")
		return
	}
	sb := b.boot(t)
	_, err := sb.Exec(t.Context(), sandbox.Cmd{Script: ":", User: "no-such-user"})
	wantErr(t, "Exec as a missing user", err, sandbox.ErrInvalid)
}

func testStdin(t *testing.T, b *bench) {
	sb := b.boot(t)
	if got := output(t, sb, sandbox.Cmd{Script: "wc -c | tr -d ' '; cat"}); got != "0" {
		t.Errorf("stdin has %q bytes, want 0", got)
	}
}

// A child in the background that holds the output neither delays the result
// nor loses what was printed before, and does not die of printing.
func testBackground(t *testing.T, b *bench) {
	sb := b.boot(t)
	mark := sandbox.Path("/tmp/background-done")
	start := time.Now()
	res := run(t, sb, sandbox.Cmd{Script: "(sleep 1; echo late; echo late; : >" + mark + "; sleep 30) & echo early; exit 4"})
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Exec took %v while a child slept", took)
	}
	if string(res.Stdout) != "early\n" || res.Code != 4 {
		t.Errorf("Exec = %q, %d, want early, 4", res.Stdout, res.Code)
	}
	soon(t, "the end of the background child's first part", func() bool {
		return run(t, sb, sandbox.Cmd{Script: "[ -e " + mark + " ]"}).Ok()
	})
}

func testLargeScript(t *testing.T, b *bench) {
	sb := b.boot(t)
	for _, size := range []int{100 << 10, 300 << 10, 1 << 20} {
		script := "x='" + strings.Repeat("é\n", size/3) + "'\nexpr ${#x} \\> 1000 >/dev/null && echo whole\nexit 5"
		res := run(t, sb, sandbox.Cmd{Script: script})
		if string(res.Stdout) != "whole\n" || res.Code != 5 {
			t.Errorf("a script of %d bytes: %q, %d, stderr %s", len(script), res.Stdout, res.Code, abbreviate(string(res.Stderr)))
		}
	}
}

func testNUL(t *testing.T, b *bench) {
	sb := b.boot(t)
	_, err := sb.Exec(t.Context(), sandbox.Cmd{Script: "echo a\x00b"})
	wantErr(t, "Exec of a script with NUL", err, sandbox.ErrInvalid)
	_, err = sb.Exec(t.Context(), sandbox.Cmd{Script: ":", Env: map[string]string{"A": "x\x00y"}})
	wantErr(t, "Exec with NUL in the environment", err, sandbox.ErrInvalid)
}

func testCancel(t *testing.T, b *bench) {
	sb := b.boot(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := sb.Exec(ctx, sandbox.Cmd{Script: "sleep 60"})
	if err == nil || time.Since(start) > 20*time.Second {
		t.Errorf("Exec = %v after %v, want an error when ctx ends", err, time.Since(start))
	}
	wantErr(t, "Exec whose ctx ended", err, context.DeadlineExceeded)
	if got := output(t, sb, sandbox.Cmd{Script: "echo alive"}); got != "alive" {
		t.Errorf("the sandbox answers %q after a cancelled command", got)
	}
}

func testConcurrent(t *testing.T, b *bench) {
	sb := b.boot(t)
	together(30, func(i int) {
		res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: fmt.Sprintf("sleep 0.1; echo %d; exit %d", i, i)})
		if err != nil || res.Code != i || string(res.Stdout) != fmt.Sprintf("%d\n", i) {
			t.Errorf("command %d of 30 at once = %d, %q, %v", i, res.Code, res.Stdout, err)
		}
	})
}

// A shell that was started in the background has SIGINT ignored for good, and
// tests that interrupt a process hang there.
func testInterrupt(t *testing.T, b *bench) {
	sb := b.boot(t)
	if res := run(t, sb, sandbox.Cmd{Script: "sh -c 'kill -INT $$; echo survived'"}); len(res.Stdout) > 0 {
		t.Errorf("SIGINT is ignored: %q", res.Stdout)
	}
}
