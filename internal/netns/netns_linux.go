// Package netns lets a process out of a closed network namespace to one
// address, without a route: a listener inside the namespace, on that very
// address, whose connections this process carries. It needs root.
package netns

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// setnsCall is setns(2)'s number, which package syscall does not know on
// every architecture.
var setnsCall = map[string]uintptr{"amd64": 308, "arm64": 268}

// Do runs fn on a thread that is in the network namespace at path
// (/proc/PID/ns/net). Sockets that fn opens belong to it for good. fn must not
// start goroutines that open any.
func Do(path string, fn func() error) error {
	number, ok := setnsCall[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("netns: not on %s", runtime.GOARCH)
	}
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	done := make(chan error, 1)
	go func() {
		// The thread is not given back: it ends with its goroutine, so that
		// nobody else runs in the namespace by mistake.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(number, ns.Fd(), syscall.CLONE_NEWNET, 0); errno != 0 {
			done <- os.NewSyscallError("setns", errno)
			return
		}
		done <- fn()
	}()
	return <-done
}

// A Relay carries connections out of a namespace. Close ends it and them.
type Relay struct {
	l    net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]struct{} // nil when closed
}

// Listen makes host:port reachable inside the namespace at path, and nothing
// else: it listens there on that address and dials it, or what to names in its
// place, from here. host must be an IP address.
func Listen(path, addr, to string) (*Relay, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return nil, fmt.Errorf("netns: %q is not an IP address", host)
	}
	r := &Relay{open: make(map[net.Conn]struct{})}
	err = Do(path, func() error {
		if err := loopback(ip); err != nil {
			return err
		}
		var err error
		r.l, err = net.Listen("tcp", addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("netns: listen on %s: %w", addr, err)
	}
	r.wg.Go(func() { r.serve(to) })
	return r, nil
}

func (r *Relay) serve(to string) {
	for {
		in, err := r.l.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() {
			if !r.enter(in) {
				return
			}
			defer r.leave(in)
			out, err := net.Dial("tcp", to)
			if err != nil || !r.enter(out) {
				return
			}
			defer r.leave(out)
			carry(in, out)
		})
	}
}

// carry copies both ways. Each side's end of stream is passed on, and the
// other direction may go on after it.
func carry(a, b net.Conn) {
	done := make(chan struct{})
	go func() { defer close(done); half(a, b) }()
	half(b, a)
	<-done
}

func half(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); ok && err == nil {
		_ = tcp.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}

func (r *Relay) enter(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		c.Close()
		return false
	}
	r.open[c] = struct{}{}
	return true
}

func (r *Relay) leave(c net.Conn) {
	c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
}

// Close ends the relay; when it returns nothing of it runs.
func (r *Relay) Close() error {
	err := r.l.Close()
	r.mu.Lock()
	for c := range r.open {
		c.Close()
	}
	r.open = nil
	r.mu.Unlock()
	r.wg.Wait()
	return err
}

// loopback brings the namespace's loopback up and gives it the address.
func loopback(ip net.IP) error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	up := make([]byte, syscall.SizeofIfInfomsg) // family, type, index, flags, change
	binary.NativeEndian.PutUint32(up[4:], 1)    // the loopback is every namespace's first
	binary.NativeEndian.PutUint32(up[8:], syscall.IFF_UP)
	binary.NativeEndian.PutUint32(up[12:], syscall.IFF_UP)
	if err := netlink(fd, syscall.RTM_NEWLINK, 0, up); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	if ip.IsLoopback() {
		return nil
	}
	family, raw, bits := byte(syscall.AF_INET6), ip.To16(), byte(128)
	if v4 := ip.To4(); v4 != nil {
		family, raw, bits = syscall.AF_INET, v4, 32
	}
	const noDAD = 2 // IFA_F_NODAD: usable at once
	msg := []byte{family, bits, noDAD, syscall.RT_SCOPE_UNIVERSE, 0, 0, 0, 0}
	binary.NativeEndian.PutUint32(msg[4:], 1)
	for _, attr := range []uint16{syscall.IFA_LOCAL, syscall.IFA_ADDRESS} {
		msg = binary.NativeEndian.AppendUint16(msg, uint16(4+len(raw)))
		msg = binary.NativeEndian.AppendUint16(msg, attr)
		msg = append(msg, raw...)
	}
	err = netlink(fd, syscall.RTM_NEWADDR, syscall.NLM_F_CREATE|syscall.NLM_F_REPLACE, msg)
	if err != nil {
		return fmt.Errorf("give loopback the address: %w", err)
	}
	return nil
}

// netlink sends one request and reads its acknowledgement.
func netlink(fd int, kind uint16, flags uint16, body []byte) error {
	msg := binary.NativeEndian.AppendUint32(nil, uint32(syscall.NLMSG_HDRLEN+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, kind)
	msg = binary.NativeEndian.AppendUint16(msg, flags|syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	msg = append(msg, make([]byte, 8)...) // sequence, port
	msg = append(msg, body...)
	if err := syscall.Sendto(fd, msg, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, buf, 0)
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	if n < syscall.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(buf[4:]) != syscall.NLMSG_ERROR {
		return fmt.Errorf("unexpected answer of %d bytes", n)
	}
	if code := int32(binary.NativeEndian.Uint32(buf[syscall.NLMSG_HDRLEN:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}
