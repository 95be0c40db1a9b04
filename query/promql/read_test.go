package promql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
)

const day = keyschema.DayHours * keyschema.HourMs

// base is the start of a day.
const base = int64(20_000) * day

var all = labels.MustNewMatcher(labels.MatchRegexp, labelMetric, ".+")

// randomWorld has a few dozen series over some days, samples of each in the table, the head or both.
func randomWorld(t testing.TB, rng *rand.Rand, rules ...keyschema.Rule) *world {
	w := newWorld(t, rules...)
	for i := range 10 + rng.IntN(30) {
		s := w.add(labels.FromStrings("__name__", fmt.Sprintf("m%d", i%3), "i", fmt.Sprint(i), "zone", fmt.Sprint(i%2)))
		if rng.IntN(5) == 0 {
			s.ref = 0
		}
		from := base + rng.Int64N(2*day)
		to := from + 1 + rng.Int64N(2*day)
		for ts := from; ts < to; ts += 1 + rng.Int64N(20*60_000) {
			if rng.IntN(30) == 0 {
				ts += rng.Int64N(day)
			}
			where := rng.IntN(5)
			if where > 0 || s.ref == 0 {
				s.table[ts] = rng.Float64()
			}
			if where < 2 && s.ref != 0 {
				s.head[ts] = rng.Float64()
			}
		}
	}
	w.store(rng)
	return w
}

// drain reads a set into label string → columns.
func drain(set promstorage.SeriesSet) (map[string]columns, []labels.Labels, error) {
	out := map[string]columns{}
	var order []labels.Labels
	var it chunkenc.Iterator
	for set.Next() {
		var c columns
		s := set.At()
		it = s.Iterator(it)
		for it.Next() == chunkenc.ValFloat {
			ts, v := it.At()
			c.tsMs, c.values = append(c.tsMs, ts), append(c.values, v)
		}
		if err := it.Err(); err != nil {
			return nil, nil, err
		}
		out[s.Labels().String()] = c
		order = append(order, s.Labels())
	}
	return out, order, set.Err()
}

// check compares a set with the truth of the world; empty series may be there unless strict.
func check(t *testing.T, w *world, win window, set promstorage.SeriesSet, strict bool) {
	t.Helper()
	got, order, err := drain(set)
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(order, labels.Compare))
	for _, s := range w.series {
		want := s.truth(win)
		c, found := got[s.labels.String()]
		if len(want.tsMs) == 0 {
			require.Empty(t, c.tsMs)
			if strict {
				require.False(t, found, "empty series")
			}
			continue
		}
		require.Equal(t, want, c, s.labels.String())
	}
}

func TestSelectMergesHeadAndTable(t *testing.T) {
	rng := newRand(t)
	hour := base / keyschema.HourMs
	for range 40 {
		w := randomWorld(t, rng,
			keyschema.Rule{Pattern: "m1", FromHour: 0, Salts: 4},
			keyschema.Rule{Pattern: "m1", FromHour: hour + rng.Int64N(72), Salts: 32, Promoted: []string{"zone"}},
			keyschema.Rule{Pattern: "m2", FromHour: hour + 30, Salts: 8, Promoted: []string{"i"},
				Basis: keyschema.BasisPromoted},
		)
		q := w.queryable(func(o *Options) {
			o.BatchRowsMax, o.Concurrency = 1+rng.IntN(200), 1+rng.IntN(4)
		})
		win := window{base + rng.Int64N(3*day), 0}
		win.maxtMs = win.mintMs + rng.Int64N(3*day)
		if c := w.series[rng.IntN(len(w.series))].truth(window{0, math.MaxInt64}); rng.IntN(3) > 0 {
			// Both ends belong to the window.
			i := rng.IntN(len(c.tsMs))
			win = window{c.tsMs[i], c.tsMs[i+rng.IntN(len(c.tsMs)-i)]}
		}
		sorted := rng.IntN(2) == 0
		querier, err := q.Querier(win.mintMs, win.maxtMs)
		require.NoError(t, err)
		check(t, w, win, querier.Select(t.Context(), sorted, nil, all), sorted)

		chunked, err := q.ChunkQuerier(win.mintMs, win.maxtMs)
		require.NoError(t, err)
		chunkSet := chunked.Select(t.Context(), true, nil, all)
		check(t, w, win, promstorage.NewSeriesSetFromChunkSeriesSet(chunkSet), true)
		require.NoError(t, chunked.Close())

		narrow := window{win.mintMs + 1000, win.maxtMs - 1000}
		hints := &promstorage.SelectHints{Start: narrow.mintMs, End: narrow.maxtMs}
		check(t, w, narrow, querier.Select(t.Context(), sorted, hints, all), sorted)
		require.NoError(t, querier.Close())
	}
}

