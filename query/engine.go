package query

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/columnar/operator"
	"halite/query/expression"
	"halite/query/limits"
	"halite/query/querylog"
	"halite/query/resultcache"
	"halite/storage/principal"
)

// Engine evaluates queries within limits.
type Engine struct {
	opts    Options
	parser  parser.Parser
	inner   atomic.Pointer[dispatcher]
	slots   *slots
	active  *activeList
	metrics *metrics
	cache   *resultcache.Cache // nil if results are not cached
}

// New returns an Engine over opts.Queryable. It fails if Options.Validate does, or if a metric is registered twice.
func New(opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, err
	}
	p := expression.NewCachingParser(parser.NewParser(opts.parserOptions()))
	cache, err := resultcache.New(opts.cacheOptions())
	if err != nil {
		return nil, err
	}
	e := &Engine{
		opts: opts, parser: p, metrics: m, cache: cache,
		slots:  newSlots(opts, m),
		active: newActiveList(),
	}
	e.SetSubqueryStep(opts.SubqueryStep)
	return e, nil
}

// SetSubqueryStep changes the step of subqueries that name none, in milliseconds or longer. Running queries keep their step.
func (e *Engine) SetSubqueryStep(step time.Duration) {
	opts, stepMs := e.opts, step.Milliseconds()
	inner := newDispatcher(promql.EngineOpts{
		Logger:                   opts.Logger,
		MaxSamples:               min(opts.SamplesMax, opts.EngineSamplesMax),
		Timeout:                  opts.Timeout,
		LookbackDelta:            opts.Lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return stepMs },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		EnablePerStepStats:       true,
		EnableDelayedNameRemoval: opts.DelayedNames,
		UseStartTimestamps:       opts.StartTimes,
		Parser:                   e.parser,
	})
	inner.options.SamplesMax, inner.options.Tiers, inner.rollups = opts.SamplesMax, e.tiers(Params{}), opts.Rollups
	inner.subqueryStepMs = stepMs
	e.inner.Store(inner)
}

// NewParser returns the parser of an Engine with these options, for commands without an Engine.
func NewParser(o Options) parser.Parser { return parser.NewParser(o.parserOptions()) }

// Parser is the parser that the Engine uses, for requests that only need one: format_query, parse_query, matchers.
func (e *Engine) Parser() parser.Parser { return e.parser }

// Format returns query as Prometheus's formatter prints it. The error is an *Error.
func (e *Engine) Format(query string) (string, error) {
	expr, err := e.Parse(query)
	if err != nil {
		return "", err
	}
	if err := checkNesting(query, e.opts.FormatDepthMax, "query.max-format-depth"); err != nil {
		return "", err
	}
	return expr.Pretty(0), nil
}

// Parse checks the length of query and parses it.
func (e *Engine) Parse(query string) (parser.Expr, error) {
	if err := e.opts.checkQuery(query, Params{}); err != nil {
		return nil, err
	}
	expr, err := e.parser.ParseExpr(query)
	if err != nil {
		return nil, badQuery(err)
	}
	return expr, nil
}

