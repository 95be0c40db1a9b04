package promql

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/index"
)

// world is a catalogue, a head and a data table held in maps.
type world struct {
	t      testing.TB
	schema *keyschema.Schema
	series []*worldSeries // sorted by labels

	mu   sync.Mutex
	rows []storage.Row // sorted by key

	reads    int // calls of ReadRows
	asked    []storage.RowRange
	failRow  int // the row whose read fails, from 1; 0 for none
	failErr  error
	closeErr error
	headErr  error
	onRow    func()
}

type worldSeries struct {
	labels labels.Labels
	ref    index.Ref
	head   map[int64]float64
	table  map[int64]float64
}

func newWorld(t testing.TB, rules ...keyschema.Rule) *world {
	schema, err := keyschema.NewSchema(rules)
	require.NoError(t, err)
	return &world{t: t, schema: schema}
}

func (w *world) add(ls labels.Labels) *worldSeries {
	s := &worldSeries{
		labels: ls, ref: index.Ref(len(w.series) + 1), head: map[int64]float64{}, table: map[int64]float64{},
	}
	w.series = append(w.series, s)
	slices.SortFunc(w.series, func(a, b *worldSeries) int { return labels.Compare(a.labels, b.labels) })
	return s
}

// truth is what a query of the window must give: the table with the head over it.
func (s *worldSeries) truth(win window) columns {
	all := map[int64]float64{}
	for ts, v := range s.table {
		all[ts] = v
	}
	for ts, v := range s.head {
		all[ts] = v
	}
	return sortedColumns(all, win)
}

// allOf copies the samples of a column.
func allOf(c *Column) (all columns) {
	for i := range len(c.More) + 1 {
		s := &c.Samples
		if i > 0 {
			s = &c.More[i-1]
		}
		all.tsMs = s.AppendTimes(all.tsMs, 0, s.Len())
		all.values = append(all.values, s.Values...)
	}
	return all
}

func sortedColumns(samples map[int64]float64, win window) columns {
	var c columns
	for ts := range samples {
		if ts >= win.mintMs && ts <= win.maxtMs {
			c.tsMs = append(c.tsMs, ts)
		}
	}
	slices.Sort(c.tsMs)
	for _, ts := range c.tsMs {
		c.values = append(c.values, samples[ts])
	}
	return c
}

// store writes the rows of the table: most hours as one run, some as two, some as single samples.
func (w *world) store(rng *rand.Rand) {
	for _, s := range w.series {
		hours := map[int64]map[int64]float64{}
		for ts, v := range s.table {
			hour := keyschema.HourOf(ts)
			if hours[hour] == nil {
				hours[hour] = map[int64]float64{}
			}
			hours[hour][ts] = v
		}
		metric, tags := split(s.labels, nil)
		for hour, samples := range hours {
			key := w.schema.RuleAt(metric, hour).AppendPrefix(nil, metric, tags)
			row := storage.Row{Key: keyschema.AppendHour(key, hour)}
			c := sortedColumns(samples, window{math.MinInt64, math.MaxInt64})
			cell := func(qualifier, value []byte) {
				row.Cells = append(row.Cells, storage.Cell{
					Family: storage.FamilySamples, Qualifier: qualifier, TsMs: keyschema.HourCellMs(hour), Value: value,
				})
			}
			packed := len(c.tsMs)
			if rng.IntN(3) == 0 {
				packed = rng.IntN(packed + 1)
			}
			if packed > 0 {
				start := keyschema.HourStartMs(hour)
				value, err := chunk.Append(nil, start, c.tsMs[:packed], c.values[:packed])
				require.NoError(w.t, err)
				cell(keyschema.AppendChunkQualifier(nil, 1), value)
			}
			for i := packed; i < len(c.tsMs); i++ {
				offset := uint32(c.tsMs[i] - keyschema.HourStartMs(hour))
				cell(keyschema.AppendSampleQualifier(nil, offset), chunk.AppendSampleValue(nil, c.values[i]))
			}
			w.rows = append(w.rows, row)
		}
	}
	slices.SortFunc(w.rows, func(a, b storage.Row) int { return bytes.Compare(a.Key, b.Key) })
}

