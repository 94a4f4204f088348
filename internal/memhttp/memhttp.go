// Package memhttp is HTTP without a network: servers and clients in one
// process, over net.Pipe. It works in a testing/synctest bubble, and for
// thousands of connections without a file descriptor.
package memhttp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// A Network has hosts and a client that reaches them. It is safe for concurrent
// use.
type Network struct {
	transport *http.Transport

	mu    sync.Mutex
	hosts map[string]*host
}

type host struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	done   chan struct{}
	once   sync.Once
}

// New returns a network without hosts.
func New() *Network {
	n := &Network{hosts: map[string]*host{}}
	n.transport = &http.Transport{DialContext: n.dial, MaxIdleConnsPerHost: 4096, DisableCompression: true}
	return n
}

// Client returns a client that reaches the network's hosts, and nothing else.
func (n *Network) Client() *http.Client { return &http.Client{Transport: n.transport} }

// Handle makes name a host that is served by h, and returns its URL. A name
// that is taken is taken over.
func (n *Network) Handle(name string, h http.Handler) string {
	return n.Serve(name, &http.Server{Handler: h})
}

// Serve is Handle for a server with settings of its own.
func (n *Network) Serve(name string, server *http.Server) string {
	n.Remove(name)
	h := &host{server: server, conns: make(chan net.Conn), closed: make(chan struct{}), done: make(chan struct{})}
	n.mu.Lock()
	n.hosts[name] = h
	n.mu.Unlock()
	go func() {
		defer close(h.done)
		server.Serve(h)
	}()
	return "http://" + name
}

// Remove cuts all connections of a host and forgets it.
func (n *Network) Remove(name string) {
	n.mu.Lock()
	h := n.hosts[name]
	delete(n.hosts, name)
	n.mu.Unlock()
	if h != nil {
		h.server.Close()
		<-h.done
	}
}

// Close removes all hosts and closes the client's idle connections.
func (n *Network) Close() {
	n.mu.Lock()
	var names []string
	for name := range n.hosts {
		names = append(names, name)
	}
	n.mu.Unlock()
	for _, name := range names {
		n.Remove(name)
	}
	n.transport.CloseIdleConnections()
}

func (n *Network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	h := n.hosts[name]
	n.mu.Unlock()
	if h == nil {
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: fmt.Errorf("no host %q", name)}
	}
	client, server := net.Pipe()
	select {
	case h.conns <- server:
		return client, nil
	case <-h.closed:
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr make a host a net.Listener.
func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *host) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *host) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "mem" }
func (address) String() string  { return "mem" }
