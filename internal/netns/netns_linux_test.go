package netns

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// closed starts a process in an empty network namespace and returns the
// namespace's path.
func closed(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
}

// echo answers each connection with what it says, in upper case.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			fmt.Fprint(c, strings.ToUpper(string(b)))
			c.Close()
		}
	}()
	return l.Addr().String()
}

func say(ns, addr, text string) (got string, err error) {
	err = Do(ns, func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprint(c, text)
		_ = c.(*net.TCPConn).CloseWrite()
		b, err := io.ReadAll(c)
		got = string(b)
		return err
	})
	return got, err
}

func TestRelay(t *testing.T) {
	ns, server := closed(t), echo(t)
	for _, addr := range []string{"127.0.0.1:7001", "203.0.113.9:7002", "[2001:db8::9]:7003"} {
		r, err := Listen(ns, addr, server)
		if err != nil {
			t.Fatalf("Listen(%s): %v", addr, err)
		}
		got, err := say(ns, addr, "through")
		for i := 0; err != nil && i < 20; i++ { // the kernel adds an IPv6 address's route a moment later
			time.Sleep(50 * time.Millisecond)
			got, err = say(ns, addr, "through")
		}
		if got != "THROUGH" || err != nil {
			t.Errorf("through %s: %q, %v", addr, got, err)
		}
		if got, err := say(ns, server, "around"); err == nil {
			t.Errorf("%s is reached around the relay: %q", server, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := say(ns, addr, "after"); err == nil {
			t.Errorf("%s is reached after Close", addr)
		}
	}
}

func TestCloseEndsConnections(t *testing.T) {
	ns := closed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // never accepts: the connection stands
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := Listen(ns, "127.0.0.1:7001", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var c net.Conn
	if err := Do(ns, func() (err error) { c, err = net.Dial("tcp", "127.0.0.1:7001"); return err }); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection outlives the relay")
	}
}

func TestListenRefuses(t *testing.T) {
	for _, addr := range []string{"", "name:80", "1.2.3.4"} {
		if _, err := Listen("/proc/self/ns/net", addr, addr); err == nil {
			t.Errorf("Listen(%q): no error", addr)
		}
	}
}
