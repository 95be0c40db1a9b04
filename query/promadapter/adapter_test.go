package promadapter

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
	"halite/query/budget"
	"halite/query/column"
	"halite/query/read"
	"halite/query/read/readtest"
	"halite/storage"
)

const base, day = readtest.Base, readtest.Day

var all = labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")

// drain reads a set. It returns the samples by the text of the labels.
func drain(set promstorage.SeriesSet) (map[string]column.Points, []labels.Labels, error) {
	out := map[string]column.Points{}
	var order []labels.Labels
	var it chunkenc.Iterator
	for set.Next() {
		var c column.Points
		s := set.At()
		it = s.Iterator(it)
		for it.Next() == chunkenc.ValFloat {
			ts, v := it.At()
			c.TsMs, c.Values = append(c.TsMs, ts), append(c.Values, v)
		}
		if err := it.Err(); err != nil {
			return nil, nil, err
		}
		out[s.Labels().String()] = c
		order = append(order, s.Labels())
	}
	return out, order, set.Err()
}

// check compares a set with the truth of the world. Without strict, the set may have empty series.
func check(t *testing.T, w *readtest.World, win column.TimeRange, set promstorage.SeriesSet, strict bool) {
	t.Helper()
	got, order, err := drain(set)
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(order, labels.Compare))
	for _, s := range w.Series {
		want := s.Truth(win)
		c, found := got[s.Labels.String()]
		if len(want.TsMs) == 0 {
			require.Empty(t, c.TsMs)
			if strict {
				require.False(t, found, "empty series")
			}
			continue
		}
		require.Equal(t, want, c, s.Labels.String())
	}
}

func TestSelectMergesHeadAndTable(t *testing.T) {
	rng := readtest.NewRand(t)
	hour := base / keyschema.HourMs
	for range 40 {
		w := readtest.RandomWorld(t, rng,
			keyschema.Rule{Pattern: "m1", FromHour: 0, Salts: 4},
			keyschema.Rule{Pattern: "m1", FromHour: hour + rng.Int64N(72), Salts: 32, Promoted: []string{"zone"}},
			keyschema.Rule{Pattern: "m2", FromHour: hour + 30, Salts: 8, Promoted: []string{"i"},
				Basis: keyschema.BasisPromoted},
		)
		q := adapterOf(w, func(o *read.Options) {
			o.BatchRowsMax, o.Concurrency = 1+rng.IntN(200), 1+rng.IntN(4)
		})
		win := column.TimeRange{MinMs: base + rng.Int64N(3*day), MaxMs: 0}
		win.MaxMs = win.MinMs + rng.Int64N(3*day)
		if c := w.Series[rng.IntN(len(w.Series))].Truth(column.TimeRange{MinMs: 0, MaxMs: math.MaxInt64}); rng.IntN(3) > 0 {
			// Both ends belong to the window.
			i := rng.IntN(len(c.TsMs))
			win = column.TimeRange{MinMs: c.TsMs[i], MaxMs: c.TsMs[i+rng.IntN(len(c.TsMs)-i)]}
		}
		sorted := rng.IntN(2) == 0
		querier, err := q.Querier(win.MinMs, win.MaxMs)
		require.NoError(t, err)
		check(t, w, win, querier.Select(t.Context(), sorted, nil, all), sorted)

		chunked, err := q.ChunkQuerier(win.MinMs, win.MaxMs)
		require.NoError(t, err)
		chunkSet := chunked.Select(t.Context(), true, nil, all)
		check(t, w, win, promstorage.NewSeriesSetFromChunkSeriesSet(chunkSet), true)
		require.NoError(t, chunked.Close())

		narrow := column.TimeRange{MinMs: win.MinMs + 1000, MaxMs: win.MaxMs - 1000}
		hints := &promstorage.SelectHints{Start: narrow.MinMs, End: narrow.MaxMs}
		check(t, w, narrow, querier.Select(t.Context(), sorted, hints, all), sorted)
		require.NoError(t, querier.Close())
	}
}

func TestRetentionAndTimeBounds(t *testing.T) {
	rng := readtest.NewRand(t)
	w := readtest.RandomWorld(t, rng)
	now := base + 2*day + 12345
	q := adapterOf(w, func(o *read.Options) {
		o.Retention, o.Now = keyschema.KeepFor(24*time.Hour), func() time.Time { return time.UnixMilli(now) }
	})
	querier, err := q.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	check(t, w, column.TimeRange{MinMs: now - day, MaxMs: math.MaxInt64}, querier.Select(t.Context(), true, nil, all), true)

	w.Reads = 0
	for _, win := range []column.TimeRange{{MinMs: -1000, MaxMs: -1}, {MinMs: 10, MaxMs: 9}, {MinMs: 0, MaxMs: now - day - 1}} {
		querier, err := q.Querier(win.MinMs, win.MaxMs)
		require.NoError(t, err)
		got, _, err := drain(querier.Select(t.Context(), false, nil, all))
		require.NoError(t, err)
		require.Empty(t, got)
		names, _, err := querier.LabelNames(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, names)
	}
	require.Zero(t, w.Reads)
}

