package promadapter

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
)

// querier implements promstorage.Querier.
type querier struct{ *selector }

var _ promstorage.Querier = (*querier)(nil)

// Select implements Querier. The set is always sorted. Samples are read while it is consumed, with ctx.
//
// Without sortSeries the caller is an engine, which collects all series before it iterates over any, and accepts empty series.
// With sortSeries the caller merges or sends the set, which then has no empty series.
func (q *querier) Select(
	ctx context.Context, sortSeries bool, hints *promstorage.SelectHints, matchers ...*labels.Matcher,
) promstorage.SeriesSet {
	// Prometheus requests only labels with this hint.
	labelsOnly := hints != nil && hints.Func == "series"
	l := q.newLoader(ctx, hints, matchers, false)
	return &seriesSet{cursor: newCursor(l, sortSeries && !labelsOnly), labelsOnly: labelsOnly}
}
