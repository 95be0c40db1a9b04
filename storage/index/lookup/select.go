package lookup

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Series is one label set that a query found.
type Series struct {
	Labels labels.Labels
	// Ref is the number of an active series, 0 if the series is not active.
	Ref memory.Ref
	// Group is not 0 if Labels are only the labels of a projection. Series with different Labels never have the same Group.
	// Most series with equal Labels have the same Group. Group is at most the number of series.
	Group uint32
	// Hours are the spans in which the series has samples: ascending, with gaps between them, clipped to the query. Callers
	// must not change them.
	Hours []presence.Span
	// Tenant describes how Labels differ from the stored labels; nil if they do not.
	Tenant *Tenant
	// Alias is set if Labels contain alias names, or if aliases give several stored series the same Labels.
	Alias *Alias

	v   *memory.View // has all labels if Labels do not
	row uint32
}

// Select returns the series that match the matchers and are active in an hour that overlaps [mintMs, maxtMs], both inclusive.
// The result is sorted by labels and has no duplicates. Without matchers it has all series of the window.
func (x *Reader) Select(
	ctx context.Context, budget Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	return x.SelectBy(ctx, budget, x.store.Layout.Months, mintMs, maxtMs, matchers...)
}

// SelectProjected is Select for callers that need few labels. The Labels of a series hold at least the metric's name and the
// labels with the given names. Most series with the same values of these labels share their Labels.
func (x *Reader) SelectProjected(
	ctx context.Context, budget Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	q, ok := x.newQuery(ctx, budget, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	// The scan in memory has seen all series of a day that is compacted during the scan, as in SelectBy.
	if len(x.store.Closed.DaysBetween(presence.DayOf(q.from), presence.DayOf(q.to))) > 0 {
		return x.Select(ctx, budget, mintMs, maxtMs, matchers...)
	}
	p := newProjection(q, names)
	defer p.close()
	if err := q.scanActive(p.addRows); err != nil {
		return nil, err
	}
	out, err := p.series()
	if err != nil {
		return nil, err
	}
	if q.findClosed(); len(q.closed) > 0 || p.unordered() {
		return x.Select(ctx, budget, mintMs, maxtMs, matchers...)
	}
	return out, nil
}

// SelectBy is Select with a given rule for the choice between days and months.
func (x *Reader) SelectBy(
	ctx context.Context, budget Budget, months segment.MonthRule, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	q, ok := x.newQuery(ctx, budget, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	q.months = months
	c := newCollector(q)
	defer c.close()
	return c.run()
}

// run collects the matching series.
func (c *collector) run() ([]Series, error) {
	q, x := c.q, c.q.reader
	// If a day is compacted during the scan, either the scan has seen its series in memory, or findClosed finds the day. See
	// query.
	c.merging = len(x.store.Closed.DaysBetween(presence.DayOf(q.from), presence.DayOf(q.to))) > 0
	if err := q.scanActive(c.addActive); err != nil {
		return nil, err
	}
	q.findClosed()
	if len(q.closed) > 0 && !c.merging {
		c.close()
		c.merging, c.omitted = true, 0
		if err := q.scanActive(c.addActive); err != nil {
			return nil, err
		}
	}
	if err := q.forEachClosed(c.addSegment); err != nil {
		return nil, err
	}
	return c.finish()
}

// labelNamesLikely is the usual number of label names.
const labelNamesLikely = 50

// LabelNames returns the label names of the series that Select would find, sorted. A limit above 0 bounds their number.
func (x *Reader) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	q, ok := x.newQuery(ctx, nil, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	n := labelNameScan{q: q, names: make(map[string]bool, labelNamesLikely)}
	if err := n.run(); err != nil {
		return nil, err
	}
	return sortedKeys(n.names, limit), nil
}

// LabelValues returns the values of a label among the series that Select would find, sorted. A limit above 0 bounds their
// number.
func (x *Reader) LabelValues(
	ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	q, ok := x.newQuery(ctx, nil, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	s := labelValueScan{q: q, name: name}
	if err := s.run(); err != nil {
		return nil, err
	}
	if limit > 0 && len(s.values) > limit {
		s.values = s.values[:limit]
	}
	return s.values, nil
}

func sortedKeys(set map[string]bool, limit int) []string {
	out := make([]string, 0, len(set))
	for s := range set {
		out = append(out, s)
	}
	slices.Sort(out)
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out
}
