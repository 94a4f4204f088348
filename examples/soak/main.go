//go:build linux

// Command soak runs very many rollouts over fakes with faults, and says whether
// what they cost stays flat: memory, goroutines, descriptors, sandboxes, the
// ledger, the run records. The Generator, the adapter and the E2B client are the
// real ones; the engine, the sandboxes and the agents are doubles. It needs root,
// as the E2B double does, and neither GPU nor account.
//
//	soak -n 50000 -parallel 32 -every 10s
//
// It exits with 1 when something grows, is left over, or came out wrong.
// Interrupted or terminated it ends within -grace, leaves nothing, and exits
// with 0: what was measured until then is printed, not judged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

type options struct {
	n        int
	parallel int
	every    time.Duration
	grace    time.Duration
	dir      string
	admin    string
	log      io.Writer
}

func main() {
	e2btest.RunChild()
	var o options
	flag.IntVar(&o.n, "n", 50_000, "rollouts")
	flag.IntVar(&o.parallel, "parallel", 32, "rollouts at once")
	flag.DurationVar(&o.every, "every", 10*time.Second, "between two samples")
	flag.DurationVar(&o.grace, "grace", 30*time.Second, "in which a terminated run must have ended")
	flag.StringVar(&o.dir, "dir", "", "for run records and ledger; a temporary one that is removed if empty")
	flag.StringVar(&o.admin, "admin", "", "address of the live view and pprof; none if empty")
	verbose := flag.Bool("v", false, "log what the rollouts log")
	flag.Parse()
	o.log = io.Discard
	if *verbose {
		o.log = os.Stderr
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	slog.SetDefault(slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "agentrl-soak-"); err != nil {
			return err
		}
		defer os.RemoveAll(o.dir)
	}
	w, err := newWorld(o)
	if err != nil {
		return err
	}
	ended := deadline(ctx, o.grace)
	fmt.Fprintf(out, "%d rollouts, %d at once; a terminated run ends within %v\n", o.n, o.parallel, o.grace)
	watch := &watch{world: w, out: out, start: time.Now()}
	stop := watch.begin(o.every)
	w.loop(ctx, o.n)
	stop()
	err = w.close(out)
	if took := ended(); ctx.Err() != nil {
		fmt.Fprintf(out, "terminated after %d rollouts; ended in %.1f s\n", w.tally.done(), took.Seconds())
	}
	w.tally.print(out)
	err = errors.Join(err, w.tally.wrong())
	if growth := watch.judge(); ctx.Err() == nil {
		err = errors.Join(err, growth)
	}
	return err
}

// deadline ends the process if it is still there a while after ctx has ended.
// The function that it returns calls that off and tells how long ctx has been over.
func deadline(ctx context.Context, grace time.Duration) func() time.Duration {
	var mu sync.Mutex
	var told time.Time
	var timer *time.Timer
	context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		told = time.Now()
		timer = time.AfterFunc(grace, func() {
			fmt.Fprintf(os.Stderr, "soak: terminated %v ago, and it has not ended\n", grace)
			os.Exit(1)
		})
	})
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if timer == nil {
			return 0
		}
		timer.Stop()
		return time.Since(told)
	}
}
