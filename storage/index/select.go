package index

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"
)

// HourSpan is a range of unix hours, both inclusive.
type HourSpan struct{ First, Last int64 }

// Series is one label set found by a query.
type Series struct {
	Labels labels.Labels
	// Ref is the series' number among the active ones, 0 if it is not active.
	Ref Ref
	// Hours are the spans in which the series has samples, or had some that were deleted: ascending, with gaps between
	// them, clipped to the query.
	Hours []HourSpan
}

// Select returns the series that match and were touched in an hour that overlaps [mintMs, maxtMs], both inclusive,
// sorted by labels, each label set once. Without matchers it returns all series of the window.
func (x *Index) Select(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]Series, error) {
	return x.selectBy(ctx, x.layout.months, mintMs, maxtMs, matchers...)
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
	c := collector{q: q, builder: labels.NewScratchBuilder(16)}
	// Closed days that come into being during the scan hold what the scan has seen in memory or, if it was late, what
	// findClosed finds: see query.
	c.merging = len(x.closed.between(dayOf(q.from), dayOf(q.to))) > 0
	if err := q.scanActive(c.active); err != nil {
		return nil, err
	}
	q.findClosed()
	if len(q.closed) > 0 && !c.merging {
		c = collector{q: q, builder: c.builder, merging: true}
		if err := q.scanActive(c.active); err != nil {
			return nil, err
		}
	}
	if err := q.eachClosed(false, func(s *segment) error { return q.scanSegment(s, c.closed) }); err != nil {
		return nil, err
	}
	return c.finish()
}

// collector gathers the rows that a query visits. If closed days are in the window it knows each series by a 128-bit
// hash of its labels, so that a label set found on many days is built once.
type collector struct {
	q       *query
	builder labels.ScratchBuilder
	merging bool
	index   map[xxh3.Uint128]int
	found   []found
	spans   []HourSpan // memory from which Hours are cut
	key     []byte
}

// found is a series, its labels not built yet if it is an active one without hours so far.
type found struct {
	Series
	v   *view
	row uint32
}

func (c *collector) active(v *view, rows []uint32) error {
	rows = v.sortRows(rows)
	var kept *view
	for i, row := range rows {
		if i%4096 == 4095 && c.q.ctx.Err() != nil {
			return c.q.ctx.Err()
		}
		ref := v.ref(row)
		if ref == 0 {
			continue // retired
		}
		hours := c.newSpans(func(s []HourSpan) []HourSpan { return c.q.activeHours(s, ref) })
		if !c.merging {
			if len(hours) > 0 {
				c.found = append(c.found, found{Series: Series{Labels: v.labels(row, &c.builder), Ref: ref, Hours: hours}})
			}
			continue
		}
		// Its hours may lie on closed days only; its ref is wanted all the same, for what the head still holds.
		if kept == nil {
			own := *v
			own.data = slices.Clone(v.data)
			kept = &own
		}
		f := c.entry(c.activeKey(v, row))
		f.Ref, f.v, f.row, f.Hours = ref, kept, row, hours
	}
	return nil
}

// sortRowsMin is the number of rows from which ranking whole dictionaries beats comparing strings at the end.
const sortRowsMin = 64

// sortRows puts rows of a table in the order of their labels, if they are many.
func (v *view) sortRows(rows []uint32) []uint32 {
	if len(rows) < sortRowsMin {
		return rows
	}
	columns := rankColumns{rows: len(rows)}
	for _, pos := range v.byName {
		d, data := v.columns[pos].dict, v.data[pos]
		if int(d.count.Load()) > 16*len(rows) {
			return rows
		}
		order := d.sorted()
		ranks := make([]uint32, len(rows))
		for i, row := range rows {
			ranks[i] = order.ranks[data.at(row)]
		}
		columns.names, columns.ranks = append(columns.names, d.name), append(columns.ranks, ranks)
	}
	order := columns.order()
	for i, n := range order {
		order[i] = rows[n]
	}
	return order
}

// newSpans runs fill on spare memory of the collector, so that most series need no allocation of their own.
func (c *collector) newSpans(fill func([]HourSpan) []HourSpan) []HourSpan {
	if cap(c.spans)-len(c.spans) < 32 {
		c.spans = make([]HourSpan, 0, 1024)
	}
	n := len(c.spans)
	out := fill(c.spans[n:n])
	if n+len(out) <= cap(c.spans) {
		c.spans = c.spans[:n+len(out)]
	}
	return slices.Clip(out)
}

