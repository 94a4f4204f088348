// Reap kills the sandboxes that dead trainers left behind on this machine.
//
//	reap -ledger DIR
//	reap -ledger DIR -backend local -label run=ID
//	reap -ledger DIR -backend local -older 24h
//
// The first kills what the ledger names. The others go by label, for when a
// ledger was lost: by the run, or by the age. What belongs to a live process
// of the ledger is never killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

func main() {
	ledger := flag.String("ledger", os.Getenv("AGENTRL_LEDGER_DIR"), "`directory` of the ledger")
	backend := flag.String("backend", "", "reap by label on this backend: local, docker or e2b")
	label := flag.String("label", "", "with -backend: `name=value` that names the run")
	older := flag.Duration("older", 0, "with -backend: only what is older than this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	done, err := reap(ctx, *ledger, *backend, *label, *older)
	slices.Sort(done.Killed)
	for _, id := range done.Killed {
		fmt.Println("killed", id)
	}
	fmt.Printf("%d killed, %d live processes left alone, %d of other machines\n", len(done.Killed), done.Live, done.Foreign)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reap:", err)
		os.Exit(1)
	}
}

func reap(ctx context.Context, ledger, backend, label string, older time.Duration) (sandbox.Reaped, error) {
	if ledger == "" {
		return sandbox.Reaped{}, errors.New("name the ledger: -ledger DIR, or AGENTRL_LEDGER_DIR in the environment")
	}
	backends := map[string]sandbox.Provider{"local": &local.Provider{}}
	if p := docker.New(docker.Options{Socket: os.Getenv("DOCKER_HOST")}); p.Ping(ctx) == nil {
		backends["docker"] = p
	}
	if key := os.Getenv("E2B_API_KEY"); key != "" {
		p, err := e2b.New(e2b.Options{
			APIKey: key, APIURL: os.Getenv("E2B_API_URL"), Domain: os.Getenv("E2B_DOMAIN"), SandboxURL: os.Getenv("E2B_SANDBOX_URL"),
		})
		if err != nil {
			return sandbox.Reaped{}, err
		}
		backends["e2b"] = p
	}
	if backend == "" {
		return sandbox.Reap(ctx, ledger, backends)
	}
	r, ok := backends[backend].(sandbox.Reaper)
	if !ok {
		return sandbox.Reaped{}, fmt.Errorf("backend %q is not configured here or cannot reap; there are local, docker, e2b", backend)
	}
	labels := map[string]string{}
	if name, value, ok := strings.Cut(label, "="); ok {
		labels[name] = value
	} else if label != "" {
		return sandbox.Reaped{}, fmt.Errorf("-label %q is not name=value", label)
	}
	return sandbox.ReapLabelled(ctx, r, labels, older, ledger)
}