// TestOnlyHoursOfTheWindowAreRead also checks that ranges come sorted and apart.
func TestOnlyHoursOfTheWindowAreRead(t *testing.T) {
	w := newWorld(t)
	s := w.add(labels.FromStrings("__name__", "m", "a", "b"))
	for ts := base; ts < base+3*day; ts += 60_000 {
		s.table[ts] = 1
	}
	w.store(rand.New(rand.NewPCG(1, 1)))
	q := w.queryable(nil)
	win := window{base + 5*keyschema.HourMs + 10, base + 6*keyschema.HourMs + 10}
	sel, err := q.Select(t.Context(), win.mintMs, win.maxtMs, nil, all)
	require.NoError(t, err)
	batch, err := sel.Read(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, s.truth(win).tsMs, batch.Columns[0].TsMs)
	batch.Release()
	require.Equal(t, 1, w.reads)
	require.Len(t, w.asked, 1)
	metric, tags := split(s.labels, nil)
	prefix := w.schema.RuleAt(metric, 0).AppendPrefix(nil, metric, tags)
	start, end := keyschema.SeriesRange(prefix, keyschema.HourOf(win.mintMs), keyschema.HourOf(win.maxtMs))
	require.Equal(t, []storage.RowRange{{Start: start, End: end}}, w.asked)
}

func TestRetentionAndTimeBounds(t *testing.T) {
	rng := newRand(t)
	w := randomWorld(t, rng)
	now := base + 2*day + 12345
	q := w.queryable(func(o *Options) {
		o.Retention, o.Now = 24*time.Hour, func() time.Time { return time.UnixMilli(now) }
	})
	querier, err := q.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	check(t, w, window{now - day, math.MaxInt64}, querier.Select(t.Context(), true, nil, all), true)

	w.reads = 0
	for _, win := range []window{{-1000, -1}, {10, 9}, {0, now - day - 1}} {
		querier, err := q.Querier(win.mintMs, win.maxtMs)
		require.NoError(t, err)
		got, _, err := drain(querier.Select(t.Context(), false, nil, all))
		require.NoError(t, err)
		require.Empty(t, got)
		names, _, err := querier.LabelNames(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, names)
	}
	require.Zero(t, w.reads)
}

func TestHints(t *testing.T) {
	w := randomWorld(t, newRand(t))
	q := w.queryable(nil)
	querier, err := q.Querier(base, base+5*day)
	require.NoError(t, err)
	hints := func() *promstorage.SelectHints { return &promstorage.SelectHints{Start: base, End: base + 5*day} }

	labelsOnly := hints()
	labelsOnly.Func = "series"
	w.headErr, w.failRow, w.failErr = errors.New("must not be read"), 1, errors.New("must not be read")
	got, _, err := drain(querier.Select(t.Context(), true, labelsOnly, all))
	require.NoError(t, err)
	require.Len(t, got, len(w.series))

	limited := hints()
	limited.Func, limited.Limit = "series", 3
	_, order, err := drain(querier.Select(t.Context(), true, limited, all))
	require.NoError(t, err)
	require.Len(t, order, 3)
	require.Equal(t, w.series[2].labels, order[2])

	seen := 0
	for i := range uint64(3) {
		sharded := hints()
		sharded.Func, sharded.ShardCount, sharded.ShardIndex = "series", 3, i
		_, order, err := drain(querier.Select(t.Context(), true, sharded, all))
		require.NoError(t, err)
		seen += len(order)
		for _, ls := range order {
			require.Equal(t, i, labels.StableHash(ls)%3)
		}
	}
	require.Equal(t, len(w.series), seen)

	values, _, err := querier.LabelValues(t.Context(), "x", &promstorage.LabelHints{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"x", "limit", "2"}, values)
}

