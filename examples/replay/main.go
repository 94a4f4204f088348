// Command replay makes a recorded rollout again, without sandbox, agent or
// engine, and says whether it comes out the same, byte for byte:
//
//	AGENTRL_RECORD_DIR=recordings mytrainer
//	replay -recording recordings/….json -checkpoint /models/qwen3
//
// With another parser it says where the rollout departs from the recording
// first: the turn and the token. A recording in a test's testdata, and the same
// call of agentrl.Replay, keeps a bad rollout from coming back.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/parse"
)

type options struct {
	recording, checkpoint string
	tool, reasoning       string // "=" is the recording's
	json                  bool
}

// asRecorded stands for the parser that the recording names.
const asRecorded = "="

func main() {
	var o options
	flag.StringVar(&o.recording, "recording", "", "a file of AGENTRL_RECORD_DIR")
	flag.StringVar(&o.checkpoint, "checkpoint", "", "where the checkpoint is here; empty is where it was")
	flag.StringVar(&o.tool, "tool-parser", asRecorded, "another tool-call parser; = is the recording's, empty none")
	flag.StringVar(&o.reasoning, "reasoning-parser", asRecorded, "another reasoning parser; = is the recording's, empty none")
	flag.BoolVar(&o.json, "json", false, "print the samples")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	same, err := run(ctx, o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// run reports whether the samples are the recorded ones.
func run(ctx context.Context, o options, out io.Writer) (same bool, err error) {
	if o.recording == "" {
		return false, errors.New("no recording: pass -recording FILE, one of the directory that AGENTRL_RECORD_DIR named")
	}
	rec, err := agentrl.ReadRecording(o.recording)
	if err != nil {
		return false, err
	}
	if o.tool == asRecorded {
		o.tool = rec.Args.ToolCallParser
	}
	if o.reasoning == asRecorded {
		o.reasoning = rec.Args.ReasoningParser
	}
	mode := parse.Strict
	if rec.Config.Parse == "compat" {
		mode = parse.Compat
	}
	parser, err := parse.New(o.tool, o.reasoning, mode)
	if err != nil {
		return false, err
	}
	made, err := agentrl.Replay(ctx, rec, agentrl.ReplayOptions{Checkpoint: o.checkpoint, Adapter: func(a *adapter.Options) { a.Parser = parser }})
	if err != nil {
		return false, err
	}
	if o.json {
		return made.Difference == nil, json.NewEncoder(out).Encode(made.Samples)
	}
	size := 0
	for _, s := range rec.Samples {
		size += len(s)
	}
	fmt.Fprintf(out, "%s: %d requests, %d generations, %d sandboxes\n", rec.Session, len(rec.Requests), len(rec.Engine), len(rec.Boxes))
	if made.Difference != nil {
		fmt.Fprintln(out, made.Difference)
		return false, nil
	}
	fmt.Fprintf(out, "the same %d samples, %d bytes\n", len(made.Samples), size)
	return true, nil
}
