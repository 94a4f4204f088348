package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A relay is the only way out of a sandbox with EgressAdapter. It listens in
// the sandbox's network namespace, which has no device but its loopback, at
// the very address that the adapter has outside, and hands each connection on
// to the adapter from the host's namespace. Bytes are not looked at, so TLS
// stays whole.
type relay struct {
	l      net.Listener
	to     string
	conns  sync.WaitGroup
	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

// network sets the sandbox's own network up, if it has one.
func (s *space) network(b *box) error {
	switch b.spec.Egress {
	case sandbox.EgressOpen:
		return nil
	case sandbox.EgressOff:
		return s.loopback(b)
	case sandbox.EgressAdapter:
		return s.toAdapter(b)
	}
	return fmt.Errorf("egress %q is none of open, adapter, off: %w", b.spec.Egress, sandbox.ErrInvalid)
}

// loopback lets programs in the sandbox talk to each other. In a user
// namespace it stays down: entering that one's network takes a process of one
// thread.
func (s *space) loopback(b *box) error {
	if b.way == UserNamespace {
		return nil
	}
	return s.inNetwork(func() error { return raise("lo", nil) })
}

func (s *space) toAdapter(b *box) error {
	if b.way == UserNamespace {
		return fmt.Errorf("egress adapter needs root on this machine: %w", sandbox.ErrInvalid)
	}
	host, port, err := adapterAddress(b.spec.Adapter)
	if err != nil {
		return err
	}
	inside := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if ip, err := netip.ParseAddr(host); err == nil {
		if inside = ip.Unmap(); !inside.Is4() {
			return fmt.Errorf("adapter %s: egress adapter knows names and IPv4 addresses: %w", b.spec.Adapter, sandbox.ErrInvalid)
		}
	} else if err := s.nameAdapter(b, host); err != nil {
		return err
	}
	r := &relay{to: net.JoinHostPort(host, port), open: map[net.Conn]bool{}}
	err = s.inNetwork(func() error {
		if err := raise("lo", nil); err != nil {
			return err
		}
		if !inside.IsLoopback() {
			if err := raise("lo:0", inside.AsSlice()); err != nil {
				return err
			}
		}
		var err error
		r.l, err = net.Listen("tcp4", net.JoinHostPort(inside.String(), port))
		return err
	})
	if err != nil {
		return fmt.Errorf("the adapter's address in the sandbox: %w", err)
	}
	s.net = r
	r.conns.Go(r.serve)
	return nil
}

// adapterAddress takes host and port from the adapter's URL.
func adapterAddress(adapter string) (host, port string, err error) {
	u, err := url.Parse(adapter)
	if err != nil || u.Hostname() == "" {
		return "", "", fmt.Errorf("egress adapter needs the adapter's URL, not %q: %w", adapter, sandbox.ErrInvalid)
	}
	switch port = u.Port(); {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return u.Hostname(), port, nil
}

// nameAdapter makes the adapter's name lead to the sandbox's loopback.
func (s *space) nameAdapter(b *box, host string) error {
	if host == "localhost" {
		return nil
	}
	cmd := sandbox.Cmd{Script: "sed -i 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf 2>/dev/null; echo " + shell.Quote("127.0.0.1 "+host) + " >>/etc/hosts"}
	c, _, err := b.command(context.Background(), cmd)
	if err != nil {
		return err
	}
	res, err := b.run(context.Background(), c, 0)
	if err == nil && !res.Ok() {
		err = errors.New(strings.TrimSpace(string(res.Stderr)))
	}
	if err != nil {
		return fmt.Errorf("name the adapter: %w", err)
	}
	return nil
}

// inNetwork runs fn on a thread in the sandbox's network namespace. The thread
// is never given back: it ends with its goroutine.
func (s *space) inNetwork(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.init.Process.Pid))
		if err != nil {
			done <- err
			return
		}
		defer ns.Close()
		if _, _, e := syscall.RawSyscall(sysSetns, ns.Fd(), syscall.CLONE_NEWNET, 0); e != 0 {
			done <- os.NewSyscallError("setns", e)
			return
		}
		done <- fn()
	}()
	return <-done
}

// raise gives a network device an IPv4 address, if ip is not nil, and brings
// it up.
func raise(device string, ip []byte) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	var req struct { // struct ifreq of netdevice(7)
		name [16]byte
		data [24]byte
	}
	copy(req.name[:15], device)
	ioctl := func(op uintptr) error {
		if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), op, uintptr(unsafe.Pointer(&req))); e != 0 {
			return os.NewSyscallError("ioctl "+device, e)
		}
		return nil
	}
	if ip != nil {
		*(*uint16)(unsafe.Pointer(&req.data[0])) = syscall.AF_INET
		copy(req.data[4:8], ip)
		if err := ioctl(syscall.SIOCSIFADDR); err != nil {
			return err
		}
	}
	clear(req.data[:])
	*(*uint16)(unsafe.Pointer(&req.data[0])) = syscall.IFF_UP | syscall.IFF_RUNNING
	return ioctl(syscall.SIOCSIFFLAGS)
}

func (r *relay) serve() {
	for {
		in, err := r.l.Accept()
		if err != nil {
			return
		}
		r.conns.Go(func() { r.hand(in) })
	}
}

// hand joins a connection of the sandbox with one to the adapter. An end of
// input is passed on by itself: a client may wait for the answer after it.
func (r *relay) hand(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer out.Close()
	if !r.hold(in, out) {
		return
	}
	defer r.release(in, out)
	var back sync.WaitGroup
	back.Go(func() { pass(in, out) })
	pass(out, in)
	back.Wait()
}

func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}

func (r *relay) hold(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.open[c] = true
	}
	return !r.closed
}

func (r *relay) release(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.open, c)
	}
}

func (r *relay) close() {
	r.l.Close()
	r.mu.Lock()
	r.closed = true
	for c := range r.open {
		c.Close()
	}
	r.mu.Unlock()
	r.conns.Wait()
}
