//go:build linux

package e2btest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
)

// relaySocket is where a sandbox without a network is let out to the addresses
// that it may reach: sockets in the file system cross network namespaces.
const relaySocket = "relay.sock"

// relayOut listens at addr inside the sandbox's network and hands connections
// to the socket. See dialAt.
func relayOut(addr, socket string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	dial, err := dialAt(socket)
	if err != nil {
		return err
	}
	go accept(l, func(in net.Conn) {
		out, err := dial()
		if err != nil {
			return
		}
		defer out.Close()
		fmt.Fprintln(out, addr)
		both(in, in, out)
	})
	return nil
}

// serveRelay is the other end: it dials what a line before the bytes names.
func serveRelay(l net.Listener) {
	accept(l, func(in net.Conn) {
		r := bufio.NewReader(in)
		addr, err := r.ReadString('\n')
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", strings.TrimSpace(addr))
		if err != nil {
			return
		}
		defer out.Close()
		both(r, in, out)
	})
}

func accept(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			serve(conn)
		}()
	}
}

// both copies until either side ends.
func both(from io.Reader, in, out net.Conn) {
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(out, from); done <- struct{}{} }()
	go func() { _, _ = io.Copy(in, out); done <- struct{}{} }()
	<-done
}

// dialAt dials a socket whatever the process's root has become: by the
// descriptor of its directory.
func dialAt(socket string) (func() (net.Conn, error), error) {
	fd, err := syscall.Open(filepath.Dir(socket), syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(socket))
	return func() (net.Conn, error) { return net.Dial("unix", path) }, nil
}
