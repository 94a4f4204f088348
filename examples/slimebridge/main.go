// Command slimebridge lets slime train on agentrl's rollouts. It is an HTTP
// service around Generators; agentrl_slime.py, which slime loads by its
// --custom-generate-function-path, starts it, talks to it and ends it.
//
// The environment is that of README's table. The service prints one line when
// it is ready, {"url": "http://…"}, or {"error": "…"} when it cannot be.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agentrl-go/agentrl"
)

type options struct {
	addr  string
	max   int
	child bool
	topP  string
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout))
}

// run is the whole process: it returns the exit status.
func run(args []string, stdin io.Reader, stdout io.Writer) int {
	var o options
	flags := flag.NewFlagSet("slimebridge", flag.ExitOnError)
	flags.StringVar(&o.addr, "addr", "127.0.0.1:0", "where to listen; the service has no authentication of its own, so keep it on the loopback")
	flags.IntVar(&o.max, "max", 0, "rollouts at once; more are answered with 429 and come again; 0 is no limit")
	flags.BoolVar(&o.child, "child", false, "end when standard input ends or the parent process is gone")
	flags.StringVar(&o.topP, "top-p-fields", "top_p_token_ids,top_p_token_offsets", "names in meta_info of the kept ids and their offsets")
	_ = flags.Parse(args) // exits

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.child {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		endWithParent(ctx, stdin, cancel)
	}
	if err := serve(ctx, o, stdout); err != nil {
		_ = json.NewEncoder(stdout).Encode(map[string]string{"error": err.Error()})
		fmt.Fprintln(os.Stderr, "slimebridge:", err)
		return 1
	}
	return 0
}

// endWithParent cancels when the parent process is gone. Its end of our
// standard input closes with it, unless a process that it forked holds that
// too: so the parent's id is looked at as well.
func endWithParent(ctx context.Context, stdin io.Reader, cancel func()) {
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // until it ends, in whatever way
		cancel()
	}()
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		cancel()
	}()
}

// serve listens until ctx ends, and returns when nothing of the rollouts is left.
func serve(ctx context.Context, o options, stdout io.Writer) error {
	cfg, err := agentrl.ConfigFromEnv(environment())
	if err != nil {
		return err
	}
	cfg.TruncatedStatus = true // slime counts truncated samples by their status
	fields := strings.Split(o.topP, ",")
	if len(fields) != 2 {
		return fmt.Errorf("-top-p-fields %q: want two names with a comma between them", o.topP)
	}
	l, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("-addr %s: %w", o.addr, err)
	}
	b := newBridge(cfg, o.max, fields)
	srv := &http.Server{Handler: b.handler(), ReadHeaderTimeout: 30 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	if err := json.NewEncoder(stdout).Encode(map[string]string{"url": "http://" + l.Addr().String()}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	slog.Info("slimebridge ends", "live", b.live.Load())
	err = b.close()
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, srv.Shutdown(last))
}

// environment is the process's without the Python module's own variables,
// which Config does not know.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "AGENTRL_BRIDGE_") })
}
