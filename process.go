package agentrl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/agentrl-go/agentrl/adapter"
)

// shared is what bounds the rollouts of several Generators together.
type shared struct {
	gates   *gates
	breaker *breaker
}

func newShared(cfg Config) *shared {
	return &shared{gates: newGates(cfg), breaker: newBreaker(cfg.Breaker.n())}
}

// process is what one process has once: the Generators of the package
// functions, the listeners by address, the boot gates and the breaker.
var process = &processWide{generators: map[Args]*Generator{}, listeners: map[string]*listener{}, admins: map[string]*admin{}}

type processWide struct {
	mu         sync.Mutex
	generators map[Args]*Generator
	listeners  map[string]*listener
	admins     map[string]*admin
	shared     *shared
}

// generator returns the Generator of args, made at the first call from the
// environment. One that can't be made is not remembered.
func (p *processWide) generator(args Args) (*Generator, error) {
	p.mu.Lock()
	g := p.generators[args]
	p.mu.Unlock()
	if g != nil {
		return g, nil
	}
	cfg, err := ConfigFromEnv(os.Environ())
	if err != nil {
		return nil, err
	}
	if g, err = New(cfg, args); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if other := p.generators[args]; other != nil {
		p.mu.Unlock()
		return other, g.Close()
	}
	p.generators[args] = g
	p.mu.Unlock()
	return g, nil
}

// gates returns the process's; the first Generator's Config sizes them.
func (p *processWide) gates(cfg Config) *shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		p.shared = newShared(cfg)
	}
	return p.shared
}

func (p *processWide) all() []*Generator {
	p.mu.Lock()
	defer p.mu.Unlock()
	var gs []*Generator
	for _, g := range p.generators {
		gs = append(gs, g)
	}
	return gs
}

func (p *processWide) takeAll() []*Generator {
	gs := p.all()
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.generators)
	return gs
}

// A listener serves the adapters of all Generators that share an address.
type listener struct {
	mux    *adapter.Mux
	port   int
	server *http.Server
	addr   string
	users  int
}

// listen returns the listener at the address, one user more.
func (p *processWide) listen(addr string) (*listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.listeners[addr]; l != nil {
		l.users++
		return l, nil
	}
	socket, err := adapter.Listen(context.Background(), addr)
	if err != nil {
		return nil, fmt.Errorf("adapter address %s: %w: another process may hold it; set ADAPTER_PORT to another port, or to 0 for any free one", addr, err)
	}
	l := &listener{mux: &adapter.Mux{}, port: socket.Addr().(*net.TCPAddr).Port, addr: addr, users: 1}
	l.server = adapter.HTTPServer(l.mux, slog.Default())
	p.listeners[addr] = l
	go func() { _ = l.server.Serve(socket) }() // returns at Close, which is the only way it ends
	return l, nil
}

// release gives one user back; the last one closes the listener.
func (l *listener) release() error {
	process.mu.Lock()
	defer process.mu.Unlock()
	if l.users--; l.users > 0 {
		return nil
	}
	delete(process.listeners, l.addr)
	if err := l.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
