package agentrl

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/agentrl-go/agentrl/adapter"
)

// telemetry is what a Generator tells OpenTelemetry: one span a rollout, one a
// stage, one a turn, and the metrics below. Without providers it costs nothing
// that can be measured.
type telemetry struct {
	on     bool // a provider was given: else nothing is put together that nobody reads
	tracer trace.Tracer

	rollouts  metric.Int64Counter       // by outcome and failure class and code
	stages    metric.Float64Histogram   // seconds, by stage, role and whether it failed
	turns     metric.Int64Counter       // by kind and whether it failed
	tokens    metric.Int64Counter       // by type: prompt, cached, sampled
	segments  metric.Int64Counter       // by label and why it was split
	rewrites  metric.Int64Counter       // by the canonicalisation's name
	aborts    metric.Int64Counter       // rollouts that failed, by stage, class and code
	retries   metric.Int64Counter       // by what was tried again: boot, evaluation
	sandboxes metric.Int64UpDownCounter // live, by role
	sessions  metric.Int64UpDownCounter // live
}

// scope is the import path, by which spans and metrics are told apart.
const scope = "github.com/agentrl-go/agentrl"

func newTelemetry(tp trace.TracerProvider, mp metric.MeterProvider) (*telemetry, error) {
	on := tp != nil || mp != nil
	if tp == nil {
		tp = tracenoop.NewTracerProvider()
	}
	if mp == nil {
		mp = metricnoop.NewMeterProvider()
	}
	m := instruments{meter: mp.Meter(scope)}
	t := &telemetry{
		on:        on,
		tracer:    tp.Tracer(scope),
		rollouts:  m.counter("agentrl.rollouts", "{rollout}", "Rollouts that are over."),
		stages:    m.seconds("agentrl.stage.duration", "How long a stage took."),
		turns:     m.counter("agentrl.turns", "{turn}", "Model turns."),
		tokens:    m.counter("agentrl.tokens", "{token}", "Tokens of model turns."),
		segments:  m.counter("agentrl.segments", "{segment}", "Token sequences that rollouts left."),
		rewrites:  m.counter("agentrl.rewrites", "{rewrite}", "Canonicalisations of what clients sent and replayed."),
		aborts:    m.counter("agentrl.aborts", "{rollout}", "Rollouts that were aborted."),
		retries:   m.counter("agentrl.retries", "{retry}", "What was tried again."),
		sandboxes: m.gauge("agentrl.sandboxes.live", "{sandbox}", "Sandboxes alive."),
		sessions:  m.gauge("agentrl.sessions.live", "{session}", "Adapter sessions alive."),
	}
	return t, m.err
}

// instruments makes instruments and keeps the first error.
type instruments struct {
	meter metric.Meter
	err   error
}

func (i *instruments) counter(name, unit, about string) metric.Int64Counter {
	c, err := i.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
	i.keep(err)
	return c
}

func (i *instruments) gauge(name, unit, about string) metric.Int64UpDownCounter {
	c, err := i.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
	i.keep(err)
	return c
}

func (i *instruments) seconds(name, about string) metric.Float64Histogram {
	h, err := i.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
		metric.WithExplicitBucketBoundaries(.01, .1, .5, 1, 5, 15, 60, 300, 900, 1800, 3600))
	i.keep(err)
	return h
}

func (i *instruments) keep(err error) {
	if i.err == nil {
		i.err = err
	}
}

// startRollout begins the span of a rollout.
func (t *telemetry) startRollout(ctx context.Context, r *rollout) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, "agentrl.rollout", trace.WithTimestamp(r.start), trace.WithAttributes(attribute.Int("agentrl.attempt", r.attempt)))
}

// endRollout ends it.
func (t *telemetry) endRollout(ctx context.Context, span trace.Span, r *rollout, err error) {
	if !t.on {
		return
	}
	f := FailureOf(err)
	outcome := string(r.outcome)
	if err != nil {
		outcome = "aborted"
		span.SetStatus(codes.Error, f.Code)
		span.RecordError(err)
		t.aborts.Add(ctx, 1, metric.WithAttributes(attribute.String("stage", string(stageOf(err))),
			attribute.String("class", string(f.Class)), attribute.String("code", f.Code)))
	}
	span.SetAttributes(attribute.String("agentrl.instance_id", r.instance), attribute.String("agentrl.session", r.session.ID),
		attribute.String("agentrl.outcome", outcome))
	span.End()
	t.rollouts.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome),
		attribute.String("class", string(f.Class)), attribute.String("code", f.Code)))
}

// stageOf is the stage that an error came from; "" when it names none.
func stageOf(err error) Stage {
	var at *StageError
	if errors.As(err, &at) {
		return at.Stage
	}
	return ""
}

// stage begins the span of a stage; the function ends it.
func (t *telemetry) stage(ctx context.Context, info StageInfo) (context.Context, func(error)) {
	if !t.on {
		return ctx, func(error) {}
	}
	ctx, span := t.tracer.Start(ctx, "agentrl.stage."+string(info.Stage), trace.WithTimestamp(info.Start),
		trace.WithAttributes(attribute.String("agentrl.role", info.Role), attribute.String("agentrl.sandbox", info.Sandbox)))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, FailureOf(err).Code)
		}
		span.End()
		t.stages.Record(ctx, time.Since(info.Start).Seconds(), metric.WithAttributes(attribute.String("stage", string(info.Stage)),
			attribute.String("role", info.Role), attribute.Bool("failed", err != nil)))
	}
}

// turn records a turn that is over as a span of the rollout.
func (t *telemetry) turn(ctx context.Context, info adapter.TurnInfo) {
	if !t.on {
		return
	}
	_, span := t.tracer.Start(ctx, "agentrl.turn", trace.WithTimestamp(info.Start), trace.WithAttributes(
		attribute.String("agentrl.turn", info.ID), attribute.String("agentrl.kind", labelOf(info.Kind)), attribute.String("agentrl.finish", info.Finish),
		attribute.Int("agentrl.prompt_tokens", info.Prompt), attribute.Int("agentrl.cached_tokens", info.Cached), attribute.Int("agentrl.sampled_tokens", info.Output)))
	if info.Err != nil {
		span.SetStatus(codes.Error, FailureOf(info.Err).Code)
	}
	span.End(trace.WithTimestamp(info.Start.Add(info.Duration)))
	t.turns.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", labelOf(info.Kind)), attribute.Bool("failed", info.Err != nil)))
	for kind, n := range map[string]int{"prompt": info.Prompt, "cached": info.Cached, "sampled": info.Output} {
		t.tokens.Add(ctx, int64(n), metric.WithAttributes(attribute.String("type", kind)))
	}
}

// sessionOf counts a rollout's token sequences by why they were split, and the
// canonicalisations of its requests by name.
func (t *telemetry) sessionOf(ctx context.Context, rec adapter.Record) {
	for name, n := range rec.Rewrites {
		t.rewrites.Add(ctx, int64(n), metric.WithAttributes(attribute.String("name", name)))
	}
	for _, seg := range rec.Segments {
		why := ""
		if seg.Split != nil {
			why = seg.Split.Cause
		}
		t.segments.Add(ctx, 1, metric.WithAttributes(attribute.String("label", labelOf(seg.Label)), attribute.String("split", why)))
	}
}

// retry counts something that is tried again.
func (t *telemetry) retry(ctx context.Context, what string) {
	t.retries.Add(ctx, 1, metric.WithAttributes(attribute.String("what", what)))
}

func roleAttr(role string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("role", role))
}
