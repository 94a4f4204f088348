package adapter

import (
	"context"
	"sync"
)

// A gate is where generations enter the engine. While it is closed nothing
// enters, and what is inside is asked to leave.
type gate struct {
	mu      sync.Mutex
	inside  int
	paused  bool
	pauses  int           // how often it was closed
	leave   chan struct{} // closed by pause
	resumed chan struct{} // closed by resume
	empty   chan struct{} // closed while nothing is inside
}

func newGate() *gate {
	g := &gate{leave: make(chan struct{}), resumed: make(chan struct{}), empty: make(chan struct{})}
	close(g.resumed)
	close(g.empty)
	return g
}

// enter waits until the gate is open. It returns a channel that is closed when
// the generation is to leave the engine, and how often the gate has been closed.
func (g *gate) enter(ctx context.Context) (leave <-chan struct{}, pauses int, err error) {
	for {
		g.mu.Lock()
		if ctx.Err() != nil {
			g.mu.Unlock()
			return nil, 0, context.Cause(ctx)
		}
		if !g.paused {
			if g.inside == 0 {
				g.empty = make(chan struct{})
			}
			g.inside++
			leave, pauses = g.leave, g.pauses
			g.mu.Unlock()
			return leave, pauses, nil
		}
		resumed := g.resumed
		g.mu.Unlock()
		select {
		case <-resumed:
		case <-ctx.Done():
		}
	}
}

// closedSince reports whether the gate was closed after an enter that
// returned pauses.
func (g *gate) closedSince(pauses int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pauses != pauses
}

// exit says that the generation has left the engine.
func (g *gate) exit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 {
		close(g.empty)
	}
}

// pause closes the gate and waits until nothing is inside. The gate stays
// closed when ctx ends first.
func (g *gate) pause(ctx context.Context) error {
	g.mu.Lock()
	if !g.paused {
		g.paused = true
		g.pauses++
		g.resumed = make(chan struct{})
		close(g.leave)
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused {
		g.paused = false
		g.leave = make(chan struct{})
		close(g.resumed)
	}
}