// TestFailuresFailTheQuery puts a fault in each place that can have one and wants an error, never a short answer.
func TestFailuresFailTheQuery(t *testing.T) {
	fault := errors.New("disk on fire")
	for name, inject := range map[string]func(*world){
		"head":      func(w *world) { w.headErr = fault },
		"first row": func(w *world) { w.failRow, w.failErr = 1, fault },
		"later row": func(w *world) { w.failRow, w.failErr = 5, fault },
		"close":     func(w *world) { w.closeErr = fault },
		"bad cell":  func(w *world) { w.rows[3].Cells[0].Value = []byte("no run"); fault = storage.ErrCorrupt },
		"bad qualifier": func(w *world) {
			w.rows[3].Cells[0].Qualifier, fault = []byte("?"), storage.ErrCorrupt
		},
	} {
		t.Run(name, func(t *testing.T) {
			fault = errors.New("disk on fire")
			w := randomWorld(t, newRand(t))
			inject(w)
			for _, concurrency := range []int{1, 4} {
				q := w.queryable(func(o *Options) { o.Concurrency = concurrency })
				querier, err := q.Querier(base, base+5*day)
				require.NoError(t, err)
				for _, sorted := range []bool{false, true} {
					_, _, err = drain(querier.Select(t.Context(), sorted, nil, all))
					require.ErrorIs(t, err, fault)
					var known promengine.ErrStorage
					require.ErrorAs(t, err, &known, "so that Prometheus' API answers 500")
				}
				require.NoError(t, querier.Close())
				requireNothingHeld(t, querier.(*querierType).reader)
			}
		})
	}
}

type querierType = querier

func requireNothingHeld(t *testing.T, r *reader) {
	t.Helper()
	require.Zero(t, r.budget.series.Load(), "series charged")
	require.Zero(t, r.budget.bytes.Load(), "bytes charged")
}

func TestRowOutsideTheRangesIsCorruption(t *testing.T) {
	owner := rowPrefix{prefix: []byte("m#01#a=b#")}
	for _, key := range []string{
		"m#01#a=b#", "m#01#a=b#999999", "m#01#a=b#99x9999", "m#01#a=b#99999999", "n#01#a=b#9999999",
	} {
		_, err := hourOf([]byte(key), owner.prefix)
		require.ErrorIs(t, err, errBadRowHour, key)
	}
	hour, err := hourOf([]byte("m#01#a=b#9999990"), owner.prefix)
	require.NoError(t, err)
	require.Equal(t, int64(9), hour)
}

func TestLimits(t *testing.T) {
	w := randomWorld(t, newRand(t))
	total := 0
	for _, s := range w.series {
		total += len(s.truth(window{0, math.MaxInt64}).tsMs)
	}
	read := func(change func(*Options)) error {
		q := w.queryable(change)
		querier, err := q.Querier(0, math.MaxInt64)
		require.NoError(t, err)
		_, _, err = drain(querier.Select(t.Context(), false, nil, all))
		require.NoError(t, querier.Close())
		return err
	}
	for _, c := range []struct {
		change func(*Options)
		want   LimitError
	}{
		{func(o *Options) { o.SeriesMax = len(w.series) - 1 }, LimitError{LimitSeries, int64(len(w.series) - 1)}},
		{func(o *Options) { o.BytesMax = int64(total) * sampleBytes }, LimitError{LimitBytes, int64(total) * sampleBytes}},
		{func(o *Options) { o.BytesMax = seriesBytes }, LimitError{LimitBytes, seriesBytes}},
	} {
		err := read(c.change)
		var limit *LimitError
		require.ErrorAs(t, err, &limit)
		require.Equal(t, c.want, *limit)
		require.ErrorContains(t, err, fmt.Sprint(c.want.Value), "the error names the limit's value")
		var known promengine.ErrTooManySamples
		require.ErrorAs(t, err, &known)
	}
	// What counts is what is held at once: batch by batch, and piece by piece, much less will do.
	require.NoError(t, read(func(o *Options) {
		o.BytesMax, o.BatchRowsMax, o.Concurrency = int64(len(w.series))*seriesBytes+int64(total)*sampleBytes/2, 1, 1
	}))
}

