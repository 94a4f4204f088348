package agentrl_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

func rollouts(ctx context.Context, rows []agentrl.Sample, train func([]agentrl.Sample)) error {
	args := agentrl.Args{
		HFCheckpoint:    "/models/qwen3",         // tokenizer.json, tokenizer_config.json, chat template
		SGLangURL:       "http://10.0.0.2:30000", // server or router
		ToolCallParser:  "qwen25",                // as in SGLang's own flags
		ReasoningParser: "qwen3",
		MaxContextLen:   65536,
	}
	params := agentrl.SamplingParams{"temperature": 1.0, "max_new_tokens": 8192}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(256)
	for _, row := range rows {
		group.Go(func() error {
			samples, err := agentrl.Generate(ctx, args, row, params)
			if err != nil {
				return err // ctx ended, the configuration is wrong, or the circuit breaker is open
			}
			train(samples) // one sample per token sequence; an aborted rollout is one sample with remove_sample set
			return nil
		})
	}
	return group.Wait()
}

// TestTrainerLoopWithoutRows runs README's loop on nothing.
func TestTrainerLoopWithoutRows(t *testing.T) {
	if err := rollouts(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
}

func ExampleGenerator() {
	g := &agentrl.Generator{
		Protocol:  &swetest.Protocol{},
		Sandboxes: &sandboxtest.Fake{},
		Harness: &harnesstest.Fake{OnRun: func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
			err := sb.WriteFile(ctx, job.Workdir+"/ANSWER", sandbox.AgentUser, strings.NewReader("42"))
			return harness.Report{Outcome: harness.Finished}, err
		}},
		Adapter: &adaptertest.Fake{},
		Logger:  slog.New(slog.DiscardHandler),
	}
	row := agentrl.Sample{Metadata: map[string]any{"instance_id": "sum", "image": "any", "workdir": "/repo", "want": "42"}}
	samples, err := g.Generate(context.Background(), row, agentrl.SamplingParams{})
	fmt.Println(err, len(samples), samples[0].Status, *samples[0].Reward, samples[0].LossMask)
	// Output: <nil> 1 completed 1 [1 1]
}
