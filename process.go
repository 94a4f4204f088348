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
var process = &processWide{generators: map[Args]*making{}, listeners: map[string]*listener{}, admins: map[string]*admin{}}

type processWide struct {
	mu         sync.Mutex
	generators map[Args]*making
	listeners  map[string]*listener
	admins     map[string]*admin
	shared     *shared
	sized      Config // what sized it
	paused     bool   // between Pause and Resume: a Generator made then begins paused
}

// A making is a Generator of the package functions. It is made once for all the
// calls that come for it: hundreds do, at the same moment, when a trainer starts.
type making struct {
	done chan struct{} // closed when the others are set
	g    *Generator
	err  error
}

// generator returns the Generator of args, made at the first call from the
// environment. One that can't be made is not remembered.
func (p *processWide) generator(args Args) (*Generator, error) {
	p.mu.Lock()
	m := p.generators[args]
	if m != nil {
		p.mu.Unlock()
		<-m.done
		return m.g, m.err
	}
	m = &making{done: make(chan struct{})}
	p.generators[args] = m
	p.mu.Unlock()

	g, err := fromEnv(args)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(m.done)
	if p.generators[args] != m && err == nil { // Close came meanwhile, and does not know of g
		p.mu.Unlock()
		err = errors.Join(ErrClosed, g.Close())
		p.mu.Lock()
	}
	if err != nil {
		m.err = err
		if p.generators[args] == m {
			delete(p.generators, args)
		}
		return nil, err
	}
	if p.paused {
		if m.err = g.Pause(context.Background()); m.err != nil {
			delete(p.generators, args)
			return nil, m.err
		}
	}
	m.g = g
	return g, nil
}

func fromEnv(args Args) (*Generator, error) {
	cfg, err := ConfigFromEnv(os.Environ())
	if err != nil {
		return nil, err
	}
	return New(cfg, args)
}

// gates returns the process's; the first Generator's Config sizes them.
func (p *processWide) gates(cfg Config) *shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		p.shared, p.sized = newShared(cfg), cfg
	}
	if s := p.sized; cfg.BootConcurrency != s.BootConcurrency || cfg.MaxSandboxes != s.MaxSandboxes || cfg.CreatesPerSec != s.CreatesPerSec || cfg.Breaker != s.Breaker {
		slog.Warn("boot slots, limits and breaker are the process's: this Generator's own are ignored",
			"boot_concurrency", s.BootConcurrency, "max_sandboxes", s.MaxSandboxes, "creates_per_sec", s.CreatesPerSec, "breaker", int(s.Breaker))
	}
	return p.shared
}

// pause sets whether Generators begin paused, and returns those there are.
func (p *processWide) pause(on bool) []*Generator {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = on
	return p.made()
}

func (p *processWide) takeAll() []*Generator {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer clear(p.generators)
	return p.made()
}

func (p *processWide) made() []*Generator {
	var gs []*Generator
	for _, m := range p.generators {
		select {
		case <-m.done:
			gs = append(gs, m.g)
		default:
		}
	}
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
