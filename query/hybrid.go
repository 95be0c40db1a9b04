package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"halite/query/budget"
	"halite/query/columnar"
	"halite/query/columnar/grid"
	"halite/query/columnar/operator"
	"halite/query/expression"
	"halite/query/read"
	"halite/query/read/rollups"
)

// hybrid is a query engine that evaluates what it can with columnar operators and leaves the rest to Prometheus'
// engine.
type hybrid struct {
	*promql.Engine
	parser   *preparedParser
	options  operator.Options
	rollups  *rollups.Reader // nil if there are none
	lookback time.Duration
	logger   *slog.Logger
}

var _ promql.QueryEngine = (*hybrid)(nil)

// concurrencyMax bounds the processors that one query works on.
const concurrencyMax = 4

func newHybrid(opts promql.EngineOpts) *hybrid {
	p := &preparedParser{Parser: opts.Parser, prepared: map[string]parser.Expr{}}
	opts.Parser = p
	return &hybrid{
		Engine: promql.NewEngine(opts), parser: p, lookback: opts.LookbackDelta, logger: opts.Logger,
		options: operator.Options{
			SamplesMax: opts.MaxSamples, DelayedNames: opts.EnableDelayedNameRemoval,
			Concurrency: min(concurrencyMax, runtime.GOMAXPROCS(0)), Memory: new(grid.Memory),
		},
	}
}

// with is the engine with that use of states of hours and days. If statistics are wanted, what cannot show in the result is
// read as well.
func (h *hybrid) with(t operator.Tiers, statistics bool) *hybrid {
	if t == h.options.Tiers && statistics == h.options.CountAll {
		return h
	}
	with := *h
	with.options.Tiers, with.options.CountAll = t, statistics
	return &with
}

// readable is a Queryable that can read columns; *promadapter.Queryable is one.
type readable interface {
	// Reader may return nil: then only Prometheus's engine can read.
	Reader() *read.Reader
	// WithBudget returns a Queryable whose queriers share a budget.
	WithBudget(b *budget.Budget) promstorage.SampleAndChunkQueryable
}

// readerOf returns what reads the columns of a Queryable; nil if nothing does.
func readerOf(q promstorage.Queryable) *read.Reader {
	if ours, ok := q.(readable); ok {
		return ours.Reader()
	}
	return nil
}

// withBudget has all that the engine reads reserve memory in a budget, where that is possible.
func withBudget(q promstorage.Queryable, b *budget.Budget) promstorage.Queryable {
	if ours, ok := q.(readable); ok {
		return ours.WithBudget(b)
	}
	return q
}

// NewInstantQuery implements promql.QueryEngine.
func (h *hybrid) NewInstantQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, qs string, ts time.Time,
) (promql.Query, error) {
	return h.newQuery(ctx, q, opts, expression.Expression{Text: qs, Start: ts, End: ts})
}

// NewRangeQuery implements promql.QueryEngine.
func (h *hybrid) NewRangeQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time,
	interval time.Duration,
) (promql.Query, error) {
	return h.newQuery(ctx, q, opts, expression.Expression{Text: qs, Start: start, End: end, Step: interval, IsRange: true})
}

// engineQuery makes the query as the engine alone evaluates it; text may be that of a prepared expression.
func (h *hybrid) engineQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, s expression.Expression, text string,
) (promql.Query, error) {
	if s.IsRange {
		return h.Engine.NewRangeQuery(ctx, q, opts, text, s.Start, s.End, s.Step)
	}
	return h.Engine.NewInstantQuery(ctx, q, opts, text, s.Start)
}

func (h *hybrid) newQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, s expression.Expression,
) (promql.Query, error) {
	reader := readerOf(q)
	if reader == nil {
		return h.alone(ctx, q, opts, s)
	}
	began := time.Now()
	plan, err := h.plan(opts, s)
	if err != nil {
		return nil, err
	}
	if plan == nil {
		return h.alone(ctx, q, opts, s)
	}
	perStep := opts != nil && opts.EnablePerStepStats()
	session := reader.Session()
	held := session.Budget()
	return &hybridQuery{
		hybrid: h, Expression: s, opts: opts, queryable: withBudget(q, held), session: session, rollups: h.rollups.Session(session),
		held: held, plan: plan,
		planning:   time.Since(began),
		statistics: &stats.Statistics{Timers: stats.NewQueryTimers(), Samples: stats.NewQuerySamples(perStep)},
	}, nil
}

// plan parses and plans; it returns nil if the engine is to evaluate the query, or to find what is wrong with it.
func (h *hybrid) plan(opts promql.QueryOpts, s expression.Expression) (*columnar.Plan, error) {
	expr, err := s.TakeExpr(h.parser.Parser)
	if err != nil {
		return nil, err
	}
	if t := expr.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar || s.End.Before(s.Start) {
		return nil, nil
	}
	if s.IsRange && s.Step < time.Millisecond {
		return nil, nil
	}
	if expr, err = promql.PreprocessExpr(expr, s.Start, s.End, s.Step); err != nil {
		return nil, nil //nolint:nilerr // the engine finds the same error and reports it
	}
	lookback := h.lookback
	if opts != nil && opts.LookbackDelta() > 0 {
		lookback = opts.LookbackDelta()
	}
	if lookback < time.Millisecond {
		return nil, nil
	}
	options := h.options
	options.LookbackMs = lookback.Milliseconds()
	return columnar.Build(expr, s.Grid(), options), nil
}

