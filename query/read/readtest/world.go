package readtest

import (
	"bytes"
	"context"
	"fmt"
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
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
	"halite/query/column"
	"halite/query/read"
	"halite/storage"
	"halite/storage/index"
)

// World is an index, a head and a data table held in maps.
type World struct {
	T      testing.TB
	Schema *keyschema.Schema
	Series []*Series // sorted by labels

	mu   sync.Mutex
	Rows []storage.Row // sorted by key

	Reads     int // calls of ReadRows
	Requested []storage.RowRange
	FailRow   int // the row whose read fails, from 1; 0 for none
	FailErr   error
	CloseErr  error
	HeadErr   error
	OnRow     func()
}

// Series is a series of a World, with the samples in the head and in the table.
type Series struct {
	Labels      labels.Labels
	Ref         index.Ref
	Head, Table map[int64]float64
}

// NewWorld returns an empty world.
func NewWorld(t testing.TB, rules ...keyschema.Rule) *World {
	schema, err := keyschema.NewSchema(rules)
	require.NoError(t, err)
	return &World{T: t, Schema: schema}
}

// Add adds a series without samples.
func (w *World) Add(ls labels.Labels) *Series {
	s := &Series{
		Labels: ls, Ref: index.Ref(len(w.Series) + 1), Head: map[int64]float64{}, Table: map[int64]float64{},
	}
	w.Series = append(w.Series, s)
	slices.SortFunc(w.Series, func(a, b *Series) int { return labels.Compare(a.Labels, b.Labels) })
	return s
}

// Truth returns the samples that a query of the window must return. At equal times the head wins over the table.
func (s *Series) Truth(win column.TimeRange) column.Points {
	all := map[int64]float64{}
	for ts, v := range s.Table {
		all[ts] = v
	}
	for ts, v := range s.Head {
		all[ts] = v
	}
	return Sorted(all, win)
}

// AllOf copies the samples of a column.
func AllOf(c *column.Column) (all column.Points) {
	for i := range len(c.Segments) + 1 {
		s := &c.Samples
		if i > 0 {
			s = &c.Segments[i-1]
		}
		all.TsMs = s.AppendTimes(all.TsMs, 0, s.Len())
		all.Values = append(all.Values, s.Values...)
	}
	return all
}

// Sorted returns samples within a range, ascending.
func Sorted(samples map[int64]float64, win column.TimeRange) column.Points {
	var c column.Points
	for ts := range samples {
		if ts >= win.MinMs && ts <= win.MaxMs {
			c.TsMs = append(c.TsMs, ts)
		}
	}
	slices.Sort(c.TsMs)
	for _, ts := range c.TsMs {
		c.Values = append(c.Values, samples[ts])
	}
	return c
}

// Store writes the rows of the table: most hours as one chunk, some as two, some as single samples.
func (w *World) Store(rng *rand.Rand) {
	for _, s := range w.Series {
		hours := map[int64]map[int64]float64{}
		for ts, v := range s.Table {
			hour := keyschema.HourOf(ts)
			if hours[hour] == nil {
				hours[hour] = map[int64]float64{}
			}
			hours[hour][ts] = v
		}
		metric, tags := SplitLabels(s.Labels)
		for hour, samples := range hours {
			key := w.Schema.RuleAt(metric, hour).AppendPrefix(nil, metric, tags)
			row := storage.Row{Key: keyschema.AppendHour(key, hour)}
			c := Sorted(samples, column.TimeRange{MinMs: math.MinInt64, MaxMs: math.MaxInt64})
			cell := func(qualifier, value []byte) {
				row.Cells = append(row.Cells, storage.Cell{
					Family: storage.FamilySamples, Qualifier: qualifier, TsMs: keyschema.HourCellMs(hour), Value: value,
				})
			}
			packed := len(c.TsMs)
			if rng.IntN(3) == 0 {
				packed = rng.IntN(packed + 1)
			}
			if packed > 0 {
				start := keyschema.HourStartMs(hour)
				value, err := chunk.Append(nil, start, c.TsMs[:packed], c.Values[:packed])
				require.NoError(w.T, err)
				cell(keyschema.AppendChunkQualifier(nil, 1), value)
			}
			for i := packed; i < len(c.TsMs); i++ {
				offset := uint32(c.TsMs[i] - keyschema.HourStartMs(hour))
				cell(keyschema.AppendSampleQualifier(nil, offset), chunk.AppendSampleValue(nil, c.Values[i]))
			}
			w.Rows = append(w.Rows, row)
		}
	}
	slices.SortFunc(w.Rows, func(a, b storage.Row) int { return bytes.Compare(a.Key, b.Key) })
}

