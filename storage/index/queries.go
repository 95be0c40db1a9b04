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
func (x *Index) Select(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]Series, error) {
	return x.lookup.Select(ctx, budgetOf(ctx), mintMs, maxtMs, matchers...)
}

// SelectPart is Select for callers that need few labels. The Labels of a series hold at least its metric's name and the labels
// with the names. Series that have these labels in common mostly share them.
func (x *Index) SelectPart(
	ctx context.Context, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	return x.lookup.SelectProjected(ctx, budgetOf(ctx), names, mintMs, maxtMs, matchers...)
}

// SelectPartners is Select without series that no series in p matches, as far as that is cheap to know: before labels are
// built and sorted. It also returns how many series it omitted.
func (x *Index) SelectPartners(
	ctx context.Context, p *JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (found []Series, omitted int, err error) {
	return x.lookup.SelectJoin(ctx, budgetOf(ctx), p, mintMs, maxtMs, matchers...)
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

// JoinKeys are the series that a join compares with.
type JoinKeys = lookup.JoinKeys

// Meter accounts for memory, in bytes, before a look-up takes it. Its error ends the look-up.
type Meter func(bytes int64) error

type meterKey struct{}

// WithMeter has Select, SelectPart and SelectPartners charge m.
func WithMeter(ctx context.Context, m Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

func budgetOf(ctx context.Context) lookup.Budget {
	m, _ := ctx.Value(meterKey{}).(Meter)
	return lookup.Budget(m)
}
