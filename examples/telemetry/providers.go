package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/agentrl-go/agentrl"
)

// Providers are what a Generator hands its traces and metrics to.
type Providers struct {
	Traces  *trace.TracerProvider
	Metrics *metric.MeterProvider
	Scrape  http.Handler // serves the metrics to Prometheus
}

// Open returns providers that Prometheus scrapes and that, where otlp is not
// empty, send traces and metrics to the collector at that URL
// ("http://collector:4318"). Without a collector no span is made.
func Open(ctx context.Context, otlp string) (*Providers, error) {
	registry := prometheus.NewRegistry()
	scraped, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry))
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	readers := []metric.Option{metric.WithReader(scraped)}
	p := &Providers{Scrape: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	if otlp != "" {
		spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(otlp+"/v1/traces"))
		if err != nil {
			return nil, fmt.Errorf("otlp traces: %w", err)
		}
		points, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(otlp+"/v1/metrics"))
		if err != nil {
			return nil, fmt.Errorf("otlp metrics: %w", err)
		}
		p.Traces = trace.NewTracerProvider(trace.WithBatcher(spans))
		readers = append(readers, metric.WithReader(metric.NewPeriodicReader(points)))
	}
	p.Metrics = metric.NewMeterProvider(readers...)
	return p, nil
}

// Wire gives the Generator the providers; before its first call.
func (p *Providers) Wire(g *agentrl.Generator) {
	g.MeterProvider = p.Metrics
	if p.Traces != nil { // a nil *TracerProvider in the field would be no nil
		g.TracerProvider = p.Traces
	}
}

// Close sends what is left.
func (p *Providers) Close(ctx context.Context) error {
	err := p.Metrics.Shutdown(ctx)
	if p.Traces != nil {
		err = errors.Join(err, p.Traces.Shutdown(ctx))
	}
	return err
}
