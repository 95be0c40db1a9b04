package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
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

// dispatcher is a query engine that evaluates supported expressions with columnar operators and leaves the rest to
// Prometheus's engine.
type dispatcher struct {
	engine         *promql.Engine
	parser         *preparedParser
	options        operator.Options
	rollups        *rollups.Reader // nil if there are none
	subqueryStepMs int64           // of subqueries that name none
	lookback       time.Duration
	logger         *slog.Logger
}

// concurrencyMax bounds the CPUs that one query uses.
const concurrencyMax = 4

func newDispatcher(opts promql.EngineOpts) *dispatcher {
	p := &preparedParser{Parser: opts.Parser, prepared: map[string]parser.Expr{}}
	opts.Parser = p
	return &dispatcher{
		engine: promql.NewEngine(opts), parser: p, lookback: opts.LookbackDelta, logger: opts.Logger,
		options: operator.Options{
			SamplesMax: opts.MaxSamples, DelayedNames: opts.EnableDelayedNameRemoval, StartTimes: opts.UseStartTimestamps,
			SubqueryStepMs: opts.NoStepSubqueryIntervalFn,
			Concurrency:    min(concurrencyMax, runtime.GOMAXPROCS(0)), Memory: new(grid.Memory),
		},
	}
}

// with returns a dispatcher with the given use of rollups. With statistics, the dispatcher also reads samples that cannot change
// the result.
func (d *dispatcher) with(t operator.Tiers, statistics bool) *dispatcher {
	if t == d.options.Tiers && statistics == d.options.CountAll {
		return d
	}
	with := *d
	with.options.Tiers, with.options.CountAll = t, statistics
	return &with
}

// engineQuery makes a query of Prometheus's engine. text is an expression or refers to a prepared one.
func (d *dispatcher) engineQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, s expression.Expression, text string,
) (promql.Query, error) {
	if s.IsRange {
		return d.engine.NewRangeQuery(ctx, q, opts, text, s.Start, s.End, s.Step)
	}
	return d.engine.NewInstantQuery(ctx, q, opts, text, s.Start)
}

// newQuery makes a query. Operators evaluate the parts of it that they support. Prometheus's engine evaluates the rest.
func (d *dispatcher) newQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, s expression.Expression,
) (promql.Query, error) {
	reader := readerOf(q)
	if reader == nil {
		return d.newEngineQuery(ctx, q, opts, s)
	}
	began := time.Now()
	plan, err := d.plan(ctx, reader, opts, s)
	if err != nil {
		return nil, err
	}
	if plan == nil {
		return d.newEngineQuery(ctx, q, opts, s)
	}
	perStep := opts != nil && opts.EnablePerStepStats()
	statistics := &stats.Statistics{Samples: stats.NewQuerySamples(perStep)}
	if d.options.CountAll {
		statistics.Timers = stats.NewQueryTimers()
	}
	session := reader.SessionWith(reader.BudgetOf(ctx))
	held := session.Budget()
	return &columnarQuery{
		dispatcher: d, Expression: s, opts: opts, queryable: withBudget(q, held), session: session, rollups: d.rollups.Session(session),
		held: held, plan: plan, planning: time.Since(began), statistics: statistics,
	}, nil
}

// plan parses an expression and plans its evaluation. It returns nil if Prometheus's engine must evaluate the query or report
// its error.
func (d *dispatcher) plan(
	ctx context.Context, r *read.Reader, opts promql.QueryOpts, s expression.Expression,
) (*columnar.Plan, error) {
	expr, err := s.TakeExpr(d.parser.Parser)
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
	lookback := d.lookback
	if opts != nil && opts.LookbackDelta() > 0 {
		lookback = opts.LookbackDelta()
	}
	if lookback < time.Millisecond {
		return nil, nil
	}
	options := d.planOptions(ctx, r)
	options.LookbackMs = lookback.Milliseconds()
	return columnar.Build(expr, s.Grid(), options), nil
}

// planOptions returns the options of plans over a reader for the principal in ctx. The reader may be nil.
func (d *dispatcher) planOptions(ctx context.Context, r *read.Reader) operator.Options {
	options := d.options
	if r != nil {
		options.Histograms = r.HistogramsKnown(ctx)
	}
	return options
}

