package agentrl

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// BenchmarkTelemetryWithoutProvider is all that telemetry does for a rollout of
// 14 stages and 50 turns when nobody listens.
func BenchmarkTelemetryWithoutProvider(b *testing.B) {
	g := &Generator{
		Protocol: &swetest.Protocol{}, Sandboxes: &sandboxtest.Fake{}, Harness: &harnesstest.Fake{}, Adapter: &adaptertest.Fake{},
		Logger: slog.New(slog.DiscardHandler),
	}
	g.once.Do(g.prepare)
	if g.broken != nil {
		b.Fatal(g.broken)
	}
	r := newRollout(g, Sample{}, nil, nil, export{})
	info := StageInfo{Stage: StageRun, Role: RoleAgent, Start: time.Now()}
	turn := adapter.TurnInfo{ID: "turn", Start: time.Now(), Prompt: 20_000, Cached: 19_000, Output: 300}
	b.ReportAllocs()
	for b.Loop() {
		ctx, span := g.tele.startRollout(context.Background(), r)
		for range 14 {
			_, end := g.tele.stage(ctx, info)
			end(nil)
		}
		for range 50 {
			g.tele.turn(ctx, turn)
		}
		g.tele.endRollout(ctx, span, r, nil)
	}
}
