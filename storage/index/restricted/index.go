package restricted

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index"
	"halite/storage/principal"
)

// Source is an index without restrictions; *index.Index is one. For the methods see there.
type Source interface {
	Select(ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
	SelectProjected(ctx context.Context, budget index.Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
	) ([]index.Series, error)
	SelectJoin(ctx context.Context, budget index.Budget, keys *index.JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
	) (found []index.Series, omitted int, err error)
	LabelNames(ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues(ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
	) ([]string, error)
}

// Index is a Source in which each principal finds only what its matchers leave. It does not embed its Source, so that a new
// method cannot pass the restriction by.
type Index struct{ source Source }

// New wraps an index.
func New(source Source) *Index { return &Index{source: source} }

// Select is Select of the Source.
func (x *Index) Select(
	ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]index.Series, error) {
	return x.source.Select(ctx, budget, mintMs, maxtMs, within(ctx, matchers)...)
}

// SelectProjected is SelectProjected of the Source.
func (x *Index) SelectProjected(
	ctx context.Context, budget index.Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]index.Series, error) {
	return x.source.SelectProjected(ctx, budget, names, mintMs, maxtMs, within(ctx, matchers)...)
}

// SelectJoin is SelectJoin of the Source.
func (x *Index) SelectJoin(
	ctx context.Context, budget index.Budget, keys *index.JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (found []index.Series, omitted int, err error) {
	return x.source.SelectJoin(ctx, budget, keys, mintMs, maxtMs, within(ctx, matchers)...)
}

// LabelNames is LabelNames of the Source.
func (x *Index) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	return x.source.LabelNames(ctx, mintMs, maxtMs, limit, within(ctx, matchers)...)
}

// LabelValues is LabelValues of the Source.
func (x *Index) LabelValues(
	ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	return x.source.LabelValues(ctx, name, mintMs, maxtMs, limit, within(ctx, matchers)...)
}

// estimator is a Source that can estimate the size of a selection.
type estimator interface {
	Estimate(ctx context.Context, matchers ...*labels.Matcher) (int, error)
}

// Estimate is Estimate of the Source, or 0 if the Source has none.
func (x *Index) Estimate(ctx context.Context, matchers ...*labels.Matcher) (int, error) {
	e, ok := x.source.(estimator)
	if !ok {
		return 0, nil
	}
	return e.Estimate(ctx, within(ctx, matchers)...)
}

// within returns matchers with the restrictions of who asks.
func within(ctx context.Context, matchers []*labels.Matcher) []*labels.Matcher {
	return principal.From(ctx).Restrict(matchers)
}
