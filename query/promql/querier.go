package promql

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// querier implements promstorage.Querier.
type querier struct {
	*reader
	loaders loaders
	shared  bool // the budget is of others, too
}

var _ promstorage.Querier = (*querier)(nil)

// Select implements Querier. The set is always sorted. Samples are read while it is consumed, with ctx.
//
// A set that need not be sorted goes to an engine, which collects all series before it iterates over any and does not
// mind empty ones; one that must be sorted goes to a merge or to the wire, and has no empty series.
func (q *querier) Select(
	ctx context.Context, sortSeries bool, hints *promstorage.SelectHints, matchers ...*labels.Matcher,
) promstorage.SeriesSet {
	// Prometheus asks so for labels alone.
	labelsOnly := hints != nil && hints.Func == "series"
	l := q.loaders.add(q.newLoader(ctx, hints, matchers))
	return &seriesSet{cursor: newCursor(l, sortSeries && !labelsOnly), labelsOnly: labelsOnly}
}

// Close implements Querier.
func (q *querier) Close() error {
	q.loaders.close()
	if !q.shared {
		q.budget.End()
	}
	return nil
}

// LabelNames implements LabelQuerier.
func (r *reader) LabelNames(
	ctx context.Context, hints *promstorage.LabelHints, matchers ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	if r.window.empty() {
		return nil, nil, nil
	}
	names, err := r.opts.Catalogue.LabelNames(ctx, r.window.mintMs, r.window.maxtMs, limitOf(hints), matchers...)
	if err != nil {
		return nil, nil, storageError("look up label names", err)
	}
	return names, nil, nil
}

// LabelValues implements LabelQuerier.
func (r *reader) LabelValues(
	ctx context.Context, name string, hints *promstorage.LabelHints, matchers ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	if r.window.empty() {
		return nil, nil, nil
	}
	values, err := r.opts.Catalogue.LabelValues(
		ctx, name, r.window.mintMs, r.window.maxtMs, limitOf(hints), matchers...)
	if err != nil {
		return nil, nil, storageError("look up label values", err)
	}
	return values, nil, nil
}

func limitOf(hints *promstorage.LabelHints) int {
	if hints == nil {
		return 0
	}
	return hints.Limit
}
