package query

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"
)

// Engine evaluates queries within limits.
type Engine struct {
	opts    Options
	parser  parser.Parser
	inner   *hybrid
	gate    *gate
	active  *activeList
	metrics *metrics
}

// New makes an Engine over opts.Queryable.
func New(opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, err
	}
	subqueryStepMs := opts.SubqueryStep.Milliseconds()
	p := parser.NewParser(opts.parserOptions())
	inner := newHybrid(promql.EngineOpts{
		Logger:                   opts.Logger,
		MaxSamples:               opts.SamplesMax,
		Timeout:                  opts.Timeout,
		LookbackDelta:            opts.Lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return subqueryStepMs },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		EnablePerStepStats:       true,
		Parser:                   p,
	})
	return &Engine{
		opts: opts, parser: p, inner: inner, metrics: m,
		gate:   newGate(opts.ConcurrencyMax, opts.QueueWait, m),
		active: newActiveList(),
	}, nil
}

// Parser is the parser that the Engine uses, for requests that only need one: format_query, parse_query, matchers.
func (e *Engine) Parser() parser.Parser { return e.parser }

// Format prints query as Prometheus' formatter does.
func (e *Engine) Format(query string) (string, error) {
	expr, err := e.Parse(query)
	if err != nil {
		return "", err
	}
	return expr.Pretty(0), nil
}

// Parse checks the length of query and parses it.
func (e *Engine) Parse(query string) (parser.Expr, error) {
	if err := e.checkQuery(query, Params{}); err != nil {
		return nil, err
	}
	expr, err := e.parser.ParseExpr(query)
	if err != nil {
		return nil, &Error{Type: ErrorBadData, Param: "query", Err: err}
	}
	return expr, nil
}

// ParseSelector parses a series selector such as up{job="a"}, the value of a match[] parameter.
func (e *Engine) ParseSelector(selector string) ([]*labels.Matcher, error) {
	if len(selector) > e.opts.QueryBytesMax {
		return nil, badParam("match[]", "the selector has %d bytes, more than the limit of %d (query-bytes-max)",
			len(selector), e.opts.QueryBytesMax)
	}
	matchers, err := e.parser.ParseMetricSelector(selector)
	if err != nil {
		return nil, &Error{Type: ErrorBadData, Param: "match[]", Err: err}
	}
	return matchers, nil
}

// Instant evaluates an expression at one time. The error is an *Error.
func (e *Engine) Instant(ctx context.Context, r InstantRequest) (*Result, error) {
	return e.run(ctx, "instant", r.Query, r.Params, func() error { return e.checkQuery(r.Query, r.Params) },
		func(ctx context.Context, o promql.QueryOpts) (promql.Query, error) {
			return e.engine(r.Params).NewInstantQuery(ctx, e.opts.Queryable, o, r.Query, time.UnixMilli(r.TimeMs))
		})
}

// Range evaluates an expression at every step of a range. The error is an *Error.
func (e *Engine) Range(ctx context.Context, r RangeRequest) (*Result, error) {
	return e.run(ctx, "range", r.Query, r.Params, func() error { return e.checkRange(r) },
		func(ctx context.Context, o promql.QueryOpts) (promql.Query, error) {
			return e.engine(r.Params).NewRangeQuery(ctx, e.opts.Queryable, o, r.Query, r.Start, r.End, r.Step)
		})
}

// engine is the one that evaluates a request.
func (e *Engine) engine(p Params) promql.QueryEngine {
	choice := p.Columnar
	if choice == Default {
		choice = e.opts.Columnar
	}
	if choice == Off {
		return e.inner.Engine
	}
	return e.inner
}

type prepareFunc func(context.Context, promql.QueryOpts) (promql.Query, error)

// run takes a query through its life: checks, place, evaluation, figures.
func (e *Engine) run(
	ctx context.Context, kind, query string, p Params, check func() error, prepare prepareFunc,
) (*Result, error) {
	began := e.opts.Now()
	result, err := e.evaluate(ctx, kind, query, p, check, prepare)
	e.metrics.duration.WithLabelValues(kind).Observe(e.opts.Now().Sub(began).Seconds())
	if err != nil {
		var typed *Error
		errors.As(err, &typed)
		e.metrics.errors.WithLabelValues(string(typed.Type)).Inc()
		return nil, err
	}
	return result, nil
}

func (e *Engine) evaluate(
	ctx context.Context, kind, query string, p Params, check func() error, prepare prepareFunc,
) (*Result, error) {
	if err := check(); err != nil {
		return nil, err
	}
	timeout := e.opts.Timeout
	if p.Timeout > 0 {
		timeout = min(timeout, p.Timeout)
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer e.active.add(query, kind, e.opts.Now(), cancel)()

	qry, err := prepare(ctx, promql.NewPrometheusQueryOpts(p.StatsPerStep, p.Lookback))
	if err != nil {
		return nil, &Error{Type: ErrorBadData, Param: "query", Err: err}
	}
	leave, err := e.gate.enter(ctx)
	if err != nil {
		qry.Close()
		return nil, classify(ctx, err)
	}
	defer leave()
	began := time.Now()
	res := qry.Exec(ctx)
	took := time.Since(began)
	e.metrics.samples.Add(float64(qry.Stats().Samples.SamplesRead))
	if res.Err != nil {
		qry.Close()
		return nil, classify(ctx, res.Err)
	}
	result := &Result{Value: res.Value, Warnings: res.Warnings, query: qry}
	if result.Warnings == nil {
		result.Warnings = annotations.Annotations{}
	}
	result.truncate(p.Limit)
	if p.Stats || p.StatsPerStep {
		result.Stats = stats.NewQueryStats(qry.Stats())
	}
	if p.Explain {
		result.Explain = explainOf(qry, took)
	}
	return result, nil
}

// Active lists the queries that run or wait, oldest first.
func (e *Engine) Active() []ActiveQuery { return e.active.list() }

// Cancel ends the query with that id; it reports whether there is one. Its caller receives ErrCancelled.
func (e *Engine) Cancel(id uint64) bool { return e.active.cancel(id) }
