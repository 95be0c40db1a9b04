package query_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query/budget"
)

// textOf prints a sample with its start timestamp, without counter reset hints, which the reader sets.
func textOf(s ingest.Sample) string {
	switch {
	case s.H != nil:
		h := s.H.Copy()
		if h.CounterResetHint != histogram.GaugeType {
			h.CounterResetHint = 0
		}
		return fmt.Sprintf("%d int %x %v start %d", s.TsMs, math.Float64bits(h.Sum), h, s.StartMs)
	case s.FH != nil:
		h := s.FH.Copy()
		if h.CounterResetHint != histogram.GaugeType {
			h.CounterResetHint = 0
		}
		return fmt.Sprintf("%d float %x %v start %d", s.TsMs, math.Float64bits(h.Sum), h, s.StartMs)
	}
	return fmt.Sprintf("%d %x start %d", s.TsMs, math.Float64bits(s.Value), s.StartMs)
}

// samplesOf reads all series of a metric through the adapter, by Next, or with random calls of Seek.
func samplesOf(tb testing.TB, q promstorage.Queryable, metric string, fromMs, toMs int64, rng *rand.Rand) ([]string, error) {
	querier, err := q.Querier(fromMs, toMs)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, querier.Close()) }()
	var out []string
	var it chunkenc.Iterator
	set := querier.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", metric))
	for set.Next() {
		ls := set.At().Labels()
		it = set.At().Iterator(it)
		for kind := it.Next(); kind != chunkenc.ValNone; {
			s := ingest.Sample{TsMs: it.AtT(), StartMs: it.AtST()}
			switch kind {
			case chunkenc.ValFloat:
				_, s.Value = it.At()
			case chunkenc.ValHistogram:
				_, s.H = it.AtHistogram(nil)
			case chunkenc.ValFloatHistogram:
				_, s.FH = it.AtFloatHistogram(nil)
			}
			out = append(out, ls.Get("inst")+" "+textOf(s))
			if rng != nil && rng.IntN(3) == 0 {
				kind = it.Seek(s.TsMs + 1)
			} else {
				kind = it.Next()
			}
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	return out, set.Err()
}

// longSamples returns three days of two series with start timestamps, which alternate between integers, floats and float
// histograms.
func longSamples(rng *rand.Rand, fromMs int64) (list []ingest.Sample) {
	for inst := range 2 {
		source := histogramSource{Rand: rng, metric: "turns"}
		source.reset()
		for ts := fromMs; ts < fromMs+3*dayMs; ts += 300_000 {
			s := source.next()
			s.Labels, s.TsMs = labels.FromStrings("__name__", "turns", "inst", fmt.Sprint(inst)), ts
			if rng.IntN(2) == 0 {
				s.StartMs = ts - 1 - rng.Int64N(1000)
			}
			list = append(list, s)
		}
	}
	return list
}

// TestReadsWhatWasWritten compares reads of three days of histograms with the writes, bit for bit, also slice by slice. Some
// samples are late, rewritten, deleted or retired.
func TestReadsWhatWasWritten(t *testing.T) {
	rng := newRandOf(t)
	const fromMs = int64(20_000) * dayMs
	for _, mode := range flushModes {
		t.Run(string(mode), func(t *testing.T) {
			clock := new(atomic.Int64)
			clock.Store(fromMs + 4*dayMs)
			s := openStackWith(t, vfs.NewMem(), stackOptions{clock: clock, raw: 10 * 24 * time.Hour})
			defer func() { require.NoError(t, s.Close()) }()
			list := longSamples(rng, fromMs)
			// A later float with the same time does not hide a histogram.
			var hidden, first []ingest.Sample
			for _, l := range list {
				if (l.H != nil || l.FH != nil) && rng.IntN(20) == 0 {
					hidden = append(hidden, ingest.Sample{Labels: l.Labels, TsMs: l.TsMs, Value: 1, StartMs: l.StartMs})
				}
				if l.FH != nil && rng.IntN(20) == 0 {
					old := l
					old.FH = &histogram.FloatHistogram{Sum: 77}
					first = append(first, old)
				}
			}
			s.fill(slices.Concat(first, shuffled(rng, list), hidden), mode)
			small := s.options
			small.BatchRowsMax = 24 // one or two rows of histograms for each batch
			q, err := newSource(small)
			require.NoError(t, err)
			check := func(fromMs, toMs int64, deleted func(ts int64) bool) {
				t.Helper()
				var want []string
				for _, l := range list {
					if l.TsMs >= fromMs && l.TsMs <= toMs && !deleted(l.TsMs) {
						want = append(want, l.Labels.Get("inst")+" "+textOf(l))
					}
				}
				for _, from := range []promstorage.Queryable{s, q} {
					got, err := samplesOf(t, from, "turns", fromMs, toMs, rng)
					require.NoError(t, err)
					require.Equal(t, want, got)
				}
			}
			none := func(int64) bool { return false }
			check(0, math.MaxInt64, none)
			for range 5 {
				a := fromMs + rng.Int64N(3*dayMs)
				check(a, a+rng.Int64N(dayMs), none)
			}
			a := fromMs + rng.Int64N(2*dayMs)
			s.delete(a, a+hourMs*5, labels.MustNewMatcher(labels.MatchEqual, "__name__", "turns"))
			gone := func(ts int64) bool { return ts >= a && ts <= a+hourMs*5 }
			check(0, math.MaxInt64, gone)
			clock.Store(fromMs + 11*dayMs + 1)
			check(fromMs+dayMs+1, math.MaxInt64, gone)
			got, err := samplesOf(t, q, "turns", 0, math.MaxInt64, nil)
			require.NoError(t, err)
			all, err := samplesOf(t, s, "turns", fromMs+dayMs+1, math.MaxInt64, nil)
			require.NoError(t, err)
			require.Equal(t, all, got)
		})
	}
}

// TestHistogramsCountAsMemory: a query that holds too many histograms fails and releases its memory.
func TestHistogramsCountAsMemory(t *testing.T) {
	rng := newRandOf(t)
	for _, mode := range []flushMode{inHead, inTables} {
		s := newStack(t)
		s.fill(longSamples(rng, dataFrom), mode)
		limited := s.options
		limited.BytesMax = 100_000
		q, err := newSource(limited)
		require.NoError(t, err)
		_, err = samplesOf(t, q, "turns", 0, math.MaxInt64, nil)
		var limit *budget.LimitError
		require.ErrorAs(t, err, &limit)
		whole := s.Reader().Budget()
		_, err = samplesOf(t, s.Queryable.WithBudget(whole), "turns", 0, math.MaxInt64, nil)
		require.NoError(t, err)
		require.Greater(t, whole.Peak(), int64(150_000))
		whole.Close()
		if mode == inTables { // a long series is read slice by slice, and each slice is released
			sliced := s.options
			sliced.BatchRowsMax = 24
			q, err = newSource(sliced)
			require.NoError(t, err)
			held := q.Reader().Budget()
			_, err = samplesOf(t, q.WithBudget(held), "turns", 0, math.MaxInt64, nil)
			require.NoError(t, err)
			require.Less(t, held.Peak(), whole.Peak()/4)
			held.Close()
		}
		require.NoError(t, s.Close())
	}
}