func TestMemoryIsGivenBack(t *testing.T) {
	w := randomWorld(t, newRand(t))
	q := w.queryable(func(o *Options) { o.BatchRowsMax = 100 })
	querier, err := q.Querier(0, math.MaxInt64)
	require.NoError(t, err)
	set := querier.Select(t.Context(), false, nil, all)
	var held []chunkenc.Iterator
	for set.Next() {
		held = append(held, set.At().Iterator(nil))
	}
	require.NoError(t, set.Err())
	require.NoError(t, querier.Close())
	// Iterators that are still about keep their samples, and keep them right.
	for i, it := range held {
		want := w.series[i].truth(window{0, math.MaxInt64})
		for _, ts := range want.tsMs {
			require.Equal(t, chunkenc.ValFloat, it.Next())
			require.Equal(t, ts, it.AtT())
		}
		it.(*iterator).release()
	}
	requireNothingHeld(t, querier.(*querierType).reader)
	require.ErrorIs(t, set.(*seriesSet).series[0].Iterator(nil).Err(), errClosed)
}

func TestCancelWithinABatch(t *testing.T) {
	w := newWorld(t)
	s := w.add(labels.FromStrings("__name__", "m"))
	for ts := base; ts < base+20*day; ts += keyschema.HourMs {
		s.table[ts] = 1
	}
	w.store(rand.New(rand.NewPCG(1, 1)))
	for _, concurrency := range []int{1, 3} {
		ctx, cancel := context.WithCancel(t.Context())
		rows := 0
		w.onRow = func() {
			if rows++; rows == 30 {
				cancel()
			}
		}
		q := w.queryable(func(o *Options) { o.Concurrency = concurrency })
		querier, err := q.Querier(base, base+20*day)
		require.NoError(t, err)
		_, _, err = drain(querier.Select(ctx, false, nil, all))
		require.ErrorIs(t, err, context.Canceled)
		var storageErr *StorageError
		require.False(t, errors.As(err, &storageErr), "not the storage's fault")
		require.Less(t, rows, 200)
		require.NoError(t, querier.Close())
		requireNothingHeld(t, querier.(*querierType).reader)
	}
}

func TestChunksAreSmall(t *testing.T) {
	w := newWorld(t)
	s := w.add(labels.FromStrings("__name__", "m"))
	for i := range int64(500) {
		s.table[base+i*10_000] = float64(i)
	}
	w.store(rand.New(rand.NewPCG(1, 1)))
	querier, err := w.queryable(nil).ChunkQuerier(base, base+day)
	require.NoError(t, err)
	set := querier.Select(t.Context(), true, nil, all)
	require.True(t, set.Next())
	it := set.At().Iterator(nil)
	var sizes []int
	last := int64(0)
	for it.Next() {
		meta := it.At()
		require.Greater(t, meta.MinTime, last)
		last = meta.MaxTime
		require.Equal(t, chunkenc.EncXOR, meta.Chunk.Encoding())
		sizes = append(sizes, meta.Chunk.NumSamples())
	}
	require.NoError(t, it.Err())
	require.Equal(t, []int{120, 120, 120, 120, 20}, sizes)
	require.False(t, set.Next())
	require.NoError(t, set.Err())
}

func TestOptionsValidate(t *testing.T) {
	_, err := New(Options{SeriesMax: -1})
	for _, want := range []string{"Catalogue", "Head", "Data", "Schema", "SeriesMax"} {
		require.ErrorContains(t, err, want)
	}
}