func (w *world) options(now int64) Options {
	return Options{
		Catalogue: w, Head: w, Data: worldTable{world: w}, Schema: w.schema,
		Now: func() time.Time { return time.UnixMilli(now) },
	}
}

func (w *world) queryable(change func(*Options)) *Queryable {
	opts := w.options(0)
	if change != nil {
		change(&opts)
	}
	q, err := New(opts)
	require.NoError(w.t, err)
	return q
}

// Select implements Catalogue: spans of hours with samples, neighbours joined.
func (w *world) Select(_ context.Context, mint, maxt int64, matchers ...*labels.Matcher) ([]index.Series, error) {
	var out []index.Series
	for _, s := range w.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
			found := index.Series{Labels: s.labels, Ref: s.ref}
			all := s.truth(window{0, math.MaxInt64})
			for _, ts := range all.tsMs {
				hour := keyschema.HourOf(ts)
				if hour < keyschema.HourOf(mint) || hour > keyschema.HourOf(maxt) {
					continue
				}
				if n := len(found.Hours); n > 0 && found.Hours[n-1].Last >= hour-1 {
					found.Hours[n-1].Last = hour
				} else {
					found.Hours = append(found.Hours, index.HourSpan{First: hour, Last: hour})
				}
			}
			if len(found.Hours) > 0 {
				out = append(out, found)
			}
		}
	}
	return out, nil
}

func (w *world) LabelNames(context.Context, int64, int64, int, ...*labels.Matcher) ([]string, error) {
	return []string{"a", "b"}, nil
}

func (w *world) LabelValues(_ context.Context, name string, _, _ int64, limit int, _ ...*labels.Matcher,
) ([]string, error) {
	return []string{name, "limit", string(rune('0' + limit))}, nil
}

// AppendSamples implements Head.
func (w *world) AppendSamples(
	ref index.Ref, mint, maxt int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	if w.headErr != nil {
		return nil, nil, w.headErr
	}
	for _, s := range w.series {
		if s.ref == ref {
			c := sortedColumns(s.head, window{mint, maxt})
			return append(tsMs, c.tsMs...), append(values, c.values...), nil
		}
	}
	return tsMs, values, nil
}

// Holds implements Head.
func (w *world) Holds(mint, maxt int64) bool {
	return w.headErr != nil || slices.ContainsFunc(w.series, func(s *worldSeries) bool {
		return len(sortedColumns(s.head, window{mint, maxt}).tsMs) > 0
	})
}

// worldTable is the data table; calls that a reader has no use for are left to the nil interface.
type worldTable struct {
	storage.Table
	world *world
}

func (w worldTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	w.world.mu.Lock()
	defer w.world.mu.Unlock()
	w.world.reads++
	w.world.asked = append(w.world.asked, set.Ranges...)
	it := &worldIter{ctx: ctx, world: w.world}
	for _, row := range w.world.rows {
		inRange := slices.ContainsFunc(set.Ranges, func(r storage.RowRange) bool {
			return bytes.Compare(row.Key, r.Start) >= 0 && bytes.Compare(row.Key, r.End) < 0
		})
		ts := row.Cells[0].TsMs
		if inRange && ts >= opts.Filter.FromMs && ts < opts.Filter.ToMs {
			it.rows = append(it.rows, row)
		}
	}
	return it
}

type worldIter struct {
	ctx   context.Context
	world *world
	rows  []storage.Row
	at    int
	err   error
}

func (it *worldIter) Next() bool {
	it.world.mu.Lock()
	defer it.world.mu.Unlock()
	if it.at == len(it.rows) {
		return false
	}
	it.at++
	if it.world.onRow != nil {
		it.world.onRow()
	}
	if it.at == it.world.failRow {
		it.err = it.world.failErr
		return false
	}
	return true
}

func (it *worldIter) Row() storage.Row { return it.rows[it.at-1] }
func (it *worldIter) Err() error       { return it.err }
func (it *worldIter) Close() error     { return it.world.closeErr }
