package query

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"halite/query/budget"
	"halite/query/expression"
	"halite/query/read"
)

// Work is a query in a language other than PromQL. Its front end reads samples and computes the result.
type Work struct {
	// Kind is the language, for metrics and lists. Text is the query.
	Kind, Text string
	// StartMs and EndMs are the requested range.
	StartMs, EndMs int64
	// Selectors select the series that the work reads. The Engine estimates the cost from them.
	Selectors [][]*labels.Matcher
	// Client names the client in the list of active queries.
	Client string
}

// Reading gives a front end access to samples.
type Reading struct {
	*read.Session
	samplesMax int
	held       int
}

// Hold reserves memory for samples that the query keeps. It fails if they exceed a limit. The budget of the session releases
// the memory.
func (r *Reading) Hold(samples int) error {
	if r.held += samples; r.held > r.samplesMax {
		return promql.ErrTooManySamples("query execution")
	}
	return r.Budget().Reserve(int64(samples) * sampleBytes)
}

const sampleBytes = 16

var errNoReader = errors.New("the store has no columns to read")

// Do does work within the limits of queries: rules, time, concurrency, slots, samples and memory. It lists, counts and logs
// the work like other queries. compute returns the size of its result in bytes. The Result has no Value; the caller closes
// it once the response is written. The error is an *Error.
func (e *Engine) Do(ctx context.Context, w Work, compute func(context.Context, *Reading) (responseBytes int64, err error)) (
	*Result, error,
) {
	began := e.opts.Now()
	q := request{
		kind:       w.Kind,
		Expression: expression.Expression{Text: w.Text, Start: time.UnixMilli(w.StartMs), End: time.UnixMilli(w.EndMs)},
		Params:     Params{Client: w.Client},
	}
	run := &evaluation{engine: e, request: q, consumed: new(consumed)}
	b, err := run.work(ctx, w, compute)
	e.record(ctx, q, began, *run.consumed, err)
	if err != nil {
		return nil, err
	}
	return &Result{held: b}, nil
}

// work waits for a slot and runs a computation. The returned budget accounts for the result. The error is an *Error.
func (ev *evaluation) work(
	ctx context.Context, w Work, compute func(context.Context, *Reading) (int64, error),
) (*budget.Budget, error) {
	e := ev.engine
	reader := readerOf(e.opts.Queryable)
	if reader == nil {
		return nil, &Error{Type: ErrorInternal, Err: errNoReader}
	}
	var err error
	if ev.rule, err = e.opts.Limits.Match(ctx, ev.Text, func() string { return "" }); err != nil {
		return nil, &Error{Type: ErrorExecution, Err: err}
	}
	ctx, end := ev.begin(ctx)
	defer end()
	release, err := ev.acquireSlot(ctx, e.opts.kindOfWork(ctx, w))
	if err != nil {
		return nil, e.opts.limited(classify(ctx, err), ev.timeout)
	}
	defer release()
	defer e.opts.Log.Begin(ev.record(ev.listed.Start))()
	b, err := ev.compute(ctx, reader, compute)
	if err != nil {
		return nil, e.opts.limited(classify(ctx, err), ev.timeout)
	}
	return b, nil
}

// compute runs a computation. It returns the budget that accounts for the result.
func (ev *evaluation) compute(
	ctx context.Context, reader *read.Reader, compute func(context.Context, *Reading) (int64, error),
) (*budget.Budget, error) {
	ev.listed.evaluating.Store(true)
	b := reader.BudgetOf(ctx)
	session := reader.SessionWith(b)
	ev.listed.session.Store(session)
	if ev.single {
		session.UseOneCPU(ev.cpu.Yield)
	}
	responseBytes, err := compute(ctx, &Reading{Session: session, samplesMax: ev.engine.opts.SamplesMax})
	figures := session.Figures()
	ev.consumed.samples, ev.consumed.peakBytes = figures.Samples, figures.BytesPeak
	ev.engine.metrics.samples.Add(float64(figures.Samples))
	if err = cmp.Or(err, ctx.Err()); err != nil {
		b.Close()
		return nil, err
	}
	if err := b.Reset(responseBytes); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// kindOfWork estimates the cost of work.
func (o Options) kindOfWork(ctx context.Context, w Work) costKind {
	estimator := o.estimator()
	if estimator == nil {
		return cheap
	}
	var samples int64
	for _, matchers := range w.Selectors {
		series := int64(estimator.EstimateSeries(ctx, matchers...))
		samples = added(samples, saturated(series, (w.EndMs-w.StartMs)/assumedIntervalMs+1))
	}
	if samples > o.CheapSamplesMax {
		return large
	}
	return cheap
}
