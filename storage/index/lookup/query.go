package lookup

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/index/valueid"
)

// query is one look-up. A reader scans the active index first and the closed days afterwards. A compaction first installs
// the segment of a day and then clears the day's activity. So the query misses no series.
type query struct {
	reader         *Reader
	ctx            context.Context
	from, to       int64 // unix hours
	first          int64 // first retained hour of the current active metric, or later
	cutoffs        *keyschema.Cutoffs
	matchers       []matcher
	open           []*memory.OpenDay
	closed         []segment.MonthDays
	months         segment.MonthRule
	wholeDays      bool   // read a day from its month only if the window covers all its hours
	budget         Budget // may be nil
	unchargedBytes int64  // allocated bytes not yet charged
	work           Work
}

// newQuery clips the window to times that can exist; ok is false if the clipped window is empty.
func (x *Reader) newQuery(ctx context.Context, budget Budget, mintMs, maxtMs int64, ms []*labels.Matcher) (q *query, ok bool) {
	retention := x.opts.Retention.Snapshot()
	nowMs := x.opts.Now().UnixMilli()
	mintMs = max(mintMs, 0, retention.Longest().CutoffMs(nowMs))
	cutoffs := retention.Since(nowMs, mintMs)
	maxtMs = min(maxtMs, keyschema.HourCellMs(presence.LastHour(presence.DayMax)))
	if mintMs > maxtMs {
		return nil, false
	}
	q = &query{
		reader: x, ctx: ctx, from: keyschema.HourOf(mintMs), to: min(keyschema.HourOf(maxtMs), keyschema.HourMax),
		cutoffs: cutoffs, matchers: newMatchers(ms), months: x.store.Layout.Months,
	}
	q.first = q.from
	q.budget = budget
	q.open = x.open.Between(presence.DayOf(q.from), presence.DayOf(q.to))
	return q, q.from <= q.to
}

// findClosed determines the closed days of the window. The caller calls it after the scan of the active index.
func (q *query) findClosed() {
	q.closed = q.reader.store.Closed.ByMonth(presence.DayOf(q.from), presence.DayOf(q.to))
}

// activeHours appends the spans in which the series was active on open days.
func (q *query) activeHours(spans []presence.Span, ref memory.Ref) []presence.Span {
	for _, d := range q.open {
		spans = presence.AppendSpans(spans, d.Day, d.Hours(ref)&presence.HoursWithin(d.Day, q.first, q.to))
	}
	return spans
}

// onlyDay is the only open day of the window, or nil if the number of open days is not one.
func (q *query) onlyDay() *memory.OpenDay {
	if len(q.open) != 1 {
		return nil
	}
	return q.open[0]
}

// touched reports whether activeHours would append a span.
func (q *query) touched(ref memory.Ref) bool {
	for _, d := range q.open {
		if d.Hours(ref)&presence.HoursWithin(d.Day, q.first, q.to) != 0 {
			return true
		}
	}
	return false
}

// scanScratch is memory that scans of the active index reuse.
type scanScratch struct {
	v    memory.View
	rows []uint32
	all  []uint32 // 0, 1, 2 and so on
}

// upTo returns the rows below n. Scans share the slice.
func (s *scanScratch) upTo(n uint32) []uint32 {
	s.all = valueid.AppendRange(s.all, uint32(len(s.all)), n)
	return s.all[:n:n]
}

var scanPool = sync.Pool{New: func() any { return new(scanScratch) }}

// scanActive calls visit with the matching rows of each metric, in the order of metrics. It does not check hours. scanActive
// reuses the view and the rows. visit must not change a list of SortRowsMin or more rows.
func (q *query) scanActive(visit func(v *memory.View, rows []uint32) error) error {
	var one [1]*memory.Table
	var tables []*memory.Table
	if metric, ok := metricNamed(q.matchers); !ok {
		tables = q.reader.active.Tables()
	} else if one[0] = q.reader.active.Table(metric); one[0] != nil {
		tables = one[:]
	}
	scratch := scanPool.Get().(*scanScratch)
	defer scanPool.Put(scratch)
	v := &scratch.v
	for i, t := range tables {
		if i%256 == 255 && q.ctx.Err() != nil {
			return q.ctx.Err()
		}
		if !matchMetric(q.matchers, t.Metric) {
			continue
		}
		v.Load(t)
		q.first = q.firstRetainedHour(t.Metric)
		q.work.Metrics++
		q.work.Tested += int64(v.Rows)
		rows, err := q.activeRows(scratch)
		if err != nil {
			return err
		}
		q.work.Matched += int64(len(rows))
		if len(rows) > 0 {
			if err := visit(v, rows); err != nil {
				return err
			}
		}
	}
	return q.ctx.Err()
}

// activeRows returns the rows of the current table that match, ascending.
func (q *query) activeRows(scratch *scanScratch) ([]uint32, error) {
	v, rows := &scratch.v, scratch.rows[:0]
	type columnSet struct {
		data   *memory.ColumnData
		set    *valueid.Set
		values int // of the dictionary
	}
	var sets []columnSet
	for i := range q.matchers {
		m := &q.matchers[i]
		if m.metric {
			continue
		}
		pos := v.Find(m.Name)
		if pos < 0 {
			if !m.absent {
				return rows, nil
			}
			continue
		}
		set, err := q.activeSet(m, v.Columns[pos].Dict)
		if err != nil {
			return rows, err
		}
		if set.Empty() {
			return rows, nil
		}
		if values := int(v.Columns[pos].Dict.Len()); !set.Has(0) || set.Count < values {
			sets = append(sets, columnSet{v.Data[pos], set, values})
		}
	}
	if len(sets) == 0 && v.Rows >= memory.SortRowsMin {
		return scratch.upTo(v.Rows), nil
	}
	defer func() { scratch.rows = rows }()
	if len(sets) == 0 {
		rows = valueid.AppendRange(rows, 0, v.Rows)
		return rows, nil
	}
	// The first set should keep the smallest share of the rows.
	slices.SortStableFunc(sets, func(a, b columnSet) int { return cmp.Compare(a.set.Count*b.values, b.set.Count*a.values) })
	rows = sets[0].data.Filter(rows, 0, v.Rows, sets[0].set)
	for _, s := range sets[1:] {
		rows = s.data.Keep(rows, s.set)
	}
	return rows, nil
}

// activeSet returns the values of a dictionary that a matcher accepts. All tables share a dictionary, except while new
// dictionaries replace the old ones, table by table.
func (q *query) activeSet(m *matcher, d *memory.Dictionary) (*valueid.Set, error) {
	if m.dict == d {
		return m.set, nil
	}
	set, err := matchActive(q.ctx, m, d, &q.work)
	if err != nil {
		return nil, err
	}
	m.dict, m.set = d, set
	return set, nil
}
