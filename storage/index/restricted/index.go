package restricted

import (
	"context"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/aliases"
	"halite/storage/index"
	"halite/storage/principal"
)

// Source is an index without restrictions. *index.Index implements it and documents the methods.
type Source interface {
	Select(ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
	SelectProjected(ctx context.Context, budget index.Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
	) ([]index.Series, error)
	SelectJoin(ctx context.Context, budget index.Budget, keys *index.JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
	) (found []index.Series, omitted int, err error)
	Explain(ctx context.Context, budget index.Budget, kind index.ResultKind, label string, mintMs, maxtMs int64,
		matchers ...*labels.Matcher) (index.Work, error)
	LabelNames(ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues(ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
	) ([]string, error)
}

// Index is a Source in which each principal finds only the series that its tenants and matchers allow. It does not embed its
// Source, so a new method cannot bypass the restriction.
type Index struct {
	source  Source
	aliases *aliases.Registry // nil if there are none
}

// New wraps an index. known has the aliases; nil means that there are none. The matchers of a principal apply to the new names
// of series.
func New(source Source, known *aliases.Registry) *Index {
	return &Index{source: source, aliases: known}
}

// Select is Select of the Source. If the principal reads several tenants, series have the label keyschema.TenantLabel.
func (x *Index) Select(
	ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]index.Series, error) {
	all := func(matchers []*labels.Matcher) ([]index.Series, error) {
		return x.source.Select(ctx, budget, mintMs, maxtMs, matchers...)
	}
	return x.selectAll(ctx, budget, mintMs, maxtMs, matchers, all)
}

// SelectProjected is SelectProjected of the Source. It always includes the label keyschema.TenantLabel.
func (x *Index) SelectProjected(
	ctx context.Context, budget index.Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]index.Series, error) {
	few := func(matchers []*labels.Matcher) ([]index.Series, error) {
		return x.source.SelectProjected(ctx, budget, names, mintMs, maxtMs, matchers...)
	}
	return x.selectAll(ctx, budget, mintMs, maxtMs, matchers, few)
}