// hybridQuery is a query of which at least a part is evaluated by columnar operators.
type hybridQuery struct {
	*hybrid
	expression.Expression
	opts       promql.QueryOpts
	queryable  promstorage.Queryable
	session    *read.Session
	rollups    *rollups.Session
	held       *budget.Budget // of the session and of the engine
	plan       *columnar.Plan
	planning   time.Duration
	statistics *stats.Statistics
	explained  bool // someone asks for explain
	explain    Explain
	typed      bool // series with type or unit labels were selected

	mu     sync.Mutex
	cancel context.CancelFunc
	inner  promql.Query // the engine's, if it was asked
}

var _ promql.Query = (*hybridQuery)(nil)

// Exec implements promql.Query.
func (q *hybridQuery) Exec(ctx context.Context) *promql.Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q.mu.Lock()
	q.cancel = cancel
	q.mu.Unlock()
	began := time.Now()
	run := q.plan.Begin(ctx, q.session, q.rollups)
	result := q.evaluate(ctx, run)
	q.typed = run.Typed()
	var fault *operator.PanicError
	if errors.As(result.Err, &fault) {
		q.logger.Error("columnar evaluation panicked, the engine evaluates the query",
			"query", q.Text, "panic", fault.Value, "stack", fault.Stack)
	}
	if columnar.Undecided(result.Err) {
		q.explain = Explain{Undecided: true}
		result = q.askEngine(ctx, q.queryable, q.Text)
	}
	if q.explained {
		q.explain.fill(q.plan, run, q.session, q.rollups, q.planning, time.Since(began))
	}
	return result
}

// alone reports whether columnar operators have made all of the result.
func (q *hybridQuery) alone() bool { return q.plan.Whole() && !q.explain.Undecided }

// samplesSoFar is the number of samples read, also while the query runs.
func (q *hybridQuery) samplesSoFar() int64 { return q.session.Figures().Samples }

// evaluate runs the plan.
func (q *hybridQuery) evaluate(ctx context.Context, run *columnar.Run) *promql.Result {
	if !q.plan.Whole() {
		text, forget := q.parser.prepare(q.Text, q.plan.Rest())
		defer forget()
		result := q.askEngine(ctx, run.Queryable(q.queryable), text)
		if result.Err == nil && q.Stats().Samples.PeakSamples+run.PeakSamples() > q.options.SamplesMax {
			return &promql.Result{Err: operator.ErrUndecided} // each has counted for itself
		}
		if result.Err == nil {
			run.CountSamples(q.Stats().Samples)
		}
		return result
	}
	for _, timing := range []stats.QueryTiming{stats.ExecTotalTime, stats.EvalTotalTime, stats.InnerEvalTime} {
		defer q.statistics.Timers.GetTimer(timing).Start().Stop()
	}
	var (
		value parser.Value
		annos annotations.Annotations
		err   error
	)
	if q.IsRange {
		value, annos, err = run.Range()
	} else {
		value, annos, err = run.Instant()
	}
	g := q.Grid()
	q.statistics.Samples.InitStepTracking(g.StartMs, g.EndMs, g.StepMs)
	run.CountSamples(q.statistics.Samples)
	if err != nil {
		return &promql.Result{Err: err, Warnings: annos}
	}
	return &promql.Result{Value: value, Warnings: annos}
}

// askEngine has the engine evaluate text over queryable.
func (q *hybridQuery) askEngine(ctx context.Context, queryable promstorage.Queryable, text string) *promql.Result {
	inner, err := q.engineQuery(ctx, queryable, q.opts, q.Expression, text)
	if err != nil {
		return &promql.Result{Err: fmt.Errorf("prepare the engine's part: %w", err)}
	}
	q.mu.Lock()
	if q.inner != nil {
		q.inner.Close()
	}
	q.inner = inner
	q.mu.Unlock()
	return inner.Exec(ctx)
}

// Close implements promql.Query.
func (q *hybridQuery) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inner != nil {
		q.inner.Close()
	}
	q.session.Close()
}

// Cancel implements promql.Query.
func (q *hybridQuery) Cancel() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cancel != nil {
		q.cancel()
	}
}

// Statement implements promql.Query.
func (q *hybridQuery) Statement() parser.Statement {
	expr, err := q.parser.Parser.ParseExpr(q.Text)
	if err != nil {
		return nil // it was parsed before
	}
	return &parser.EvalStmt{Expr: expr, Start: q.Start, End: q.End, Interval: q.Step, LookbackDelta: q.lookback}
}

// Stats implements promql.Query.
func (q *hybridQuery) Stats() *stats.Statistics {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inner != nil {
		return q.inner.Stats()
	}
	return q.statistics
}

// String implements promql.Query.
func (q *hybridQuery) String() string { return q.Text }

// preparedParser gives the engine expressions that were made before: the engine only takes text.
type preparedParser struct {
	parser.Parser

	mu       sync.Mutex
	last     uint64
	prepared map[string]parser.Expr
}

// preparedMark begins the text that stands for a prepared expression; no expression can be parsed that begins so.
const preparedMark = "\x00"

// prepare keeps an expression under a text until forget is called.
func (p *preparedParser) prepare(query string, e parser.Expr) (text string, forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	text = preparedMark + strconv.FormatUint(p.last, 10) + " " + query
	p.prepared[text] = e
	return text, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.prepared, text)
	}
}

// ParseExpr implements parser.Parser.
func (p *preparedParser) ParseExpr(input string) (parser.Expr, error) {
	if strings.HasPrefix(input, preparedMark) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if e := p.prepared[input]; e != nil {
			return e, nil
		}
	}
	return p.Parser.ParseExpr(input)
}
