package index

import (
	"context"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/memory"
	"halite/storage/index/presence"
)

// Series is one label set found by a query.
type Series struct {
	Labels labels.Labels
	// Ref is the series' number among the active ones, 0 if it is not active.
	Ref memory.Ref
	// Group, if not 0, says that Labels are those that SelectPart was asked for: it is a number, up to that of all series, which
	// series of equal Labels mostly share and others never do.
	Group uint32
	// Hours are the spans in which the series has samples: ascending, with gaps between them, clipped to the query. They
	// are only to be read.
	Hours []presence.Span

	v   *memory.View // where all labels are, if Labels are not
	row uint32
}

// AllLabels are those of the series whatever was asked for.
func (s *Series) AllLabels(b *labels.ScratchBuilder) labels.Labels {
	if s.v == nil {
		return s.Labels
	}
	return s.v.Labels(s.row, b)
}

// Select returns the series that match and were touched in an hour that overlaps [mintMs, maxtMs], both inclusive,
// sorted by labels, each label set once. Without matchers it returns all series of the window.
func (x *Index) Select(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]Series, error) {
	return x.selectBy(ctx, x.layout.months, mintMs, maxtMs, matchers...)
}

// SelectPart is Select for those who need few labels. The Labels of a series hold at least its metric's name and those of the
// names, and are mostly shared by all series that have them in common.
func (x *Index) SelectPart(
	ctx context.Context, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	q, ok := x.newQuery(ctx, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	// Closed days that come into being during the scan hold what the scan has seen in memory, as in selectBy.
	if len(x.closed.between(presence.DayOf(q.from), presence.DayOf(q.to))) > 0 {
		return x.Select(ctx, mintMs, maxtMs, matchers...)
	}
	p := newProjection(q, names)
	defer p.close()
	if err := q.scanActive(p.take); err != nil {
		return nil, err
	}
	out, err := p.series()
	if err != nil {
		return nil, err
	}
	if q.findClosed(); len(q.closed) > 0 || p.unordered() {
		return x.Select(ctx, mintMs, maxtMs, matchers...)
	}
	return out, nil
}

// selectBy is Select with a rule of its own for the choice between days and months.
func (x *Index) selectBy(
	ctx context.Context, months monthRule, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]Series, error) {
	q, ok := x.newQuery(ctx, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	q.months = months
	c := newCollector(q)
	defer c.close()
	return c.run()
}

// run visits all that matches.
func (c *collector) run() ([]Series, error) {
	q, x := c.q, c.q.x
	// Closed days that come into being during the scan hold what the scan has seen in memory or, if it was late, what
	// findClosed finds: see query.
	c.merging = len(x.closed.between(presence.DayOf(q.from), presence.DayOf(q.to))) > 0
	if err := q.scanActive(c.active); err != nil {
		return nil, err
	}
	q.findClosed()
	if len(q.closed) > 0 && !c.merging {
		c.close()
		c.merging, c.left = true, 0
		if err := q.scanActive(c.active); err != nil {
			return nil, err
		}
	}
	if err := q.eachClosed(false, c.segment); err != nil {
		return nil, err
	}
	return c.finish()
}

// rowReader reads the labels of one row after another of a block.
type rowReader struct {
	ctx     context.Context
	b       *block
	metrics *segmentDict
	dicts   []*segmentDict // of b.columns
	names   []string
	current []labels.Label // of the row read last, the metric's name first
}

func (s *segment) rowReader(ctx context.Context, b *block) (*rowReader, error) {
	metrics, err := s.dict(ctx, model.MetricNameLabel)
	if err != nil {
		return nil, err
	}
	r := &rowReader{ctx: ctx, b: b, metrics: metrics}
	for i := range b.columns {
		name := s.root.names[b.columns[i].name]
		d, err := s.dict(ctx, name)
		if err != nil {
			return nil, err
		}
		r.dicts, r.names = append(r.dicts, d), append(r.names, name)
	}
	return r, nil
}

// key reads a row and appends what identifies its label set.
func (r *rowReader) key(dst []byte, row uint32) ([]byte, error) {
	i, _ := slices.BinarySearchFunc(r.b.metrics, row+1, func(m metricRows, row uint32) int {
		return int(int64(m.from) - int64(row))
	})
	metric, err := r.metrics.value(r.ctx, r.b.metrics[i-1].metric)
	if err != nil {
		return dst, err
	}
	r.current = append(r.current[:0], labels.Label{Name: model.MetricNameLabel, Value: metric})
	dst = appendKeyed(dst, metric)
	for i := range r.dicts {
		id := r.b.columns[i].ids.At(row)
		if id == 0 {
			continue
		}
		value, err := r.dicts[i].value(r.ctx, id)
		if err != nil {
			return dst, err
		}
		r.current = append(r.current, labels.Label{Name: r.names[i], Value: value})
		dst = appendKeyed(appendKeyed(dst, r.names[i]), value)
	}
	return dst, nil
}

// labels builds the label set of the row read last.
func (r *rowReader) labels(b *labels.ScratchBuilder) labels.Labels {
	b.Reset()
	rest := r.current[1:]
	for len(rest) > 0 && rest[0].Name < model.MetricNameLabel {
		b.Add(rest[0].Name, rest[0].Value)
		rest = rest[1:]
	}
	b.Add(model.MetricNameLabel, r.current[0].Value)
	for _, l := range rest {
		b.Add(l.Name, l.Value)
	}
	return b.Labels()
}

// labelNamesLikely is how many label names there mostly are.
const labelNamesLikely = 50

// LabelNames returns the label names of the series that Select would find, sorted; a limit above 0 keeps that many.
func (x *Index) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	q, ok := x.newQuery(ctx, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	n := nameScan{q: q, names: make(map[string]bool, labelNamesLikely)}
	if err := n.run(); err != nil {
		return nil, err
	}
	return sortedKeys(n.names, limit), nil
}

// LabelValues returns the values of a label among the series that Select would find, sorted; a limit above 0 keeps that
// many.
func (x *Index) LabelValues(
	ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	q, ok := x.newQuery(ctx, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	s := valueScan{q: q, name: name}
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
