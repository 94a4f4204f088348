// Command trainer is the rollout loop of a small RL trainer: it reads rows in
// slime's JSONL form, runs a group of n rollouts for each with bounded
// concurrency, and appends the samples to a JSONL file. Interrupted, even by
// kill -9 and within a written line, it resumes where it was: each rollout's
// samples are in the output once.
//
//	trainer -rows rows.jsonl -out samples.jsonl -n 8 -parallel 64 \
//	    -checkpoint /models/qwen3 -sglang http://10.0.0.2:30000 -tool-parser qwen25 -reasoning-parser qwen3
//
// With -demo N it makes N rows and an engine double of its own.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"

	"github.com/agentrl-go/agentrl"
)

type options struct {
	rows, out string
	n         int
	parallel  int
	demo      int
	args      agentrl.Args
}

func main() {
	var o options
	flag.StringVar(&o.rows, "rows", "", "dataset rows, one slime sample as JSON a line")
	flag.StringVar(&o.out, "out", "samples.jsonl", "where the samples are appended")
	flag.IntVar(&o.n, "n", 8, "rollouts per row: one group")
	flag.IntVar(&o.parallel, "parallel", 16, "rollouts at once")
	flag.IntVar(&o.demo, "demo", 0, "make this many rows and an engine double instead of reading rows")
	flag.StringVar(&o.args.HFCheckpoint, "checkpoint", "", "checkpoint directory")
	flag.StringVar(&o.args.SGLangURL, "sglang", "", "URL of the SGLang server or router")
	flag.StringVar(&o.args.ToolCallParser, "tool-parser", "qwen25", "SGLang's --tool-call-parser")
	flag.StringVar(&o.args.ReasoningParser, "reasoning-parser", "qwen3", "SGLang's --reasoning-parser")
	flag.IntVar(&o.args.MaxContextLen, "max-context", 32768, "tokens of prompt and answer together")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "trainer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.n < 1 || o.parallel < 1 {
		return fmt.Errorf("-n %d -parallel %d: want both from 1 on", o.n, o.parallel)
	}
	if o.demo > 0 {
		world, err := newWorld(&o)
		if err != nil {
			return err
		}
		defer world.close()
	}
	rows, err := readRows(o.rows)
	if err != nil {
		return err
	}
	out, err := openOutput(o.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close(), agentrl.Close()) }()
	return loop(ctx, o, rows, out)
}

// loop runs what the output does not hold yet.
func loop(ctx context.Context, o options, rows []agentrl.Sample, out *output) error {
	bar := progressbar.NewOptions(len(rows)*o.n, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(), progressbar.OptionSetDescription("rollouts"))
	defer bar.Exit() // and not Finish, which would show an end that an error did not reach
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.parallel)
	for i, row := range rows {
		for j := range o.n {
			index, in := int64(i*o.n+j), int64(i)
			if out.has(index) {
				_ = bar.Add(1) // a progress bar's error is nobody's
				continue
			}
			base := row
			base.Index, base.GroupIndex = &index, &in
			group.Go(func() error {
				samples, err := agentrl.Generate(ctx, o.args, base, agentrl.SamplingParams{"temperature": 1.0, "max_new_tokens": 2048})
				if err != nil {
					return err
				}
				_ = bar.Add(1)
				return out.add(samples)
			})
		}
	}
	return group.Wait()
}

// readRows reads one sample a line. A bad line is named, and none is skipped.
func readRows(path string) ([]agentrl.Sample, error) {
	if path == "" {
		return nil, errors.New("no rows: give -rows FILE, or -demo N")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []agentrl.Sample
	in := bufio.NewReader(f)
	for line := 1; ; line++ {
		data, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(data)) > 0 {
			var row agentrl.Sample
			if err := json.Unmarshal(data, &row); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, line, err)
			}
			rows = append(rows, row)
		}
		switch {
		case err == io.EOF && len(rows) == 0:
			return nil, fmt.Errorf("%s has no rows", path)
		case err == io.EOF:
			return rows, nil
		case err != nil:
			return nil, err
		}
	}
}
