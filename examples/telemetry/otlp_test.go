package main

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A receiver is an OTLP collector's HTTP side: it decodes export requests by
// OTLP's own definitions and keeps what came.
type receiver struct {
	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics map[string]*metricspb.Metric // the newest export of each
	bad     []string
}

func newReceiver(t *testing.T) (*receiver, string) {
	r := &receiver{metrics: map[string]*metricspb.Metric{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, req *http.Request) {
		var export collectortrace.ExportTraceServiceRequest
		r.receive(w, req, &export, &collectortrace.ExportTraceServiceResponse{}, func() {
			for _, rs := range export.ResourceSpans {
				for _, ss := range rs.ScopeSpans {
					r.spans = append(r.spans, ss.Spans...)
				}
			}
		})
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, req *http.Request) {
		var export collectormetrics.ExportMetricsServiceRequest
		r.receive(w, req, &export, &collectormetrics.ExportMetricsServiceResponse{}, func() {
			for _, rm := range export.ResourceMetrics {
				for _, sm := range rm.ScopeMetrics {
					for _, m := range sm.Metrics {
						r.metrics[m.Name] = m
					}
				}
			}
		})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return r, srv.URL
}

// receive decodes one export request, keeps it and answers.
func (r *receiver) receive(w http.ResponseWriter, req *http.Request, export, answer proto.Message, keep func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := decode(req, export); err != nil {
		r.bad = append(r.bad, err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	keep()
	body, _ := proto.Marshal(answer) // an empty message
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(body)
}

func decode(req *http.Request, into proto.Message) error {
	if got := req.Header.Get("Content-Type"); got != "application/x-protobuf" {
		return fmt.Errorf("%s has Content-Type %q", req.URL.Path, got)
	}
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, into)
}

// TestCollectorGetsSpansAndMetrics runs the program itself, with two rollouts,
// against a collector.
func TestCollectorGetsSpansAndMetrics(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the rollouts' sandboxes need root")
	}
	r, url := newReceiver(t)
	const rollouts = 2
	if err := run(t.Context(), options{metrics: "127.0.0.1:0", otlp: url, rollouts: rollouts}); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bad) > 0 {
		t.Errorf("refused exports: %q", r.bad)
	}
	r.checkSpans(t, rollouts)
	sum := func(name string) (n int64) {
		for _, p := range r.metrics[name].GetSum().GetDataPoints() {
			n += p.GetAsInt()
		}
		return n
	}
	if n := sum("agentrl.rollouts"); n != rollouts {
		t.Errorf("the collector counts %d rollouts, want %d", n, rollouts)
	}
	if n := sum("agentrl.turns"); n < 2*rollouts {
		t.Errorf("the collector counts %d turns", n)
	}
	known := declared(t)
	for name := range r.metrics {
		if !slices.Contains(known, name) {
			t.Errorf("metric %s is none of the library's", name)
		}
	}
	t.Logf("figure: a collector got %d spans of %d rollouts and %d metrics over OTLP", len(r.spans), rollouts, len(r.metrics))
}

// checkSpans: each rollout is one trace, whose spans hang together.
func (r *receiver) checkSpans(t *testing.T, rollouts int) {
	t.Helper()
	traces, names, ids := map[string]bool{}, map[string]int{}, map[string]bool{}
	for _, s := range r.spans {
		traces[hex.EncodeToString(s.TraceId)] = true
		ids[hex.EncodeToString(s.SpanId)] = true
		names[s.Name]++
	}
	if len(traces) != rollouts || names["agentrl.rollout"] != rollouts || names["agentrl.turn"] < 2*rollouts || names["agentrl.stage.evaluate"] != rollouts {
		t.Errorf("%d traces of spans %v, want %d rollouts", len(traces), names, rollouts)
	}
	for _, s := range r.spans {
		if s.EndTimeUnixNano < s.StartTimeUnixNano || s.Name != "agentrl.rollout" && !ids[hex.EncodeToString(s.ParentSpanId)] {
			t.Errorf("span %s: %d to %d, its parent did not arrive", s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
	}
}