// SelectJoin is SelectJoin of the Source. It omits no series if the keys have labels that the stored series lack, or if
// aliases apply to the selector.
func (x *Index) SelectJoin(
	ctx context.Context, budget index.Budget, keys *index.JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (found []index.Series, omitted int, err error) {
	who := principal.From(ctx)
	if who.Several() || who.Prefix() != "" && keys.On && slices.Contains(keys.Names, model.MetricNameLabel) {
		found, err = x.Select(ctx, budget, mintMs, maxtMs, matchers...)
		return found, 0, err
	}
	some := func(matchers []*labels.Matcher) (found []index.Series, err error) {
		found, omitted, err = x.source.SelectJoin(ctx, budget, keys, mintMs, maxtMs, matchers...)
		return found, err
	}
	found, err = x.selectAll(ctx, budget, mintMs, maxtMs, matchers, some)
	return found, omitted, err
}

// finder finds the stored series that match.
type finder func(matchers []*labels.Matcher) ([]index.Series, error)

// selectAll finds the series of each tenant and gives them the labels that the client sees. The result is sorted. fast
// finds the stored series of a selector without aliases, and may omit labels or series.
func (x *Index) selectAll(
	ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers []*labels.Matcher, fast finder,
) (out []index.Series, err error) {
	who := principal.From(ctx)
	groups := uint32(0)
	for _, s := range who.Selectors(matchers) {
		found, err := x.find(ctx, budget, mintMs, maxtMs, &s, fast)
		if err != nil {
			return nil, err
		}
		if s.Prefix != "" || who.Several() {
			t := &index.Tenant{Prefix: s.Prefix}
			if who.Several() {
				t.Label = s.Tenant
			}
			if groups, err = show(t, found, groups); err != nil {
				return nil, err
			}
		}
		if !who.Several() {
			return found, nil
		}
		out = append(out, found...)
	}
	slices.SortStableFunc(out, func(a, b index.Series) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

// find finds the stored series of a selector. It calls fast if no alias applies to the selector.
func (x *Index) find(
	ctx context.Context, budget index.Budget, mintMs, maxtMs int64, s *principal.Selector, fast finder,
) ([]index.Series, error) {
	if x.unaliased(s) {
		return fast(s.Matchers)
	}
	list := x.stretches(s, mintMs, maxtMs)
	if len(list) == 1 && list[0].Unchanged {
		return fast(s.Matchers)
	}
	var all []index.Series
	for i := range list {
		for _, matchers := range list[i].Selectors {
			found, err := x.source.Select(ctx, budget, list[i].mintMs, list[i].maxtMs, matchers...)
			if err != nil {
				return nil, err
			}
			if found, err = list[i].rename(found, budget); err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return joined(all), nil
}

// Explain adds up the work of the stored selectors that replace a selector because of aliases and tenants.
func (x *Index) Explain(
	ctx context.Context, budget index.Budget, kind index.ResultKind, label string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (sum index.Work, err error) {
	for _, s := range principal.From(ctx).Selectors(matchers) {
		for _, t := range x.stretches(&s, mintMs, maxtMs) {
			for _, stored := range t.Selectors {
				work, err := x.source.Explain(ctx, budget, kind, label, t.mintMs, t.maxtMs, stored...)
				if err != nil {
					return index.Work{}, err
				}
				sum.Add(work)
			}
		}
	}
	return sum, nil
}

// LabelNames is LabelNames of the Source.
func (x *Index) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	who := principal.From(ctx)
	return unite(who, limit, matchers, func(s principal.Selector) ([]string, error) {
		names, err := x.labelNames(ctx, &s, mintMs, maxtMs, limit)
		if len(names) > 0 && who.Several() {
			names = append(names, keyschema.TenantLabel)
		}
		return names, err
	})
}

// LabelValues is LabelValues of the Source.
func (x *Index) LabelValues(
	ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	who := principal.From(ctx)
	return unite(who, limit, matchers, func(s principal.Selector) ([]string, error) {
		if name == keyschema.TenantLabel && who.Several() {
			some, err := x.labelNames(ctx, &s, mintMs, maxtMs, 1)
			if len(some) == 0 {
				return nil, err
			}
			return []string{s.Tenant}, err
		}
		values, err := x.labelValues(ctx, &s, name, mintMs, maxtMs, limit)
		if name == model.MetricNameLabel {
			for i := range values {
				values[i] = values[i][len(s.Prefix):]
			}
		}
		return values, err
	})
}

// unite returns the sorted union of the results of find for all tenants.
func unite(
	who *principal.Principal, limit int, matchers []*labels.Matcher, find func(principal.Selector) ([]string, error),
) (out []string, err error) {
	for _, s := range who.Selectors(matchers) {
		found, err := find(s)
		if err != nil {
			return nil, err
		}
		if !who.Several() {
			return found, nil
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	if out = slices.Compact(out); limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out, nil
}

// estimator is a Source that can estimate the size of a selection.
type estimator interface {
	Estimate(ctx context.Context, matchers ...*labels.Matcher) (int, error)
}

// Estimate is Estimate of the Source, or 0 if the Source has none.
func (x *Index) Estimate(ctx context.Context, matchers ...*labels.Matcher) (sum int, err error) {
	e, ok := x.source.(estimator)
	if !ok {
		return 0, nil
	}
	for _, s := range principal.From(ctx).Selectors(matchers) {
		selectors := [][]*labels.Matcher{s.Matchers}
		if !x.unaliased(&s) {
			list := x.stretches(&s, 0, keyschema.TimeMaxMs)
			selectors = list[len(list)-1].Selectors
		}
		for _, selector := range selectors {
			n, err := e.Estimate(ctx, selector...)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}
