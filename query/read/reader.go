package read

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/budget"
	"halite/query/column"
)

// Reader reads samples from the head and the data table. It is safe for concurrent use.
type Reader struct {
	opts    Options
	metrics *metrics
	heads   column.BufferPool // for samples of the head
	rests   column.BufferPool // for samples of rows of the head that the row cache lacks
	buffers column.BufferPool // for all other samples
	columns column.Pool
	pool    *budget.Pool
}

// New makes a Reader.
func New(opts Options) (*Reader, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	pool, err := budget.NewPool(opts.TotalBytesMax, opts.Registerer)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, err
	}
	return &Reader{opts: opts, metrics: m, pool: pool}, nil
}

// Budget returns the budget of a new query or look-up. The caller closes it.
func (r *Reader) Budget() *budget.Budget { return r.BudgetOf(context.Background()) }

// BudgetOf is Budget within the limits of the principal in ctx.
func (r *Reader) BudgetOf(ctx context.Context) *budget.Budget {
	return budget.New(r.opts.limits(ctx), r.pool)
}

// ExemplarsMax returns Options.ExemplarsMax.
func (r *Reader) ExemplarsMax() int { return r.opts.ExemplarsMax }

// estimator is an Index that can estimate the size of a selection, see [index.Index.Estimate].
type estimator interface {
	Estimate(ctx context.Context, matchers ...*labels.Matcher) (int, error)
}

// EstimateSeries returns an upper bound of the active series that the matchers select, or 0 if the index has no estimate.
func (r *Reader) EstimateSeries(ctx context.Context, matchers ...*labels.Matcher) int {
	e, ok := r.opts.Index.(estimator)
	if !ok {
		return 0
	}
	n, err := e.Estimate(ctx, matchers...)
	if err != nil {
		return 0 // Only the end of ctx stops an estimate, and that ends the query.
	}
	return n
}

// LabelNames lists the names of the labels of series that match and have samples in a range, sorted; limit 0 means all.
func (r *Reader) LabelNames(
	ctx context.Context, within column.TimeRange, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	window, _ := r.clip(within, r.opts.Retention)
	if window.Empty() {
		return nil, nil
	}
	names, err := r.opts.Index.LabelNames(ctx, window.MinMs, window.MaxMs, limit, matchers...)
	if err != nil {
		return nil, Classify("look up label names", err)
	}
	return names, nil
}

// LabelValues lists the values of a label like LabelNames.
func (r *Reader) LabelValues(
	ctx context.Context, name string, within column.TimeRange, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	window, _ := r.clip(within, r.opts.Retention)
	if window.Empty() {
		return nil, nil
	}
	values, err := r.opts.Index.LabelValues(ctx, name, window.MinMs, window.MaxMs, limit, matchers...)
	if err != nil {
		return nil, Classify("look up label values", err)
	}
	return values, nil
}

// clip narrows a range to times that can have samples: within retention, and representable in a row key. oldestMs is the first
// time within retention.
func (r *Reader) clip(t column.TimeRange, ages *keyschema.TierRetention) (clipped column.TimeRange, oldestMs int64) {
	oldestMs = ages.Longest().CutoffMs(r.opts.Now().UnixMilli())
	return column.TimeRange{MinMs: max(t.MinMs, oldestMs), MaxMs: min(t.MaxMs, keyschema.TimeMaxMs)}, oldestMs
}

type metrics struct {
	series, rows, samples prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		series:  counter("tsdb_query_series_selected_total", "Series that selectors of queries matched."),
		rows:    counter("tsdb_query_rows_read_total", "Rows of the data table that queries read."),
		samples: counter("tsdb_query_samples_read_total", "Samples that queries read from the head and the data table."),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.series, m.rows, m.samples,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register read metrics: %w", err)
		}
	}
	return m, nil
}