func TestHints(t *testing.T) {
	w := readtest.RandomWorld(t, readtest.NewRand(t))
	q := adapterOf(w, nil)
	querier, err := q.Querier(base, base+5*day)
	require.NoError(t, err)
	hints := func() *promstorage.SelectHints {
		return &promstorage.SelectHints{Start: base, End: base + 5*day}
	}

	labelsOnly := hints()
	labelsOnly.Func = "series"
	w.HeadErr, w.FailRow, w.FailErr = errors.New("must not be read"), 1, errors.New("must not be read")
	got, _, err := drain(querier.Select(t.Context(), true, labelsOnly, all))
	require.NoError(t, err)
	require.Len(t, got, len(w.Series))

	limited := hints()
	limited.Func, limited.Limit = "series", 3
	_, order, err := drain(querier.Select(t.Context(), true, limited, all))
	require.NoError(t, err)
	require.Len(t, order, 3)
	require.Equal(t, w.Series[2].Labels, order[2])

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
	require.Equal(t, len(w.Series), seen)

	values, _, err := querier.LabelValues(t.Context(), "x", &promstorage.LabelHints{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"x", "limit", "2"}, values)
}

// TestFailuresFailTheQuery injects a fault at each possible place. The query fails and never returns an incomplete result.
func TestFailuresFailTheQuery(t *testing.T) {
	fault := errors.New("disk on fire")
	for name, inject := range map[string]func(*readtest.World){
		"head":      func(w *readtest.World) { w.HeadErr = fault },
		"first row": func(w *readtest.World) { w.FailRow, w.FailErr = 1, fault },
		"later row": func(w *readtest.World) { w.FailRow, w.FailErr = 5, fault },
		"close":     func(w *readtest.World) { w.CloseErr = fault },
		"bad cell":  func(w *readtest.World) { w.Rows[3].Cells[0].Value = []byte("no run"); fault = storage.ErrCorrupt },
		"bad qualifier": func(w *readtest.World) {
			w.Rows[3].Cells[0].Qualifier, fault = []byte("?"), storage.ErrCorrupt
		},
	} {
		t.Run(name, func(t *testing.T) {
			fault = errors.New("disk on fire")
			w := readtest.RandomWorld(t, readtest.NewRand(t))
			inject(w)
			for _, concurrency := range []int{1, 4} {
				q := adapterOf(w, func(o *read.Options) { o.Concurrency = concurrency })
				querier, err := q.Querier(base, base+5*day)
				require.NoError(t, err)
				for _, sorted := range []bool{false, true} {
					_, _, err = drain(querier.Select(t.Context(), sorted, nil, all))
					require.ErrorIs(t, err, fault)
					var known promengine.ErrStorage
					require.ErrorAs(t, err, &known, "so that Prometheus' API answers 500")
				}
				require.NoError(t, querier.Close())
				requireNothingHeld(t, querier)
			}
		})
	}
}

func requireNothingHeld(t *testing.T, q promstorage.Querier) {
	t.Helper()
	require.Zero(t, q.(*querier).session.Budget().Reserved())
}

// adapterOf returns a Queryable over a world.
func adapterOf(w *readtest.World, change func(*read.Options)) *Queryable {
	return New(w.Reader(change))
}

func TestLimits(t *testing.T) {
	w := readtest.RandomWorld(t, readtest.NewRand(t))
	total := 0
	for _, s := range w.Series {
		total += len(s.Truth(column.TimeRange{MinMs: 0, MaxMs: math.MaxInt64}).TsMs)
	}
	readAll := func(change func(*read.Options)) error {
		q := adapterOf(w, change)
		querier, err := q.Querier(0, math.MaxInt64)
		require.NoError(t, err)
		_, _, err = drain(querier.Select(t.Context(), false, nil, all))
		require.NoError(t, querier.Close())
		return err
	}
	for _, c := range []struct {
		change func(*read.Options)
		want   budget.LimitError
	}{
		{
			func(o *read.Options) { o.SeriesMax = len(w.Series) - 1 },
			budget.LimitError{Resource: budget.Series, Max: int64(len(w.Series) - 1)},
		},
		{
			func(o *read.Options) { o.BytesMax = int64(total) * column.SampleBytes },
			budget.LimitError{Resource: budget.Bytes, Max: int64(total) * column.SampleBytes},
		},
		{
			func(o *read.Options) { o.BytesMax = budget.SeriesBytes },
			budget.LimitError{Resource: budget.Bytes, Max: budget.SeriesBytes},
		},
	} {
		err := readAll(c.change)
		var limit *budget.LimitError
		require.ErrorAs(t, err, &limit)
		require.Equal(t, c.want, *limit)
		require.ErrorContains(t, err, fmt.Sprint(c.want.Max), "the error names the limit's value")
		var known promengine.ErrTooManySamples
		require.ErrorAs(t, err, &known)
	}
	// Only memory that is in use at once counts, so batches and slices need much less.
	require.NoError(t, readAll(func(o *read.Options) {
		o.BytesMax, o.BatchRowsMax, o.Concurrency = int64(len(w.Series))*budget.SeriesBytes+int64(total)*column.SampleBytes/2, 1, 1
	}))
}

