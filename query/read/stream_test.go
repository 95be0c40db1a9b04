package read_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/read"
	"halite/query/read/readtest"
	"halite/storage"
)

// TestStreamsGiveAllSamplesInPieces reads random windows in slices of a few days, from head and table.
func TestStreamsGiveAllSamplesInPieces(t *testing.T) {
	rng := readtest.NewRand(t)
	pieces := 0
	for range 40 {
		w := readtest.RandomWorld(t, rng,
			keyschema.Rule{Pattern: "m1", FromHour: base/keyschema.HourMs + rng.Int64N(72), Salts: 8, Promoted: []string{"zone"}})
		q := w.Reader(func(o *read.Options) { o.BatchRowsMax, o.Concurrency = 1+rng.IntN(150), 1+rng.IntN(3) })
		spans := read.Windows{FirstEndMs: base + rng.Int64N(day), StepMs: 1 + rng.Int64N(day), Steps: 1 + rng.IntN(8)}
		spans.RangeMs = 1 + rng.Int64N(day)
		session := q.Session()
		sel, err := session.Select(t.Context(), spans, all)
		require.NoError(t, err)
		got := make([]column.Points, sel.Len())
		for i := range sel.Batches() {
			pieces += readPieces(t, sel, i, got, spans.Bounds().MaxMs)
		}
		for i := range got {
			want := readtest.SeriesOf(w, sel.Labels(i)).Truth(spans.Bounds())
			require.Equal(t, spansOnly(spans, want), spansOnly(spans, got[i]), sel.Labels(i).String())
		}
		sel.Close()
		require.Zero(t, session.Budget().Reserved())
		require.Zero(t, session.Budget().Reserved())
	}
	require.Greater(t, pieces, 80)
}

// readPieces appends the slices of a batch to the columns of its series. It returns the number of slices.
func readPieces(t *testing.T, sel *read.Selection, i int, got []column.Points, endMs int64) (pieces int) {
	st, err := sel.Open(t.Context(), i)
	require.NoError(t, err)
	defer st.Close()
	last := int64(math.MinInt64)
	for ; st.More(); pieces++ {
		batch, err := st.Next(t.Context())
		require.NoError(t, err)
		require.Greater(t, batch.ToMs, last)
		for j, c := range batch.Columns {
			all := readtest.AllOf(&c)
			tsMs := all.TsMs
			if n := len(tsMs); n > 0 {
				require.Greater(t, tsMs[0], last)
				require.LessOrEqual(t, tsMs[n-1], batch.ToMs)
			}
			to := &got[batch.First+j]
			to.TsMs, to.Values = append(to.TsMs, tsMs...), append(to.Values, all.Values...)
		}
		last = batch.ToMs
		batch.Release()
	}
	require.Equal(t, endMs, last)
	return pieces
}

// spansOnly returns the samples within the windows. A read may also return samples between windows.
func spansOnly(w read.Windows, c column.Points) (out column.Points) {
	for i, ts := range c.TsMs {
		for k := range w.Steps {
			if end := w.FirstEndMs + int64(k)*w.StepMs; ts > end-w.RangeMs && ts <= end {
				out.TsMs, out.Values = append(out.TsMs, ts), append(out.Values, c.Values[i])
				break
			}
		}
	}
	return out
}

// TestCancelBetweenPieces: the context of the query ends a stream.
func TestCancelBetweenPieces(t *testing.T) {
	w, _ := readtest.LongWorld(t, 10)
	q := w.Reader(func(o *read.Options) { o.BatchRowsMax = 24 })
	sel, err := q.Session().Select(t.Context(), read.Windows{FirstEndMs: base + 10*day, Steps: 1, RangeMs: 10 * day}, all)
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

const base, day = readtest.Base, readtest.Day

var all = labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")

// TestOnlyHoursOfTheWindowAreRead also checks that the row ranges are sorted and disjoint.
func TestOnlyHoursOfTheWindowAreRead(t *testing.T) {
	w := readtest.NewWorld(t)
	s := w.Add(labels.FromStrings("__name__", "m", "a", "b"))
	for ts := base; ts < base+3*day; ts += 60_000 {
		s.Table[ts] = 1
	}
	w.Store(rand.New(rand.NewPCG(1, 1)))
	q := w.Reader(nil)
	win := column.TimeRange{MinMs: base + 5*keyschema.HourMs + 10, MaxMs: base + 6*keyschema.HourMs + 10}
	sel, err := q.Session().SelectRange(t.Context(), read.Range{TimeRange: win}, all)
	require.NoError(t, err)
	batch, err := sel.Read(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, s.Truth(win).TsMs, batch.Columns[0].TsMs)
	batch.Release()
	require.Equal(t, 1, w.Reads)
	require.Len(t, w.Requested, 1)
	metric, tags := readtest.SplitLabels(s.Labels)
	prefix := w.Schema.RuleAt(metric, 0).AppendPrefix(nil, metric, tags)
	start, end := keyschema.SeriesRange(prefix, keyschema.HourOf(win.MinMs), keyschema.HourOf(win.MaxMs))
	require.Equal(t, []storage.RowRange{{Start: start, End: end}}, w.Requested)
}

func TestOptionsValidate(t *testing.T) {
	_, err := read.New(read.Options{SeriesMax: -1})
	for _, want := range []string{"Index", "Head", "Data", "Schema", "SeriesMax"} {
		require.ErrorContains(t, err, want)
	}
}
