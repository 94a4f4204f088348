package sandboxtest

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

var lifeCells = []cell{
	{"identity", testIdentity},
	{"missing image", testNoImage},
	{"missing workdir", testNoWorkdir},
	{"ended context", testEndedContext},
	{"closed", testClosed},
	{"closed during a command", testClosedDuring},
	{"fresh", testFresh},
}

var userCells = []cell{
	{"made once", testEnsureUser},
	{"identity", testUserIdentity},
	{"output opened anew", testReopened},
}

func testIdentity(t *testing.T, b *bench) {
	one, two := b.boot(t), b.boot(t)
	if one.ID() == "" || one.ID() == two.ID() {
		t.Errorf("IDs are %q and %q", one.ID(), two.ID())
	}
	write(t, one, "/tmp/of one", "", "x")
	if res := run(t, two, sandbox.Cmd{Script: "[ -e " + sandbox.Path("/tmp/of one") + " ]"}); res.Ok() {
		t.Error("one sandbox has the files of the other")
	}
}

func testNoImage(t *testing.T, b *bench) {
	if b.caps.NoImage == "" {
		t.Log("figure: this backend cannot tell a missing image")
		return
	}
	spec := b.caps.Spec
	spec.Image = b.caps.NoImage
	sb, err := b.p.Create(t.Context(), spec)
	wantErr(t, "Create of a missing image", err, sandbox.ErrNoImage)
	if sb != nil {
		t.Errorf("Create returns %v beside its error", sb)
	}
}

func testNoWorkdir(t *testing.T, b *bench) {
	spec := b.caps.Spec
	spec.Workdir = "/no/such/workdir"
	wantErr(t, "Create with a missing work directory", createFails(t, b, t.Context(), spec), sandbox.ErrNoWorkdir)
}

// createFails creates through a ledger, which must have no entry afterwards: a
// creation that leaves nothing says so.
func createFails(t *testing.T, b *bench, ctx context.Context, spec sandbox.Spec) error {
	dir := t.TempDir()
	l, err := sandbox.OpenLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = l.Wrap("bench", b.p).Create(ctx, spec)
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*.json")); len(left) > 0 { // the pattern is good
		t.Errorf("a creation that left nothing (%v) is still in the ledger", err)
	}
	return err
}

func testEndedContext(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "Create with an ended context", createFails(t, b, ctx, b.caps.Spec), context.Canceled)
	sb := b.boot(t)
	_, err := sb.Exec(ctx, sandbox.Cmd{Script: ":"})
	wantErr(t, "Exec with an ended context", err, context.Canceled)
}

func testClosed(t *testing.T, b *bench) {
	sb, err := b.p.Create(t.Context(), b.caps.Spec)
	if err != nil {
		t.Fatal(err)
	}
	together(4, func(int) {
		if err := sb.Close(); err != nil {
			t.Errorf("Close, four at once: %v", err)
		}
	})
	if err := sb.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	_, err = sb.Exec(t.Context(), sandbox.Cmd{Script: ":"})
	wantErr(t, "Exec after Close", err, sandbox.ErrGone)
	_, err = sb.ReadFile(t.Context(), "/etc/passwd")
	wantErr(t, "ReadFile after Close", err, sandbox.ErrGone)
	err = sb.WriteFile(t.Context(), "/tmp/x", "", strings.NewReader("x"))
	wantErr(t, "WriteFile after Close", err, sandbox.ErrGone)
	_, err = sandbox.RunDetached(t.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: ":"}})
	wantErr(t, "RunDetached after Close", err, sandbox.ErrGone)
}

func testClosedDuring(t *testing.T, b *bench) {
	sb := b.boot(t)
	errs := make(chan error, 2)
	go func() {
		_, err := sb.Exec(t.Context(), sandbox.Cmd{Script: "sleep 60"})
		errs <- err
	}()
	go func() {
		_, err := sandbox.RunDetached(t.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: "sleep 60"}})
		errs <- err
	}()
	time.Sleep(500 * time.Millisecond)
	if err := sb.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for range 2 {
		wantErr(t, "a command whose sandbox was closed", <-errs, sandbox.ErrGone)
	}
}

// What one sandbox did to its image, the next does not see.
func testFresh(t *testing.T, b *bench) {
	dir := b.caps.Spec.Workdir
	if dir == "" {
		dir = "/tmp"
	}
	sb, err := b.p.Create(t.Context(), b.caps.Spec)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "agentrl-left-behind"
	write(t, sb, "/etc/"+mark, "", "x")
	write(t, sb, dir+"/"+mark, "", "x")
	output(t, sb, sandbox.Cmd{Script: "(exec sh -c 'while :; do sleep 1; done' " + mark + ") >/dev/null 2>&1 &"})
	if err := sb.Close(); err != nil {
		t.Fatal(err)
	}
	sb = b.boot(t)
	script := "[ ! -e " + sandbox.Path("/etc/"+mark) + " ] || echo file in etc; [ ! -e " + sandbox.Path(dir+"/"+mark) + " ] || echo file in workdir; " +
		"grep -lsz '^" + mark + "$' /proc/[0-9]*/cmdline | while read -r f; do p=${f#/proc/}; p=${p%/*}; [ \"$p\" = $$ ] || echo process $p; done"
	if got := output(t, sb, sandbox.Cmd{Script: script}); got != "" {
		t.Errorf("the next sandbox has: %s", got)
	}
}

func testEnsureUser(t *testing.T, b *bench) {
	sb := b.boot(t)
	together(4, func(int) {
		if err := sandbox.EnsureUser(t.Context(), sb); err != nil {
			t.Errorf("EnsureUser, four at once: %v", err)
		}
	})
	if b.caps.OneUser {
		return
	}
	got := output(t, sb, sandbox.Cmd{Script: "grep -c '^agent:' /etc/passwd; grep -c '^agent:' /etc/group; [ $(id -u agent) -gt 0 ] && echo plain"})
	if got != "1\n1\nplain" {
		t.Errorf("lines in passwd and group, kind of user: %q", got)
	}
}

func testUserIdentity(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	if b.caps.OneUser {
		t.Log("figure: there is one user")
		return
	}
	got := output(t, sb, sandbox.Cmd{User: user, Script: `id -un; echo "$USER $LOGNAME"; [ "$HOME" = "$(eval echo ~` + user + `)" ] && : >"$HOME/x" && echo home; (: >/etc/x) 2>/dev/null || echo kept out`})
	if want := "agent\nagent agent\nhome\nkept out"; got != want {
		t.Errorf("as the agent: %q, want %q", got, want)
	}
	if got := output(t, sb, sandbox.Cmd{Script: "id -u; id -un", User: "root"}); got != "0\nroot" {
		t.Errorf("as root: %q", got)
	}
}

// Scripts print to /dev/stderr by opening it, which takes the right to.
func testReopened(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	res := run(t, sb, sandbox.Cmd{User: user, Script: "echo one; echo two >/dev/stdout; echo three >/dev/stderr"})
	if string(res.Stdout) != "one\ntwo\n" || string(res.Stderr) != "three\n" {
		t.Errorf("stdout %q, stderr %q", res.Stdout, res.Stderr)
	}
}
