package index

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/lookup"
)

// Series is one label set found by a query.
type Series = lookup.Series

// Select returns the series that match and have samples in an hour that overlaps [mintMs, maxtMs], both inclusive, sorted by
// labels, each label set once. Without matchers it returns all series of the window.
func (x *Index) Select(
	ctx context.Context, budget Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	return x.lookup.Select(ctx, budget, mintMs, maxtMs, matchers...)
}

// SelectProjected is Select for callers that need few labels. The Labels of a series hold at least its metric's name and the
// labels with the names. Series that have these labels in common mostly share them.
func (x *Index) SelectProjected(
	ctx context.Context, budget Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	return x.lookup.SelectProjected(ctx, budget, names, mintMs, maxtMs, matchers...)
}

// SelectJoin is Select without series that match no series in keys, as far as that is cheap to know: before labels are built and
// sorted. It also returns how many series it omitted.
func (x *Index) SelectJoin(
	ctx context.Context, budget Budget, keys *JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (found []Series, omitted int, err error) {
	return x.lookup.SelectJoin(ctx, budget, keys, mintMs, maxtMs, matchers...)
}

// LabelNames returns the label names of the series that Select would find, sorted; a limit above 0 keeps that many.
func (x *Index) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	return x.lookup.LabelNames(ctx, mintMs, maxtMs, limit, matchers...)
}

// LabelValues returns the values of a label among the series that Select would find, sorted; a limit above 0 keeps that
// many.
func (x *Index) LabelValues(
	ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	return x.lookup.LabelValues(ctx, name, mintMs, maxtMs, limit, matchers...)
}

// Estimate returns how many active series the matchers select at most. It looks at the metric name and at matchers that
// name their values. It ignores other regular expressions, the time range and closed days, so it costs little.
func (x *Index) Estimate(ctx context.Context, matchers ...*labels.Matcher) (int, error) {
	return x.lookup.Estimate(ctx, matchers...)
}

// JoinKeys are the labels that the series of a join have to match.
type JoinKeys = lookup.JoinKeys

// Budget accounts for the memory of a look-up; nil allows everything.
type Budget = lookup.Budget
