package agentrl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/sandbox"
)

// serve puts the adapter behind the process's listener at the configured address.
// It returns the adapter's address, as sandboxes reach it if they have to.
func (g *Generator) serve(o adapter.Options, public string, ledger *sandbox.Ledger) (string, error) {
	l, err := process.listen(net.JoinHostPort(g.Config.AdapterBindHost, strconv.Itoa(g.Config.AdapterPort)))
	if err != nil {
		return "", err
	}
	port := strconv.Itoa(l.port)
	o.LocalURL = "http://127.0.0.1:" + port
	o.BaseURL = strings.Replace(public, portMark, port, 1)
	server, err := adapter.New(o)
	if err != nil {
		return "", errors.Join(err, l.release())
	}
	l.mux.Attach(server)
	g.Adapter = server
	g.closer = func() error {
		server.Close()
		l.mux.Detach(server)
		return errors.Join(l.release(), closeLedger(ledger))
	}
	return cmp.Or(o.BaseURL, o.LocalURL), nil
}

func openLedger(dir string) (*sandbox.Ledger, error) {
	if dir == "" {
		return nil, nil
	}
	return sandbox.OpenLedger(dir)
}

// closeLedger first kills what a creation or a Close left in doubt. A backend
// that is away then costs some seconds; the next process reaps.
func closeLedger(l *sandbox.Ledger) error {
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.Settle(ctx); err != nil {
		slog.Warn("sandboxes are left to a reaper", "err", err)
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
	if g.broken = errors.Join(g.lacking("Protocol", "Sandboxes"), g.Config.positive()); g.broken != nil {
		return
	}
	if g.shared == nil {
		g.shared = newShared(g.Config)
	}
	g.tele, g.broken = newTelemetry(g.TracerProvider, g.MeterProvider)
	g.records = newRunWriter(g.Config)
	if g.broken == nil {
		g.broken = g.openAdmin()
	}
}

// lacking names those of the stages that a Generator made by hand does not
// have. Grade needs no Harness and no Adapter; a rollout needs all.
func (g *Generator) lacking(stages ...string) error {
	have := map[string]bool{"Protocol": g.Protocol != nil, "Sandboxes": g.Sandboxes != nil, "Harness": g.Harness != nil, "Adapter": g.Adapter != nil}
	var errs []error
	for _, name := range stages {
		if !have[name] {
			errs = append(errs, fmt.Errorf("the Generator's %s is nil: set it before the first call, or let New make the Generator", name))
		}
	}
	return errors.Join(errs...)
}

// positive refuses fields below their least value, which would wait for ever or
// never begin. ConfigFromEnv refuses the variables by their own names.
func (c Config) positive() error {
	var errs []error
	for _, field := range []struct {
		name  string
		value float64
		least float64
	}{
		{"AgentBudget", c.AgentBudget.Seconds(), 0}, {"EvalTimeout", c.EvalTimeout.Seconds(), 0}, {"Guard", c.Guard.Seconds(), 0},
		{"QueueTimeout", c.QueueTimeout.Seconds(), 0}, {"SandboxLifetime", c.SandboxLifetime.Seconds(), 0},
		{"BootConcurrency", float64(c.BootConcurrency), 1}, {"BootRetries", float64(c.BootRetries), 1},
		{"MaxTurns", float64(c.MaxTurns), 0}, {"MaxTokens", float64(c.MaxTokens), 0}, {"MaxTime", c.MaxTime.Seconds(), 0}, {"DPRanks", float64(c.DPRanks), 0}, {"MaxSandboxes", float64(c.MaxSandboxes), 0}, {"CreatesPerSec", c.CreatesPerSec, 0},
	} {
		if !(field.value >= field.least) { // NaN too
			errs = append(errs, fmt.Errorf("the Config's %s is %v: want %v or more, or 0 for the default", field.name, field.value, field.least))
		}
	}
	return errors.Join(errs...)
}

func (g *Generator) logger() *slog.Logger {
	if g.Logger != nil {
		return g.Logger
	}
	return slog.Default()
}

// Pause prepares a weight update: on return the engine holds nothing of ours.
// New turns wait, keep-alives flow, clocks stand still until Resume. After an
// error nothing is paused.
func (g *Generator) Pause(ctx context.Context) error {
	g.live.pause(true)
	err := g.Adapter.Pause(ctx)
	if err != nil {
		g.Resume() // else turns would stand still while the clocks run
	}
	return err
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
	for _, g := range process.pause(true) {
		if err := g.Pause(ctx); err != nil {
			Resume()
			return err
		}
	}
	return nil
}

// Resume is Generator.Resume over the Generators of the package functions.
func Resume() {
	for _, g := range process.pause(false) {
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
