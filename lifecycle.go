package agentrl

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/sandbox"
)

// serve puts the adapter behind the process's listener at the configured address.
func (g *Generator) serve(o adapter.Options, public string, ledger *sandbox.Ledger) error {
	l, err := process.listen(net.JoinHostPort(g.Config.AdapterBindHost, strconv.Itoa(g.Config.AdapterPort)))
	if err != nil {
		return err
	}
	port := strconv.Itoa(l.port)
	o.LocalURL = "http://127.0.0.1:" + port
	o.BaseURL = strings.Replace(public, portMark, port, 1)
	server, err := adapter.New(o)
	if err != nil {
		l.release()
		return err
	}
	l.mux.Attach(server)
	g.Adapter = server
	g.closer = func() error {
		server.Close()
		l.mux.Detach(server)
		return errors.Join(l.release(), closeLedger(ledger))
	}
	return nil
}

func openLedger(dir string) (*sandbox.Ledger, error) {
	if dir == "" {
		return nil, nil
	}
	return sandbox.OpenLedger(dir)
}

func closeLedger(l *sandbox.Ledger) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// reap kills what dead processes left in the ledger. What goes wrong is logged:
// it is no reason not to start.
func (g *Generator) reap(dir string) {
	done, err := sandbox.Reap(context.Background(), dir, map[string]sandbox.Provider{g.Config.Sandbox: g.Sandboxes})
	if len(done.Killed) > 0 || err != nil {
		slog.Warn("sandboxes of dead processes", "killed", len(done.Killed), "err", err)
	}
}

// prepare completes a Generator at its first call.
func (g *Generator) prepare() {
	g.Config = g.Config.withDefaults()
	if g.shared == nil {
		g.shared = newShared(g.Config)
	}
	g.tele, g.broken = newTelemetry(g.TracerProvider, g.MeterProvider)
	g.records = newRunWriter(g.Config)
	if g.broken == nil {
		g.broken = g.openAdmin()
	}
}

func (g *Generator) logger() *slog.Logger {
	if g.Logger != nil {
		return g.Logger
	}
	return slog.Default()
}

// Pause prepares a weight update: on return the engine holds nothing of ours.
// New turns wait, keep-alives flow, clocks stand still until Resume.
func (g *Generator) Pause(ctx context.Context) error {
	g.live.pause(true)
	if err := g.Adapter.Pause(ctx); err != nil {
		g.live.pause(false)
		return err
	}
	return nil
}

// Resume lets the turns that Pause held go on.
func (g *Generator) Resume() {
	g.Adapter.Resume()
	g.live.pause(false)
}

// Close refuses new calls, ends the live ones as cancelled and returns when
// nothing of the Generator is left.
func (g *Generator) Close() error {
	g.live.shut()
	g.closeAdmin()
	if g.closer == nil {
		return nil
	}
	return g.closer()
}

// Pause is Generator.Pause over the Generators of the package functions.
func Pause(ctx context.Context) error {
	for _, g := range process.all() {
		if err := g.Pause(ctx); err != nil {
			Resume()
			return err
		}
	}
	return nil
}

// Resume is Generator.Resume over the Generators of the package functions.
func Resume() {
	for _, g := range process.all() {
		g.Resume()
	}
}

// Close closes the Generators of the package functions; later calls make new ones.
func Close() error {
	var errs []error
	for _, g := range process.takeAll() {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}