// Options returns the options of a reader of the world. now is in milliseconds since 1970.
func (w *World) Options(now int64) read.Options {
	return read.Options{
		Index: w, Head: w, Data: worldTable{world: w}, Schema: w.Schema,
		Now: func() time.Time { return time.UnixMilli(now) },
	}
}

// Reader returns a reader of the world, with options that change modifies.
func (w *World) Reader(change func(*read.Options)) *read.Reader {
	opts := w.Options(0)
	if change != nil {
		change(&opts)
	}
	q, err := read.New(opts)
	require.NoError(w.T, err)
	return q
}

// SelectProjected implements read.Index. It returns all labels.
func (w *World) SelectProjected(
	ctx context.Context, budget index.Budget, _ []string, mint, maxt int64, matchers ...*labels.Matcher,
) ([]index.Series, error) {
	return w.Select(ctx, budget, mint, maxt, matchers...)
}

// SelectJoin implements read.Index. It omits no series.
func (w *World) SelectJoin(
	ctx context.Context, budget index.Budget, _ *index.JoinKeys, mint, maxt int64, matchers ...*labels.Matcher,
) ([]index.Series, int, error) {
	found, err := w.Select(ctx, budget, mint, maxt, matchers...)
	return found, 0, err
}

// Select implements read.Index. The spans of a series are its hours with samples.
func (w *World) Select(
	_ context.Context, _ index.Budget, mint, maxt int64, matchers ...*labels.Matcher,
) ([]index.Series, error) {
	var out []index.Series
	for _, s := range w.Series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels.Get(m.Name)) }) {
			found := index.Series{Labels: s.Labels, Ref: s.Ref}
			all := s.Truth(column.TimeRange{MinMs: 0, MaxMs: math.MaxInt64})
			for _, ts := range all.TsMs {
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

// LabelNames implements read.Index.
func (w *World) LabelNames(context.Context, int64, int64, int, ...*labels.Matcher) ([]string, error) {
	return []string{"a", "b"}, nil
}

// LabelValues implements read.Index.
func (w *World) LabelValues(_ context.Context, name string, _, _ int64, limit int, _ ...*labels.Matcher,
) ([]string, error) {
	return []string{name, "limit", string(rune('0' + limit))}, nil
}

// AppendBatch implements read.Head. If permitted, it omits all samples of an hour except the newest one.
func (w *World) AppendBatch(
	refs []uint32, window keyschema.SampleWindow, tsMs []int64, values []float64, ends []int,
) ([]int64, []float64, []int, error) {
	if w.HeadErr != nil {
		return nil, nil, nil, w.HeadErr
	}
	for i := range window.FromMs {
		window.FromMs[i] = -1
	}
	for _, ref := range refs {
		for _, s := range w.Series {
			if uint32(s.Ref) != ref || ref == 0 {
				continue
			}
			c := Sorted(s.Head, column.TimeRange{MinMs: window.MinMs, MaxMs: window.MaxMs})
			for i, ts := range c.TsMs {
				if window.NewestOnly && i+1 < len(c.TsMs) && keyschema.HourOf(c.TsMs[i+1]) == keyschema.HourOf(ts) {
					continue
				}
				tsMs, values = append(tsMs, ts), append(values, c.Values[i])
			}
		}
		ends = append(ends, len(tsMs))
	}
	return tsMs, values, ends, nil
}

// AppendStartTimes implements read.Head.
func (w *World) AppendStartTimes(
	_ index.Ref, _, _ int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	return tsMs, values, nil
}

// AppendHistograms implements read.Head.
func (w *World) AppendHistograms(_ index.Ref, _, _ int64, dst []histchunk.Sample) ([]histchunk.Sample, error) {
	return dst, nil
}

// AppendExemplars implements read.Head.
func (w *World) AppendExemplars(_ index.Ref, _, _ int64, dst []exemplar.Exemplar) ([]exemplar.Exemplar, error) {
	return dst, nil
}

// Holds implements read.Head.
func (w *World) Holds(mint, maxt int64) bool {
	return w.HeadErr != nil || slices.ContainsFunc(w.Series, func(s *Series) bool {
		return len(Sorted(s.Head, column.TimeRange{MinMs: mint, MaxMs: maxt}).TsMs) > 0
	})
}

// worldTable is the data table. It has only the methods that a reader calls.
type worldTable struct {
	storage.Table
	world *World
}

func (w worldTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	w.world.mu.Lock()
	defer w.world.mu.Unlock()
	w.world.Reads++
	w.world.Requested = append(w.world.Requested, set.Ranges...)
	it := &worldIter{ctx: ctx, world: w.world}
	for _, row := range w.world.Rows {
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
	world *World
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
	if it.world.OnRow != nil {
		it.world.OnRow()
	}
	if it.at == it.world.FailRow {
		it.err = it.world.FailErr
		return false
	}
	return true
}

func (it *worldIter) Row() storage.Row { return it.rows[it.at-1] }
func (it *worldIter) Err() error       { return it.err }
func (it *worldIter) Close() error     { return it.world.CloseErr }

// Day is a Day in ms.
const Day = keyschema.DayHours * keyschema.HourMs

// Base is the start of a Day.
const Base = int64(20_000) * Day

// RandomWorld returns a world of a few dozen series over several days. Each has samples in the table, the head or both.
func RandomWorld(t testing.TB, rng *rand.Rand, rules ...keyschema.Rule) *World {
	w := NewWorld(t, rules...)
	for i := range 10 + rng.IntN(30) {
		s := w.Add(labels.FromStrings("__name__", fmt.Sprintf("m%d", i%3), "i", fmt.Sprint(i), "zone", fmt.Sprint(i%2)))
		if rng.IntN(5) == 0 {
			s.Ref = 0
		}
		from := Base + rng.Int64N(2*Day)
		to := from + 1 + rng.Int64N(2*Day)
		for ts := from; ts < to; ts += 1 + rng.Int64N(20*60_000) {
			if rng.IntN(30) == 0 {
				ts += rng.Int64N(Day)
			}
			where := rng.IntN(5)
			if where > 0 || s.Ref == 0 {
				s.Table[ts] = rng.Float64()
			}
			if where < 2 && s.Ref != 0 {
				s.Head[ts] = rng.Float64()
			}
		}
	}
	w.Store(rng)
	return w
}

// SeriesOf returns the series with the labels.
func SeriesOf(w *World, ls labels.Labels) *Series {
	for _, s := range w.Series {
		if labels.Equal(s.Labels, ls) {
			return s
		}
	}
	panic("unknown series")
}

// LongWorld returns a world with one series of days days. It has a sample each minute, all in the table.
func LongWorld(t testing.TB, days int64) (*World, *Series) {
	w := NewWorld(t)
	s := w.Add(labels.FromStrings("__name__", "m"))
	for ts := Base; ts < Base+days*Day; ts += 60_000 {
		s.Table[ts] = float64(ts)
	}
	w.Store(rand.New(rand.NewPCG(1, 1)))
	return w, s
}

// NewRand returns a random generator. It prints the seed if the test fails.
func NewRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// SplitLabels splits labels into metric and tags.
func SplitLabels(ls labels.Labels) (metric string, tags []keyschema.Tag) {
	ls.Range(func(l labels.Label) {
		if l.Name == "__name__" {
			metric = l.Value
			return
		}
		tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
	})
	return metric, tags
}
