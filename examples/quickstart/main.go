// Command quickstart runs one whole rollout on this machine: a small agent
// fixes a real git repository in a real sandbox, its model calls are served
// over real HTTP, its patch is graded in a second sandbox, and the samples are
// shown token by token. It needs no GPU, no account and no network: an engine
// double plays the policy. With --sglang and --checkpoint a real server does.
//
// Everything that README's environment table lists applies.
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
	"path/filepath"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
)

type options struct {
	sglang, checkpoint string
	toolParser         string
	reasoningParser    string
	misread, evaluate  bool
	json               bool
	serve              string
	perToken           time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.sglang, "sglang", "", "URL of an SGLang server or router; empty starts the engine double")
	flag.StringVar(&o.checkpoint, "checkpoint", "", "directory with tokenizer.json, tokenizer_config.json and the chat template; empty is the built-in one")
	flag.StringVar(&o.toolParser, "tool-parser", "qwen25", "tool-call parser, as in SGLang's --tool-call-parser")
	flag.StringVar(&o.reasoningParser, "reasoning-parser", "qwen3", "reasoning parser, as in SGLang's --reasoning-parser")
	flag.BoolVar(&o.misread, "misread", false, "the policy misreads the test's output: the rollout ends with reward 0")
	flag.BoolVar(&o.evaluate, "evaluate", false, "run Evaluate instead of Generate")
	flag.BoolVar(&o.json, "json", false, "print the samples as JSON and nothing else")
	flag.StringVar(&o.serve, "serve-engine", "", "serve the engine double at this address and do nothing else")
	flag.DurationVar(&o.perToken, "per-token", 0, "how slowly the engine double samples")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	work, err := demo.TempDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if o.checkpoint == "" {
		if o.checkpoint, err = demo.Checkpoint(filepath.Join(work, "checkpoint")); err != nil {
			return err
		}
	}
	tok, err := token.Load(o.checkpoint)
	if err != nil {
		return err
	}
	if o.serve != "" {
		return serve(ctx, o, tok)
	}
	var sampled func() [][]int32
	if o.sglang == "" {
		engine := demo.NewEngine(tok, demo.EngineOptions{Misread: o.misread, PerToken: o.perToken})
		url, stop, err := listen("127.0.0.1:0", engine)
		if err != nil {
			return err
		}
		defer stop()
		o.sglang, sampled = url, engine.Sampled
	}
	return rollout(ctx, o, work, tok, sampled, out)
}

// rollout runs one rollout and shows it.
func rollout(ctx context.Context, o options, work string, tok *token.Tokenizer, sampled func() [][]int32, out io.Writer) error {
	cfg, err := config(o)
	if err != nil {
		return err
	}
	task, err := demo.NewTask(work, "tokens-1")
	if err != nil {
		return err
	}
	g, err := agentrl.New(cfg, agentrl.Args{
		HFCheckpoint: o.checkpoint, SGLangURL: o.sglang,
		ToolCallParser: o.toolParser, ReasoningParser: o.reasoningParser, MaxContextLen: 200_000,
	})
	if err != nil {
		return err
	}
	defer g.Close()
	view := &view{out: out, tok: tok, quiet: o.json}
	view.backend(g)
	g.Hooks = view.hooks()

	generate := g.Generate
	if o.evaluate {
		generate = g.Evaluate
	}
	samples, err := generate(ctx, task.Sample(demo.Image, 0, 0), agentrl.SamplingParams{"temperature": 1.0, "max_new_tokens": 1024})
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(samples)
	}
	return view.samples(samples, sampled)
}

// config is the environment's, with what suits the demo where it says nothing.
func config(o options) (agentrl.Config, error) {
	cfg, err := agentrl.ConfigFromEnv(os.Environ())
	if err != nil {
		return cfg, err
	}
	if os.Getenv("SWE_AGENT") == "" {
		cfg.Agent = "mini"
	}
	if os.Getenv("AGENTRL_SANDBOX") == "" {
		cfg.Sandbox = "local"
	}
	if os.Getenv("ADAPTER_PORT") == "" && os.Getenv("SHIM_PORT") == "" {
		cfg.AdapterPort = 0
	}
	if os.Getenv("ADAPTER_BIND_HOST") == "" && os.Getenv("SHIM_BIND_HOST") == "" {
		cfg.AdapterBindHost = "127.0.0.1"
	}
	level := slog.LevelWarn
	if o.json {
		level = slog.LevelError
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	return cfg, nil
}

func serve(ctx context.Context, o options, tok *token.Tokenizer) error {
	url, stop, err := listen(o.serve, demo.NewEngine(tok, demo.EngineOptions{Misread: o.misread, PerToken: o.perToken}))
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("engine double at", url)
	<-ctx.Done()
	return nil
}

func listen(addr string, h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "engine double:", err)
		}
	}()
	return "http://" + l.Addr().String(), func() { srv.Close() }, nil
}
