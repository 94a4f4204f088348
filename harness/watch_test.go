package harness_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A door is an adapter's address that opens and closes.
type door struct {
	t      *testing.T
	addr   string
	listen net.Listener
}

// open serves every connection by f.
func (d *door) open(f func(net.Conn)) {
	d.t.Helper()
	addr := "127.0.0.1:0"
	if d.addr != "" {
		addr = d.addr
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		d.t.Error(err)
		return
	}
	d.listen = l
	if d.addr == "" {
		d.addr = l.Addr().String()
	}
	d.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
}

func (d *door) url() string { return "http://" + d.addr }

// answer is what an adapter in good health says.
func answer(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 4096)
	if _, err := c.Read(buf); err == nil {
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n")) // a dial may have left
	}
}

// watched runs a script beside a watch and returns how it ended.
func watched(t *testing.T, sb sandbox.Sandbox, d *door, script string, stop <-chan struct{}) (sandbox.Exit, error) {
	t.Helper()
	exit, err := harness.RunWatched(t.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: script, User: sandbox.AgentUser, Dir: "/tmp"}, Stop: stop}, d.url())
	if out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "ls " + sandbox.Path(harness.Home+"/run")}); out != "" || err != nil {
		t.Errorf("the watch leaves %q, %v", out, err)
	}
	return exit, err
}

func TestLostInMidRun(t *testing.T) {
	for _, tool := range []string{"curl", "bash", "python3"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			sb, d := boxWith(t, tool), &door{t: t}
			d.open(answer)
			start := time.Now()
			time.AfterFunc(2*time.Second, func() { d.listen.Close() })
			exit, err := watched(t, sb, d, `trap "" TERM; while :; do sleep 1; done`, nil)
			var lost *harness.UnreachableError
			if !errors.As(err, &lost) || exit.Code == 0 {
				t.Fatalf("RunWatched: %+v, %v; want an UnreachableError", exit, err)
			}
			for _, want := range []string{d.url(), "dials in a row", "ADAPTER_PUBLIC_HOST"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			t.Logf("figure: by %s: a deaf agent ended %.1f s after the adapter went: %v", tool, time.Since(start).Seconds()-2, err)
		})
	}
}

// TestHiccup: the adapter is away for some four seconds.
func TestHiccup(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	t.Parallel()
	sb, d := boxWith(t, "bash"), &door{t: t}
	d.open(answer)
	var away time.Duration
	back := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		defer close(back)
		d.listen.Close()
		closed := time.Now()
		time.Sleep(4500 * time.Millisecond)
		d.open(answer)
		away = time.Since(closed)
	})
	exit, err := watched(t, sb, d, "sleep 14; exit 0", nil)
	<-back
	if away > 5*time.Second {
		t.Logf("figure: a busy machine: the adapter was away for %.1f s", away.Seconds())
		return
	}
	if err != nil || exit != (sandbox.Exit{}) {
		t.Errorf("RunWatched over %v without the adapter: %+v, %v", away, exit, err)
	}
	t.Logf("figure: an adapter that is away for %.1f s ends nothing", away.Seconds())
}

// TestBusyAdapter: it takes connections, and answers none of them.
func TestBusyAdapter(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	t.Parallel()
	sb, d := boxWith(t, "curl"), &door{t: t}
	busy := time.Now().Add(3 * time.Second)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	d.open(func(c net.Conn) {
		if time.Now().Before(busy) {
			answer(c)
			return
		}
		<-ended
		c.Close()
	})
	if exit, err := watched(t, sb, d, "sleep 35", nil); err != nil || exit != (sandbox.Exit{}) {
		t.Errorf("RunWatched beside a busy adapter: %+v, %v", exit, err)
	}
	t.Log("figure: an adapter that answers nothing for 32 s, and takes connections, ends nothing")
}

func TestUnreachedAtEitherEnd(t *testing.T) {
	sb, d := boxWith(t, "bash"), &door{t: t}
	d.open(answer)
	var lost *harness.UnreachableError
	for script, want := range map[string]sandbox.Exit{"exit 0": {}, "exit 3": {Code: 3}} {
		if exit, err := watched(t, sb, d, script, nil); err != nil || exit != want {
			t.Errorf("%s: %+v, %v", script, exit, err)
		}
	}
	if exit, err := watched(t, sb, d, "while bash -c ': >/dev/tcp/"+strings.Replace(d.addr, ":", "/", 1)+"' 2>/dev/null; do :; done; exit 3", closeSoon(d)); !errors.As(err, &lost) || exit.Code != 3 {
		t.Errorf("a job that fails as the adapter goes: %+v, %v", exit, err)
	}
	if exit, err := watched(t, sb, d, "exit 0", nil); !errors.As(err, &lost) || exit.Code != 1 {
		t.Errorf("a job with the adapter away: %+v, %v", exit, err)
	}
}

// closeSoon closes the door in a moment; it is no budget.
func closeSoon(d *door) <-chan struct{} {
	time.AfterFunc(500*time.Millisecond, func() { d.listen.Close() })
	return nil
}

func TestBudgetOfAWatchedJob(t *testing.T) {
	sb, d := boxWith(t, "bash"), &door{t: t}
	d.open(answer)
	stop := make(chan struct{})
	time.AfterFunc(time.Second, func() { close(stop) })
	if exit, err := watched(t, sb, d, "sleep 60", stop); err != nil || exit.State != sandbox.TimedOut {
		t.Errorf("RunWatched: %+v, %v; want one that timed out", exit, err)
	}
}

// TestBrokenToolIsPassedOver: it says nothing about the network.
func TestBrokenToolIsPassedOver(t *testing.T) {
	sb := boxWith(t, "bash")
	dir := filepath.Dir(mustOutput(t, sb, "command -v bash"))
	if err := os.WriteFile(dir+"/curl", []byte("#!/bin/sh\nkill -9 $$\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: http.NotFoundHandler()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }() // ends with the test
	t.Cleanup(func() { server.Close() })
	if err := harness.Dial(t.Context(), sb, "http://"+l.Addr().String()); err != nil {
		t.Errorf("Dial past a broken curl: %v", err)
	}
	if err := harness.Dial(t.Context(), sb, "http://127.0.0.1:9"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Dial to nobody past a broken curl: %v", err)
	}
}

// TestWatchEndsWithItsContext leaves nothing behind.
func TestWatchEndsWithItsContext(t *testing.T) {
	sb, d := boxWith(t, "bash"), &door{t: t}
	d.open(answer)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Second, func() { cancel(cause) })
	_, err := harness.RunWatched(ctx, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: "sleep 60", User: sandbox.AgentUser, Dir: "/tmp"}}, d.url())
	if !errors.Is(err, cause) {
		t.Errorf("RunWatched: %v, want %v", err, cause)
	}
}

func mustOutput(t *testing.T, sb sandbox.Sandbox, script string) string {
	t.Helper()
	out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
