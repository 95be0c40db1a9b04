package promql

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

// TestBlocksOfAnyDensity asks for random windows again and again, of series with samples so dense that a day, or a quarter,
// is too large for one entry, evenly spaced or not, with writes between. Nothing may be read twice while nothing changes.
func TestBlocksOfAnyDensity(t *testing.T) {
	rng := newRand(t)
	for _, stepMs := range []int64{2_000, 7_000, 60_000, 1_000_000} {
		w := newWorld(t)
		for i := range 2 {
			s := w.add(labels.FromStrings("__name__", "m", "i", string(rune('a'+i))))
			for ts := base; ts < base+2*day; ts += stepMs {
				if i == 0 || rng.IntN(2) == 0 {
					s.table[ts] = rng.Float64()
				}
			}
		}
		w.store(rand.New(rand.NewPCG(1, 1)))
		watch := NewRowWatch()
		q := w.queryable(func(o *Options) { o.Watch, o.RowCacheBytes = watch, 64<<20 })
		all := Windows{FirstEndMs: base + 2*day - 1, Steps: 1, RangeMs: 2 * day}
		rows := func(spans Windows) (read int64) {
			session := q.Session()
			sel, err := session.Select(t.Context(), spans, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
			require.NoError(t, err)
			defer sel.Close()
			got := make([]columns, sel.Len())
			for i := range sel.Batches() {
				readPieces(t, sel, i, got)
			}
			for i := range got {
				want := worldSeriesOf(w, sel.Labels(i)).truth(sel.window)
				require.Equal(t, spansOnly(spans, want), spansOnly(spans, got[i]), sel.Labels(i).String())
			}
			return session.Figures().Rows
		}
		require.Positive(t, rows(all))
		for round := range 8 {
			require.Zero(t, rows(all), "all is known")
			part := Windows{
				FirstEndMs: base + rng.Int64N(2*day), StepMs: 1 + rng.Int64N(day), Steps: 1 + rng.IntN(3), RangeMs: 1 + rng.Int64N(day),
			}
			require.Zero(t, rows(part), "a part of it")
			if round%4 == 3 {
				// A row is written anew: at most its day has to be read again.
				watch.hours.Change([]int64{keyschema.HourOf(base + rng.Int64N(2*day))})
				read := rows(all)
				require.Positive(t, read)
				require.LessOrEqual(t, read, int64(2*24))
			}
		}
	}
}