// columnarQuery is a query that columnar operators evaluate in whole or in part.
type columnarQuery struct {
	*dispatcher
	expression.Expression
	opts       promql.QueryOpts
	queryable  promstorage.Queryable
	session    *read.Session
	rollups    *rollups.Session
	held       *budget.Budget // budget of the session and of the engine
	plan       *columnar.Plan
	planning   time.Duration
	statistics *stats.Statistics // with timers if the request asks for them
	explained  bool              // the request asks for an explanation
	explain    Explain
	typed      bool // series with type or unit labels were selected

	mu     sync.Mutex
	cancel context.CancelFunc
	inner  promql.Query // the engine's query, if the engine evaluates a part
}

var _ promql.Query = (*columnarQuery)(nil)

// Exec implements promql.Query.
func (q *columnarQuery) Exec(ctx context.Context) *promql.Result {
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
		q.explain = Explain{Undecided: true, UndecidedReason: result.Err.Error()}
		result = q.runEngine(ctx, q.queryable, q.Text)
	}
	if q.explained {
		q.explainRun(run, time.Since(began))
	}
	return result
}

// withoutEngine reports whether columnar operators alone computed the result.
func (q *columnarQuery) withoutEngine() bool { return q.plan.Whole() && !q.explain.Undecided }

// evaluate runs the plan.
func (q *columnarQuery) evaluate(ctx context.Context, run *columnar.Run) *promql.Result {
	if !q.plan.Whole() {
		text, remove := q.parser.prepare(q.Text, q.plan.Rest())
		defer remove()
		result := q.runEngine(ctx, run.Queryable(q.queryable), text)
		if result.Err != nil {
			return result
		}
		samples := q.Stats().Samples
		if samples.PeakSamples+run.PeakSamples() > q.options.SamplesMax {
			return &promql.Result{Err: operator.ErrUndecided} // operators and engine count separately
		}
		run.CountSamples(samples)
		return result
	}
	if q.options.CountAll { // the request asks for statistics
		for _, timing := range []stats.QueryTiming{stats.ExecTotalTime, stats.EvalTotalTime, stats.InnerEvalTime} {
			defer q.statistics.Timers.GetTimer(timing).Start().Stop()
		}
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

// runEngine lets the engine evaluate text over queryable.
func (q *columnarQuery) runEngine(ctx context.Context, queryable promstorage.Queryable, text string) *promql.Result {
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
func (q *columnarQuery) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inner != nil {
		q.inner.Close()
	}
	q.session.Close()
}

// Cancel implements promql.Query.
func (q *columnarQuery) Cancel() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cancel != nil {
		q.cancel()
	}
}

// Statement implements promql.Query.
func (q *columnarQuery) Statement() parser.Statement {
	expr, err := q.parser.Parser.ParseExpr(q.Text)
	if err != nil {
		return nil // the text was parsed before
	}
	return &parser.EvalStmt{Expr: expr, Start: q.Start, End: q.End, Interval: q.Step, LookbackDelta: q.lookback}
}

// Stats implements promql.Query.
func (q *columnarQuery) Stats() *stats.Statistics {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inner != nil {
		return q.inner.Stats()
	}
	return q.statistics
}

// String implements promql.Query.
func (q *columnarQuery) String() string { return q.Text }

// budget implements budgeted.
func (q *columnarQuery) budget() *budget.Budget { return q.held }

// engineOnly is a query that Prometheus's engine evaluates alone.
type engineOnly struct {
	promql.Query
	held *budget.Budget
}

// budget implements budgeted.
func (q *engineOnly) budget() *budget.Budget { return q.held }

// Close implements promql.Query.
func (q *engineOnly) Close() {
	q.Query.Close()
	q.held.Close()
}

// newEngineQuery makes a query that Prometheus's engine evaluates alone.
func (d *dispatcher) newEngineQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, s expression.Expression,
) (promql.Query, error) {
	reader := readerOf(q)
	if reader == nil {
		return d.engineQuery(ctx, q, opts, s, s.Text)
	}
	held := reader.BudgetOf(ctx)
	qry, err := d.engineQuery(ctx, withBudget(q, held), opts, s, s.Text)
	if err != nil {
		return nil, err
	}
	return &engineOnly{qry, held}, nil
}