func TestMemoryIsGivenBack(t *testing.T) {
	w := readtest.RandomWorld(t, readtest.NewRand(t))
	q := adapterOf(w, func(o *read.Options) { o.BatchRowsMax = 100 })
	querier, err := q.Querier(0, math.MaxInt64)
	require.NoError(t, err)
	set := querier.Select(t.Context(), false, nil, all)
	var held []chunkenc.Iterator
	for set.Next() {
		held = append(held, set.At().Iterator(nil))
	}
	require.NoError(t, set.Err())
	require.NoError(t, querier.Close())
	// Iterators in use keep their samples unchanged.
	for i, it := range held {
		want := w.Series[i].Truth(column.TimeRange{MinMs: 0, MaxMs: math.MaxInt64})
		for _, ts := range want.TsMs {
			require.Equal(t, chunkenc.ValFloat, it.Next())
			require.Equal(t, ts, it.AtT())
		}
		it.(*iterator).release()
	}
	requireNothingHeld(t, querier)
	require.ErrorIs(t, set.(*seriesSet).series[0].Iterator(nil).Err(), read.ErrClosed)
}

func TestCancelWithinABatch(t *testing.T) {
	w := readtest.NewWorld(t)
	s := w.Add(labels.FromStrings("__name__", "m"))
	for ts := base; ts < base+20*day; ts += keyschema.HourMs {
		s.Table[ts] = 1
	}
	w.Store(rand.New(rand.NewPCG(1, 1)))
	for _, concurrency := range []int{1, 3} {
		ctx, cancel := context.WithCancel(t.Context())
		rows := 0
		w.OnRow = func() {
			if rows++; rows == 30 {
				cancel()
			}
		}
		q := adapterOf(w, func(o *read.Options) { o.Concurrency = concurrency })
		querier, err := q.Querier(base, base+20*day)
		require.NoError(t, err)
		_, _, err = drain(querier.Select(ctx, false, nil, all))
		require.ErrorIs(t, err, context.Canceled)
		var storageErr *read.StorageError
		require.False(t, errors.As(err, &storageErr), "not the storage's fault")
		require.Less(t, rows, 200)
		require.NoError(t, querier.Close())
		requireNothingHeld(t, querier)
	}
}

func TestChunksAreSmall(t *testing.T) {
	w := readtest.NewWorld(t)
	s := w.Add(labels.FromStrings("__name__", "m"))
	for i := range int64(500) {
		s.Table[base+i*10_000] = float64(i)
	}
	w.Store(rand.New(rand.NewPCG(1, 1)))
	querier, err := adapterOf(w, nil).ChunkQuerier(base, base+day)
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

// TestIteratorsHoldAPiece: an iterator holds only one slice of a series, however long the series is.
func TestIteratorsHoldAPiece(t *testing.T) {
	w, s := readtest.LongWorld(t, 40)
	// A slice of 2 days is in memory twice for a moment.
	q := adapterOf(w, func(o *read.Options) { o.BatchRowsMax, o.BytesMax = 48, budget.SeriesBytes+2*2*1440*column.SampleBytes })
	querier, err := q.Querier(base, base+40*day)
	require.NoError(t, err)
	check(t, w, column.TimeRange{MinMs: base, MaxMs: base + 40*day}, querier.Select(t.Context(), true, nil, all), true)
	require.NoError(t, querier.Close())

	querier, err = q.Querier(base, base+40*day)
	require.NoError(t, err)
	set := querier.Select(t.Context(), false, nil, all)
	require.True(t, set.Next())
	it := set.At().Iterator(nil)
	for _, ts := range []int64{base, base + 100, base + 3*day, base + 3*day + 1, base + 39*day} {
		require.Equal(t, chunkenc.ValFloat, it.Seek(ts))
		require.Equal(t, (ts+59_999)/60_000*60_000, it.AtT())
	}
	require.Equal(t, chunkenc.ValNone, it.Seek(base+40*day))
	require.NoError(t, it.Err())
	it = set.At().Iterator(it)
	require.Equal(t, chunkenc.ValFloat, it.Next())
	require.Equal(t, s.Truth(column.TimeRange{MinMs: base, MaxMs: base}).TsMs[0], it.AtT(), "from the beginning")
	require.NoError(t, querier.Close())
	for it.Next() == chunkenc.ValFloat {
		require.Less(t, it.AtT(), base+3*day)
	}
	require.ErrorIs(t, it.Err(), read.ErrClosed, "the rest was not read before")
	it.(*iterator).release()
	requireNothingHeld(t, querier)
}
