package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

const (
	green = "\x1b[32m"
	dim   = "\x1b[2m"
	bold  = "\x1b[1m"
	reset = "\x1b[0m"
)

// A view prints a rollout as it happens. Its hooks may be called at once.
type view struct {
	out   io.Writer
	tok   *token.Tokenizer
	quiet bool

	mu    sync.Mutex
	patch []byte
}

func (v *view) hooks() agentrl.Hooks {
	if v.quiet {
		return agentrl.Hooks{}
	}
	return agentrl.Hooks{StageDone: v.stage, Turn: v.turn, RolloutDone: v.rollout}
}

// backend says where the sandboxes are, and how well a local one is kept apart.
func (v *view) backend(g *agentrl.Generator) {
	if v.quiet {
		return
	}
	where := g.Config.Sandbox
	if p, ok := g.Sandboxes.(*local.Provider); ok {
		isolation, lacks := p.Isolation()
		where += ", " + string(isolation)
		if lacks != nil {
			where += fmt.Sprintf(" (not better because: %v)", lacks)
		}
	}
	fmt.Fprintf(v.out, "sandboxes: %s; agent: %s\n", where, g.Config.Agent)
}

func (v *view) stage(s agentrl.StageInfo) {
	v.mu.Lock()
	defer v.mu.Unlock()
	mark, why := "✓", ""
	if s.Err != nil {
		mark, why = "✗", "  "+s.Err.Error()
	}
	name := string(s.Stage)
	if s.Role != "" {
		name += " (" + s.Role + ")"
	}
	fmt.Fprintf(v.out, "%s %-20s %8s%s\n", mark, name, s.Duration.Round(time.Millisecond), why)
}

func (v *view) turn(t agentrl.TurnInfo) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, "  · turn: %d prompt tokens (%d cached), %d sampled, %s\n", t.Prompt, t.Cached, t.Output, t.Duration.Round(time.Millisecond))
}

func (v *view) rollout(r agentrl.RolloutInfo) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.patch = r.Patch
	fmt.Fprintf(v.out, "\n%srollout %s%s in %s: outcome %s, reward %g\n", bold, r.Session, reset,
		r.Duration.Round(time.Millisecond), r.Outcome, r.Reward)
}

// samples shows the patch and the samples; it fails when what is trained is
// not what the engine double sampled.
func (v *view) samples(samples []agentrl.Sample, sampled func() [][]int32) error {
	fmt.Fprintf(v.out, "\n%spatch%s\n%s\n", bold, reset, v.patch)
	var trained []int32
	for i, s := range samples {
		fmt.Fprintf(v.out, "%ssample %d%s: %s, %d tokens, response %d, reward %g\n", bold, i, reset, s.Status, len(s.Tokens), s.ResponseLength, *s.Reward)
		if s.Status == agentrl.Aborted {
			fmt.Fprintf(v.out, "aborted: %v\n", s.Metadata["abort_reason"])
			return fmt.Errorf("the rollout was aborted: %w", s.Err)
		}
		trained = append(trained, v.colour(s)...)
	}
	if sampled == nil || samples[0].RemoveSample {
		return nil
	}
	if want := slices.Concat(sampled()...); !slices.Equal(trained, want) {
		return errors.New("the trained tokens are not the sampled ones")
	}
	fmt.Fprintf(v.out, "\n%d trained tokens: exactly the %d that the policy sampled\n", len(trained), len(trained))
	return nil
}

// colour prints the tokens, the trained ones in green, and returns those.
func (v *view) colour(s agentrl.Sample) []int32 {
	prompt := len(s.Tokens) - s.ResponseLength
	var trained []int32
	var text strings.Builder
	for from := 0; from < len(s.Tokens); {
		mask := maskAt(s, from-prompt)
		to := from + 1
		for to < len(s.Tokens) && maskAt(s, to-prompt) == mask {
			to++
		}
		colour := dim
		if mask == 1 {
			colour = green
			trained = append(trained, s.Tokens[from:to]...)
		}
		text.WriteString(paint(colour, v.tok.Decode(s.Tokens[from:to])))
		from = to
	}
	fmt.Fprintf(v.out, "%s\n(%strained%s, %scontext%s)\n", text.String(), green, reset, dim, reset)
	return trained
}

func maskAt(s agentrl.Sample, i int) int8 {
	if i < 0 {
		return 0
	}
	return s.LossMask[i]
}

// paint colours each line by itself, so that a pager keeps the colour.
func paint(colour, text string) string {
	return colour + strings.ReplaceAll(text, "\n", reset+"\n"+colour) + reset
}
