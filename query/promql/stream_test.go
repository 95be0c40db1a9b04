package promql

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

// TestStreamsGiveAllSamplesInPieces reads random windows in pieces of a few days, the head beside the table.
func TestStreamsGiveAllSamplesInPieces(t *testing.T) {
	rng := newRand(t)
	pieces := 0
	for range 40 {
		w := randomWorld(t, rng,
			keyschema.Rule{Pattern: "m1", FromHour: base/keyschema.HourMs + rng.Int64N(72), Salts: 8, Promoted: []string{"zone"}})
		q := w.queryable(func(o *Options) { o.BatchRowsMax, o.Concurrency = 1+rng.IntN(150), 1+rng.IntN(3) })
		spans := Windows{FirstEndMs: base + rng.Int64N(day), StepMs: 1 + rng.Int64N(day), Steps: 1 + rng.IntN(8)}
		spans.RangeMs = 1 + rng.Int64N(day)
		session := q.Session()
		sel, err := session.Select(t.Context(), spans, all)
		require.NoError(t, err)
		got := make([]columns, sel.Len())
		for i := range sel.Batches() {
			pieces += readPieces(t, sel, i, got)
		}
		for i := range got {
			want := worldSeriesOf(w, sel.Labels(i)).truth(sel.window)
			require.Equal(t, spansOnly(spans, want), spansOnly(spans, got[i]), sel.Labels(i).String())
		}
		sel.Close()
		require.Zero(t, session.budget.bytes.Load())
		require.Zero(t, session.budget.series.Load())
	}
	require.Greater(t, pieces, 80)
}

// readPieces appends the pieces of a batch to the columns of its series; it returns how many there were.
func readPieces(t *testing.T, sel *Selection, i int, got []columns) (pieces int) {
	st, err := sel.Open(t.Context(), i)
	require.NoError(t, err)
	defer st.Close()
	last := int64(math.MinInt64)
	for ; st.More(); pieces++ {
		batch, err := st.Next(t.Context())
		require.NoError(t, err)
		require.Greater(t, batch.ToMs, last)
		for j, c := range batch.Columns {
			all := allOf(&c)
			tsMs := all.tsMs
			if n := len(tsMs); n > 0 {
				require.Greater(t, tsMs[0], last)
				require.LessOrEqual(t, tsMs[n-1], batch.ToMs)
			}
			to := &got[batch.First+j]
			to.tsMs, to.values = append(to.tsMs, tsMs...), append(to.values, all.values...)
		}
		last = batch.ToMs
		batch.Release()
	}
	require.Equal(t, sel.window.maxtMs, last)
	return pieces
}

func worldSeriesOf(w *world, ls labels.Labels) *worldSeries {
	for _, s := range w.series {
		if labels.Equal(s.labels, ls) {
			return s
		}
	}
	panic("unknown series")
}

// spansOnly is the samples within one of the windows: what lies between them may be read or not.
func spansOnly(w Windows, c columns) (out columns) {
	for i, ts := range c.tsMs {
		for k := range w.Steps {
			if end := w.FirstEndMs + int64(k)*w.StepMs; ts > end-w.RangeMs && ts <= end {
				out.tsMs, out.values = append(out.tsMs, ts), append(out.values, c.values[i])
				break
			}
		}
	}
	return out
}

// longWorld has one series of some days, a sample a minute, all in the table.
func longWorld(t testing.TB, days int64) (*world, *worldSeries) {
	w := newWorld(t)
	s := w.add(labels.FromStrings("__name__", "m"))
	for ts := base; ts < base+days*day; ts += 60_000 {
		s.table[ts] = float64(ts)
	}
	w.store(rand.New(rand.NewPCG(1, 1)))
	return w, s
}

// TestIteratorsHoldAPiece: however long a series is, its iterator has one piece of it in memory.
func TestIteratorsHoldAPiece(t *testing.T) {
	w, s := longWorld(t, 40)
	// A piece of 2 days is in memory twice for a moment.
	q := w.queryable(func(o *Options) { o.BatchRowsMax, o.BytesMax = 48, seriesBytes+2*2*1440*sampleBytes })
	querier, err := q.Querier(base, base+40*day)
	require.NoError(t, err)
	check(t, w, window{base, base + 40*day}, querier.Select(t.Context(), true, nil, all), true)
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
	require.Equal(t, s.truth(window{base, base}).tsMs[0], it.AtT(), "from the beginning")
	require.NoError(t, querier.Close())
	for it.Next() == chunkenc.ValFloat {
		require.Less(t, it.AtT(), base+3*day)
	}
	require.ErrorIs(t, it.Err(), errClosed, "the rest was not read before")
	it.(*iterator).release()
	requireNothingHeld(t, querier.(*querierType).reader)
}

// TestCancelBetweenPieces: the context of the query ends a stream.
func TestCancelBetweenPieces(t *testing.T) {
	w, _ := longWorld(t, 10)
	q := w.queryable(func(o *Options) { o.BatchRowsMax = 24 })
	sel, err := q.Session().Select(t.Context(), Windows{FirstEndMs: base + 10*day, Steps: 1, RangeMs: 10 * day}, all)
	require.NoError(t, err)
	defer sel.Close()
	ctx, cancel := context.WithCancel(t.Context())
	st, err := sel.Open(ctx, 0)
	require.NoError(t, err)
	defer st.Close()
	batch, err := st.Next(ctx)
	require.NoError(t, err)
	batch.Release()
	cancel()
	_, err = st.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