// ParseSelector parses a series selector such as up{job="a"}, the value of a match[] parameter.
func (e *Engine) ParseSelector(selector string) ([]*labels.Matcher, error) {
	if len(selector) > e.opts.QueryBytesMax {
		return nil, badParam("match[]", "the selector has %d bytes, more than the limit of %d (query.max-text-bytes)",
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
	began, at := e.opts.Now(), time.UnixMilli(r.TimeMs)
	s := expression.Expression{Text: r.Query, Parsed: new(expression.Parsed), Start: at, End: at}
	q := request{kind: kindInstant, Expression: s, Params: r.Params, fault: e.opts.checkQuery(r.Query, r.Params)}
	var used consumed
	result, err := e.run(ctx, q, &used)
	e.record(ctx, q, began, used, err)
	return result, err
}

// Range evaluates an expression at every step of a range. The error is an *Error.
func (e *Engine) Range(ctx context.Context, r RangeRequest) (*Result, error) {
	began := e.opts.Now()
	s := expression.Expression{
		Text: r.Query, Parsed: new(expression.Parsed), Start: r.Start, End: r.End, Step: r.Step, IsRange: true,
	}
	q := request{kind: kindRange, Expression: s, Params: r.Params, fault: e.opts.checkRange(r)}
	var used consumed
	result, err := e.run(ctx, q, &used)
	e.record(ctx, q, began, used, err)
	return result, err
}

// columns decides whether to use columnar operators.
func (e *Engine) columns(p Params) bool {
	if p.Columnar == Default {
		return e.opts.Columnar != Off
	}
	return p.Columnar == On
}

// tiers decides when rollup states replace samples.
func (e *Engine) tiers(p Params) operator.Tiers {
	switch {
	case p.Tiers == On:
		return operator.TiersAlways
	case p.Tiers == Off, e.opts.Tiers == Off:
		return operator.TiersOff
	}
	return operator.TiersAuto
}

// prepare makes the engine's query for a request, or for a part of its range.
func (e *Engine) prepare(ctx context.Context, d *dispatcher, s expression.Expression, p Params) (promql.Query, error) {
	var (
		opts = promql.NewPrometheusQueryOpts(p.StatsPerStep, p.Lookback)
		qry  promql.Query
		err  error
	)
	if e.columns(p) {
		qry, err = d.with(e.tiers(p), p.Stats || p.StatsPerStep).newQuery(ctx, e.opts.Queryable, opts, s)
	} else {
		qry, err = d.newEngineQuery(ctx, e.opts.Queryable, opts, s)
	}
	if err != nil {
		return nil, badQuery(err)
	}
	if h, ok := qry.(*columnarQuery); ok {
		h.explained = p.Explain
	}
	return qry, nil
}

// record records the duration and outcome of a request. err is its error; nil means success.
func (e *Engine) record(ctx context.Context, q request, began time.Time, used consumed, err error) {
	took := e.opts.Now().Sub(began)
	e.metrics.duration.WithLabelValues(q.kind).Observe(took.Seconds())
	outcome := querylog.Outcome{
		Status: querylog.StatusSuccess, Duration: took, Samples: used.samples, PeakBytes: used.peakBytes,
	}
	if err != nil {
		var typed *Error
		errors.As(err, &typed)
		e.metrics.errors.WithLabelValues(string(typed.Type)).Inc()
		outcome.Status, outcome.Error = string(typed.Type), err.Error()
	}
	usage := limits.Usage{Took: took, PeakBytes: used.peakBytes}
	usage.TimedOut, usage.ExceededBytes = failedFor(err)
	e.opts.Limits.Ended(ctx, usage)
	e.opts.Log.Finished(q.record(began), outcome)
	e.opts.Top.Add(q.costs(ctx, began, outcome), func() (text, fingerprint string) { return e.normalise(q) })
}

// run evaluates a request, or takes the result from the result cache. It adds the work and memory of the request to
// used.
func (e *Engine) run(ctx context.Context, q request, used *consumed) (*Result, error) {
	if q.fault != nil {
		return nil, q.fault
	}
	ex, inner := newExplainer(q), e.inner.Load()
	if err := e.checkWork(q, inner.subqueryStepMs); err != nil {
		return nil, err
	}
	rule, err := e.opts.Limits.Match(ctx, q.Text, func() string { return e.fingerprint(q.Text) })
	if err != nil {
		return nil, &Error{Type: ErrorExecution, Err: err}
	}
	lookup, err := e.lookUp(ctx, q, inner.subqueryStepMs)
	if err != nil {
		return nil, err
	}
	if value := lookup.Find(); value != nil {
		return e.finish(ctx, q, &Result{Value: value}, lookup, ex)
	}
	run := &evaluation{engine: e, inner: inner, request: q, rule: rule, explainer: ex, consumed: used}
	ctx, end := run.begin(ctx)
	defer end()
	result, err := run.do(ctx, lookup)
	if err != nil {
		return nil, err
	}
	return e.finish(ctx, q, result, lookup, ex)
}

// fingerprint returns the fingerprint of an expression; "" if the expression cannot be parsed.
func (e *Engine) fingerprint(text string) string {
	fingerprint, err := limits.Fingerprint(e.parser, text)
	if err != nil {
		return ""
	}
	return fingerprint
}

// normalise returns the normalised text of a request and its fingerprint. Both are "" if the text is not an expression. Work
// in other languages has no fingerprint. It does not parse a refused text, because limits of length and depth bound the parser.
func (e *Engine) normalise(q request) (text, fingerprint string) {
	if q.fault != nil {
		return "", ""
	}
	if q.kind != kindInstant && q.kind != kindRange {
		return q.Text, ""
	}
	text, err := limits.Normalise(e.parser, q.Text)
	if err != nil {
		return "", ""
	}
	return text, limits.FingerprintOf(text)
}

// finish turns a value into the requested result. The cache gets the value only after the result is written, because the
// client waits. With an explanation the cache gets it first, because the explanation describes the use of the cache.
func (e *Engine) finish(ctx context.Context, q request, r *Result, lookup *resultcache.Lookup, ex *explainer) (*Result, error) {
	if err := r.reserve(ctx, e.opts); err != nil {
		return nil, err
	}
	if r.Warnings == nil {
		r.Warnings = annotations.Annotations{}
	}
	value, clean := r.Value, len(r.Warnings) == 0
	settle := func() {
		lookup.Keep(value, clean)
		lookup.Finish()
	}
	r.truncate(q.Limit)
	if ex == nil {
		r.settle = settle
		return r, nil
	}
	settle()
	r.Explain = ex.finish(lookup)
	r.Explain.Selectors, r.Explain.Engine = e.describe(ctx, q)
	return r, nil
}

// checkWork refuses subqueries and label functions with too much work, because nothing can stop them while they run.
func (e *Engine) checkWork(q request, subqueryStepMs int64) error {
	_, ranges, _ := strings.Cut(q.Text, "[")
	if !strings.Contains(ranges, ":") && !strings.Contains(q.Text, "label_") {
		return nil // neither subqueries nor label functions
	}
	expr, err := q.Expr(e.parser)
	if err != nil {
		return badQuery(err)
	}
	if !multiplies(expr) {
		return nil
	}
	if expr, err = q.TakeExpr(e.parser); err != nil {
		return badQuery(err)
	}
	if expr, err = promql.PreprocessExpr(expr, q.Start, q.End, q.Step); err != nil {
		return badQuery(err)
	}
	steps := int64(1)
	if q.IsRange {
		steps += int64(q.End.Sub(q.Start) / q.Step)
	}
	l := subqueryLimits{
		stepsMax: e.opts.SubqueryStepsMax, pointsMax: e.opts.SubqueryPointsMax,
		stepDefaultMs: subqueryStepMs,
	}
	if err := checkLabels(expr, int64(e.opts.LabelGrowthMax)); err != nil {
		return err
	}
	return l.check(expr, q.End.Sub(q.Start).Milliseconds(), steps)
}

// lookUp looks up a request in the result cache. It returns nil if the cache is off.
func (e *Engine) lookUp(ctx context.Context, q request, subqueryStepMs int64) (*resultcache.Lookup, error) {
	switch {
	case e.cache == nil:
		return nil, nil
	case q.NoCache, q.Stats, q.StatsPerStep, !e.columns(q.Params), q.Tiers != Default:
		// Statistics need an evaluation. Clients turn operators or rollups off to compare evaluations.
		return e.cache.Bypass(q.Expression), nil
	}
	lookback := q.Lookback
	if lookback <= 0 {
		lookback = e.opts.Lookback
	}
	lookup, err := e.cache.Begin(e.parser, q.Expression, lookback, subqueryStepMs, principal.From(ctx))
	if err != nil {
		return nil, badQuery(err)
	}
	return lookup, nil
}

// Active lists the queries that run or wait, oldest first.
func (e *Engine) Active() []ActiveQuery { return e.active.list() }

// Cancel ends the query with an id and reports whether there is one. The caller of that query receives ErrCancelled.
func (e *Engine) Cancel(id uint64) bool { return e.active.cancel(id) }
