package index

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/lookup"
)

// Series is one label set found by a query.
type Series = lookup.Series

// Tenant describes how the labels of a series differ from the stored ones.
type Tenant = lookup.Tenant

// Alias describes the stored series behind a series with alias names.
type Alias = lookup.Alias

// Select returns the series that match and have samples in an hour that overlaps [mintMs, maxtMs], both inclusive. They are
// sorted by labels, and each label set occurs once. Without matchers it returns all series of the window.
func (x *Index) Select(
	ctx context.Context, budget Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	return x.lookup.Select(ctx, budget, mintMs, maxtMs, matchers...)
}

// SelectProjected is Select for callers that need few labels. The Labels of a series hold at least the metric's name and the
// named labels. Most series with equal values of these labels share one Labels.
func (x *Index) SelectProjected(
	ctx context.Context, budget Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	return x.lookup.SelectProjected(ctx, budget, names, mintMs, maxtMs, matchers...)
}

// SelectJoin is Select without series that have no partner in keys. It omits those that it can recognise before it builds
// and sorts labels, and returns their number.
func (x *Index) SelectJoin(
	ctx context.Context, budget Budget, keys *JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (found []Series, omitted int, err error) {
	return x.lookup.SelectJoin(ctx, budget, keys, mintMs, maxtMs, matchers...)
}

// Work counts what a look-up reads in the index.
type Work = lookup.Work

// Answer is what a look-up returns.
type Answer = lookup.Answer

// The answers of look-ups.
const (
	AnswerSeries = lookup.AnswerSeries
	AnswerNames  = lookup.AnswerNames
	AnswerValues = lookup.AnswerValues
)

// Explain looks up series like Select, LabelNames or LabelValues, and returns the work instead of the answer. label is the
// label of AnswerValues.
func (x *Index) Explain(
	ctx context.Context, budget Budget, answer Answer, label string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (Work, error) {
	return x.lookup.Explain(ctx, budget, answer, label, mintMs, maxtMs, matchers...)
}

// LabelNames returns the sorted label names of the series that Select would find. A limit above 0 bounds their
// number.
func (x *Index) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	return x.lookup.LabelNames(ctx, mintMs, maxtMs, limit, matchers...)
}

// LabelValues returns the sorted values of a label among the series that Select would find. A limit above 0 bounds
// their number.
func (x *Index) LabelValues(
	ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	return x.lookup.LabelValues(ctx, name, mintMs, maxtMs, limit, matchers...)
}

// Estimate returns an upper bound of the active series that the matchers select. It evaluates the metric name and matchers
// that list their values. It ignores other regular expressions, the time range and closed days, so it is cheap.
func (x *Index) Estimate(ctx context.Context, matchers ...*labels.Matcher) (int, error) {
	return x.lookup.Estimate(ctx, matchers...)
}

// JoinKeys are the label values that the series of a join must match.
type JoinKeys = lookup.JoinKeys

// Budget accounts for the memory of a look-up; nil allows everything.
type Budget = lookup.Budget
