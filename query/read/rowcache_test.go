package read_test

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/query/column"
	"halite/query/read"
	"halite/query/read/readtest"
	"halite/query/rowcache"
)

// TestBlocksOfAnyDensity repeats random queries with writes between them. Some samples are evenly spaced. Some are so dense
// that a day or a quarter of a day is too large for an entry. No row is read twice unless a write changes it.
func TestBlocksOfAnyDensity(t *testing.T) {
	rng := readtest.NewRand(t)
	for _, stepMs := range []int64{2_000, 7_000, 60_000, 1_000_000} {
		if testing.Short() && stepMs < 60_000 {
			continue // single-threaded and large
		}
		w := readtest.NewWorld(t)
		for i := range 2 {
			s := w.Add(labels.FromStrings("__name__", "m", "i", string(rune('a'+i))))
			for ts := base; ts < base+2*day; ts += stepMs {
				if i == 0 || rng.IntN(2) == 0 {
					s.Table[ts] = rng.Float64()
				}
			}
		}
		w.Store(rand.New(rand.NewPCG(1, 1)))
		watch := rowcache.NewWatch()
		cache, err := rowcache.New(rowcache.Options{Watch: watch, BytesMax: 64 << 20})
		require.NoError(t, err)
		q := w.Reader(func(o *read.Options) { o.Cache = cache })
		all := read.Windows{FirstEndMs: base + 2*day - 1, Steps: 1, RangeMs: 2 * day}
		rows := func(spans read.Windows) (read int64) {
			session := q.Session()
			sel, err := session.Select(t.Context(), spans, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
			require.NoError(t, err)
			defer sel.Close()
			got := make([]column.Points, sel.Len())
			for i := range sel.Batches() {
				readPieces(t, sel, i, got, spans.Bounds().MaxMs)
			}
			for i := range got {
				want := readtest.SeriesOf(w, sel.Labels(i)).Truth(spans.Bounds())
				require.Equal(t, spansOnly(spans, want), spansOnly(spans, got[i]), sel.Labels(i).String())
			}
			return session.Figures().Rows
		}
		require.Positive(t, rows(all))
		for round := range 8 {
			require.Zero(t, rows(all), "all is known")
			part := read.Windows{
				FirstEndMs: base + rng.Int64N(2*day), StepMs: 1 + rng.Int64N(day), Steps: 1 + rng.IntN(3), RangeMs: 1 + rng.Int64N(day),
			}
			require.Zero(t, rows(part), "a part of it")
			if round%4 == 3 {
				// After another write of a row, at most its day is read again.
				writtenMs := base + rng.Int64N(2*day)
				require.NoError(t, watch.During(writtenMs, writtenMs, func() error { return nil }))
				read := rows(all)
				require.Positive(t, read)
				require.LessOrEqual(t, read, int64(2*24))
			}
		}
	}
}
