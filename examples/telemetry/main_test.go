package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// flaky fails the first create.
type flaky struct {
	sandbox.Provider
	creates atomic.Int64
}

func (f *flaky) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if f.creates.Add(1) == 1 {
		return nil, errors.New("no room")
	}
	return f.Provider.Create(ctx, spec)
}

// work runs a rollout that is solved after a boot that had to be tried again,
// and one that is aborted.
func work(t *testing.T, p *Providers) {
	t.Helper()
	g := &agentrl.Generator{
		Protocol:  &swetest.Protocol{},
		Sandboxes: &flaky{Provider: &sandboxtest.Fake{}},
		Harness: &harnesstest.Fake{OnRun: func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
			return harness.Report{Outcome: harness.Finished}, sb.WriteFile(ctx, job.Workdir+"/ANSWER", sandbox.AgentUser, strings.NewReader("42"))
		}},
		Adapter: &turning{Adapter: &adaptertest.Fake{Record: func(string, adapter.SessionOptions) adapter.Record {
			rec := adaptertest.OneTurn()
			rec.Rewrites = map[string]int{"developer_role": 3}
			return rec
		}}},
	}
	p.Wire(g)
	row := agentrl.Sample{Metadata: map[string]any{"instance_id": "sum", "image": "any", "workdir": "/repo", "want": "42"}}
	for _, metadata := range []map[string]any{row.Metadata, {"instance_id": "none"}} {
		if _, err := g.Generate(t.Context(), agentrl.Sample{Metadata: metadata}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// turning reports one turn when the session is sealed.
type turning struct {
	adapter.Adapter
	onTurn func(adapter.TurnInfo)
}

func (a *turning) OpenSession(ctx context.Context, id string, o adapter.SessionOptions) (adapter.Session, error) {
	a.onTurn = o.OnTurn
	return a.Adapter.OpenSession(ctx, id, o)
}

func (a *turning) SealSession(ctx context.Context, id string) error {
	a.onTurn(adapter.TurnInfo{ID: "turn", Prompt: 100, Cached: 60, Output: 7, Finish: "stop"})
	return a.Adapter.SealSession(ctx, id)
}

// declared are the names of the metrics in the library's source.
func declared(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("../../telemetry.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`m\.(?:counter|gauge|seconds)\("([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		names = append(names, m[1])
	}
	if len(names) < 9 {
		t.Fatalf("telemetry.go declares %q", names)
	}
	return names
}

func TestEverySpanAndMetricAppears(t *testing.T) {
	spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	p := &Providers{Traces: trace.NewTracerProvider(trace.WithSyncer(spans)), Metrics: metric.NewMeterProvider(metric.WithReader(reader))}
	work(t, p)

	ids := map[string]trace.ReadOnlySpan{}
	count := map[string]int{}
	for _, s := range spans.GetSpans().Snapshots() {
		count[s.Name()]++
		ids[s.SpanContext().SpanID().String()] = s
	}
	if count["agentrl.rollout"] != 2 || count["agentrl.turn"] != 1 || count["agentrl.stage.create"] != 3 || count["agentrl.stage.evaluate"] != 1 || count["agentrl.stage.parse"] != 2 {
		t.Errorf("spans: %v", count)
	}
	for _, s := range ids {
		if parent := ids[s.Parent().SpanID().String()]; s.Name() != "agentrl.rollout" && parent == nil {
			t.Errorf("span %s has no parent", s.Name())
		}
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		seen[m.Name] = true
	}
	for _, name := range declared(t) {
		if !seen[name] {
			t.Errorf("metric %s did not appear", name)
		}
	}
	t.Logf("figure: %d spans of %d names, %d metrics", len(ids), len(count), len(seen))
}

// TestDashboardAsksForWhatPrometheusHas holds each expression of the dashboard
// against a scrape, and the scrape against the dashboard.
func TestDashboardAsksForWhatPrometheusHas(t *testing.T) {
	p, err := Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	work(t, p)
	res := httptest.NewRecorder()
	p.Scrape.ServeHTTP(res, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(agentrl_\w+)\{`).FindAllStringSubmatch(string(body), -1) {
		metrics[m[1]] = true
	}
	data, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			for _, name := range regexp.MustCompile(`agentrl_\w+`).FindAllString(target.Expr, -1) {
				asked[name] = true
				if !metrics[name] {
					t.Errorf("panel %q asks for %s; the scrape has %v", panel.Title, name, slices.Sorted(maps.Keys(metrics)))
				}
			}
		}
	}
	for _, name := range declared(t) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(asked)), func(a string) bool { return strings.HasPrefix(a, strings.ReplaceAll(name, ".", "_")) }) {
			t.Errorf("no panel shows %s", name)
		}
	}
	t.Logf("figure: %d panels ask for %d series, all of which the scrape has", len(dashboard.Panels), len(asked))
}
