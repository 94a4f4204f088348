// Command telemetry runs rollouts of the demo task and gives their metrics to
// Prometheus, and their traces and metrics to an OTLP collector. providers.go
// is what a trainer takes over; dashboard.json is a Grafana dashboard of them.
//
//	telemetry -metrics 127.0.0.1:9464 -otlp http://127.0.0.1:4318 -n 20
//
// It is a module of its own: agentrl itself needs OpenTelemetry's API alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
)

type options struct {
	metrics, otlp string
	rollouts      int
	stay          bool
}

func main() {
	var o options
	flag.StringVar(&o.metrics, "metrics", "127.0.0.1:9464", "where Prometheus scrapes /metrics")
	flag.StringVar(&o.otlp, "otlp", "", "URL of an OTLP collector (HTTP); empty for none")
	flag.IntVar(&o.rollouts, "n", 4, "rollouts")
	flag.BoolVar(&o.stay, "stay", true, "go on serving /metrics until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "telemetry:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	p, err := Open(ctx, o.otlp)
	if err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, p.Close(last))
	}()
	l, err := net.Listen("tcp", o.metrics)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", p.Scrape)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }() // until Close
	defer srv.Close()
	fmt.Printf("metrics at http://%s/metrics\n", l.Addr())
	if err := rollouts(ctx, p, o.rollouts); err != nil || !o.stay {
		return err
	}
	<-ctx.Done()
	return nil
}

// rollouts runs the demo task n times; the engine is a double.
func rollouts(ctx context.Context, p *Providers, n int) error {
	dir, err := demo.TempDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	checkpoint, err := demo.Checkpoint(filepath.Join(dir, "checkpoint"))
	if err != nil {
		return err
	}
	tok, err := token.Load(checkpoint)
	if err != nil {
		return err
	}
	task, err := demo.NewTask(dir, "tokens")
	if err != nil {
		return err
	}
	engine := httptest.NewServer(demo.NewEngine(tok, demo.EngineOptions{}))
	defer engine.Close()
	g, err := agentrl.New(agentrl.Config{Agent: "mini", Sandbox: "local", AdapterBindHost: "127.0.0.1"},
		agentrl.Args{HFCheckpoint: checkpoint, SGLangURL: engine.URL, ToolCallParser: "qwen25", ReasoningParser: "qwen3"})
	if err != nil {
		return err
	}
	defer g.Close()
	p.Wire(g)
	for i := range n {
		if _, err := g.Generate(ctx, task.Sample(demo.Image, int64(i), 0), agentrl.SamplingParams{}); err != nil {
			return err
		}
	}
	return nil
}
