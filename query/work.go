package query

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"halite/query/budget"
	"halite/query/expression"
	"halite/query/read"
)

// Work is a query in a language other than PromQL. Its front end reads samples and computes the answer.
type Work struct {
	// Kind is the language, for metrics and lists. Text is the query.
	Kind, Text string
	// StartMs and EndMs are the requested range.
	StartMs, EndMs int64
	// Selectors select the series that it reads. They serve to estimate its cost.
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

// Hold reserves memory for samples that the query keeps, or fails if there are too many. The session's budget releases the
// memory.
func (r *Reading) Hold(samples int) error {
	if r.held += samples; r.held > r.samplesMax {
		return promql.ErrTooManySamples("query execution")
	}
	return r.Budget().Reserve(int64(samples) * sampleBytes)
}

const sampleBytes = 16

var errNoReader = errors.New("the store has no columns to read")

// Do does work within the limits of queries: rules, time, concurrency, slots, samples and memory. It lists, counts and logs
// the work like other queries. compute returns the size of its answer in bytes. The Result has no Value; the caller closes
// it once the answer is written. The error is an *Error.
func (e *Engine) Do(ctx context.Context, w Work, compute func(context.Context, *Reading) (answerBytes int64, err error)) (
	*Result, error,
) {
	q := request{
		kind:       w.Kind,
		Expression: expression.Expression{Text: w.Text, Start: time.UnixMilli(w.StartMs), End: time.UnixMilli(w.EndMs)},
		Params:     Params{Client: w.Client},
	}
	return e.recorded(ctx, q, func(used *consumed) (*Result, error) {
		reader := readerOf(e.opts.Queryable)
		if reader == nil {
			return nil, &Error{Type: ErrorInternal, Err: errNoReader}
		}
		rule, err := e.opts.Limits.Match(ctx, q.Text, func() string { return "" })
		if err != nil {
			return nil, &Error{Type: ErrorExecution, Err: err}
		}
		run := &evaluation{engine: e, request: q, rule: rule, consumed: used}
		ctx, end := run.begin(ctx)
		defer end()
		release, err := run.acquireSlot(ctx, e.opts.kindOfWork(ctx, w))
		if err != nil {
			return nil, e.opts.limited(classify(ctx, err), run.timeout)
		}
		defer release()
		defer e.opts.Log.Begin(q.record(run.listed.Start))()
		b, err := run.compute(ctx, reader, compute)
		if err != nil {
			return nil, e.opts.limited(classify(ctx, err), run.timeout)
		}
		return &Result{held: b}, nil
	})
}

// compute runs a computation. The budget that it returns holds the answer.
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
	answerBytes, err := compute(ctx, &Reading{Session: session, samplesMax: ev.engine.opts.SamplesMax})
	figures := session.Figures()
	ev.consumed.samples, ev.consumed.peakBytes = figures.Samples, figures.BytesPeak
	ev.engine.metrics.samples.Add(float64(figures.Samples))
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = b.Reset(answerBytes)
	}
	if err != nil {
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