// entry returns the series of a key, making it if it is new.
func (c *collector) entry(key xxh3.Uint128) *found {
	if c.index == nil {
		c.index = map[xxh3.Uint128]int{}
	}
	i, ok := c.index[key]
	if !ok {
		i = len(c.found)
		c.index[key] = i
		c.found = append(c.found, found{})
	}
	return &c.found[i]
}

func appendKeyed(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func (c *collector) activeKey(v *view, row uint32) xxh3.Uint128 {
	key := appendKeyed(c.key[:0], v.t.metric)
	for _, pos := range v.byName {
		if id := v.data[pos].at(row); id != 0 {
			d := v.columns[pos].dict
			key = appendKeyed(appendKeyed(key, d.name), d.value(id))
		}
	}
	c.key = key
	return xxh3.Hash128Seed(key, c.q.x.seed)
}

func (c *collector) closed(s *segment, b *block, rows []uint32) error {
	r, err := s.rowReader(c.q.ctx, b)
	if err != nil {
		return err
	}
	var hours []HourSpan // of the pattern that came last: most rows have the same
	last := uint32(1<<32 - 1)
	for i, row := range rows {
		if i%4096 == 4095 && c.q.ctx.Err() != nil {
			return c.q.ctx.Err()
		}
		n, err := b.patternNumber(row)
		if err != nil {
			return s.badHours(b, err)
		}
		if n != last {
			hours, last = b.pattern(n).appendSpans(hours[:0], s.of.of.firstDay(), &s.window), n
		}
		if len(hours) == 0 {
			continue
		}
		key, err := r.key(c.key[:0], row)
		if err != nil {
			return err
		}
		c.key = key
		f := c.entry(xxh3.Hash128Seed(key, c.q.x.seed))
		if f.v == nil && f.Labels.IsEmpty() {
			f.Labels = r.labels(&c.builder)
		}
		switch k := len(f.Hours) - 1; {
		case k < 0:
			f.Hours = c.newSpans(func(sp []HourSpan) []HourSpan { return append(sp, hours...) })
		case f.Hours[k].Last+1 == hours[0].First:
			f.Hours[k].Last = hours[0].Last
			f.Hours = append(f.Hours, hours[1:]...)
		default:
			f.Hours = append(f.Hours, hours...)
		}
	}
	return nil
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
	metrics, err := s.dict(ctx, metricName)
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
	r.current = append(r.current[:0], labels.Label{Name: metricName, Value: metric})
	dst = appendKeyed(dst, metric)
	for i := range r.dicts {
		id := r.b.columns[i].ids.at(row)
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
	for len(rest) > 0 && rest[0].Name < metricName {
		b.Add(rest[0].Name, rest[0].Value)
		rest = rest[1:]
	}
	b.Add(metricName, r.current[0].Value)
	for _, l := range rest {
		b.Add(l.Name, l.Value)
	}
	return b.Labels()
}

// finish builds what labels are missing, sorts, and drops series without hours.
func (c *collector) finish() ([]Series, error) {
	out := make([]Series, 0, len(c.found))
	for i := range c.found {
		f := &c.found[i]
		if len(f.Hours) == 0 {
			continue
		}
		if f.v != nil {
			f.Labels = f.v.labels(f.row, &c.builder)
		}
		f.Hours = normal(f.Hours)
		out = append(out, f.Series)
	}
	// Rows come sorted from each segment and from each table with many matches.
	out = mergeRuns(out, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return out, c.q.ctx.Err()
}

// normal sorts spans and joins those that overlap or touch, in place.
func normal(spans []HourSpan) []HourSpan {
	sorted := true
	for i := 1; i < len(spans) && sorted; i++ {
		sorted = spans[i].First > spans[i-1].Last+1
	}
	if sorted {
		return spans
	}
	slices.SortFunc(spans, func(a, b HourSpan) int { return int(a.First - b.First) })
	out := spans[:1]
	for _, s := range spans[1:] {
		if k := len(out) - 1; s.First <= out[k].Last+1 {
			out[k].Last = max(out[k].Last, s.Last)
			continue
		}
		out = append(out, s)
	}
	return out
}

// LabelNames returns the label names of the series that Select would find, sorted; a limit above 0 keeps that many.
func (x *Index) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	q, ok := x.newQuery(ctx, mintMs, maxtMs, matchers)
	if !ok {
		return nil, ctx.Err()
	}
	n := nameScan{q: q, names: map[string]bool{}}
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
