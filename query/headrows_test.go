package query_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// headRowWriter writes samples of a few series every 5 s, on time, late and again.
type headRowWriter struct {
	*rand.Rand
	*stack
	written []ingest.Sample
	nowMs   int64
}

// next writes the samples of the next scrape.
func (w *headRowWriter) next() {
	w.nowMs += 5_000
	w.clock.Store(w.nowMs)
	var request []ingest.Sample
	for i := range 9 {
		ts := w.nowMs
		if i%3 == 1 {
			ts -= w.Int64N(2_000)
		}
		ls := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i))
		request = append(request, ingest.Sample{Labels: ls, TsMs: ts, Value: float64(w.IntN(1000))})
	}
	if i := w.IntN(2000); i < 9 {
		request[i].TsMs -= w.Int64N(90 * 60_000) // late
	}
	w.write(request)
	w.written = append(w.written, request...)
}

// again rewrites a sample with another value: one of the newest, or any.
func (w *headRowWriter) again() {
	n := len(w.written)
	last := w.written[n-1-w.IntN(min(n, 9))]
	if w.IntN(50) == 0 {
		last = w.written[w.IntN(n)]
	}
	last.Value++
	w.write([]ingest.Sample{last})
}

// TestHeadRows sends the same queries with and without the row cache. During this time the hour is open, samples
// arrive late or again, and hours are flushed or deleted.
func TestHeadRows(t *testing.T) {
	w := &headRowWriter{Rand: newRandOf(t), nowMs: dataFrom}
	w.stack = openStackWith(t, vfs.NewMem(), stackOptions{clock: new(atomic.Int64)})
	defer func() { require.NoError(t, w.Close()) }()
	cached, plain := newQueryEngine(t, w.withRowCache(0), query.On), newQueryEngine(t, w.source, query.On)
	rows := int64(0)
	for range 200 {
		for range max(0, w.IntN(30)-10) {
			w.next()
		}
		switch w.IntN(20) {
		case 0:
			w.flush()
		case 1:
			fromMs := w.nowMs - w.Int64N(100*60_000)
			w.delete(fromMs, fromMs+w.Int64N(20*60_000), labels.MustNewMatcher(labels.MatchEqual, "i", fmt.Sprint(w.IntN(9))))
		case 2, 3, 4, 5, 6, 7, 8:
			for range min(len(w.written), 3) {
				w.again()
			}
		}
		for range 2 {
			text := []string{"sum_over_time", "rate", "max_over_time", "count_over_time"}[w.IntN(4)] +
				fmt.Sprintf("(m[%dm])", 10+w.IntN(60))
			r := query.InstantRequest{Query: text, TimeMs: w.nowMs, Params: query.Params{Explain: true}}
			if w.IntN(4) == 0 {
				r.TimeMs -= w.Int64N(30 * 60_000)
			}
			want, err := plain.Instant(t.Context(), r)
			require.NoError(t, err)
			got, err := cached.Instant(t.Context(), r)
			require.NoError(t, err)
			rows += got.Explain.Reading.RowsCached
			require.NoError(t, difference(responseOf(text, want, nil), responseOf(text, got, nil)), text)
		}
	}
	require.Greater(t, rows, int64(500), "rows are found again")
}

// TestHeadRowsDuringFlushes reads sums while samples arrive, some again with larger values, and are flushed. A sum never
// shrinks.
func TestHeadRowsDuringFlushes(t *testing.T) {
	const samples = 1800
	s := openStackWith(t, vfs.NewMem(), stackOptions{clock: new(atomic.Int64)})
	defer func() { require.NoError(t, s.Close()) }()
	s.clock.Store(dataFrom + samples*1000)
	e := newQueryEngine(t, s.withRowCache(0), query.On)
	sum := func() (sum, cached int64) {
		r := query.InstantRequest{
			Query: `sum_over_time(n[1h])`, TimeMs: dataFrom + samples*1000, Params: query.Params{Explain: true},
		}
		res, err := e.Instant(context.Background(), r)
		require.NoError(t, err)
		for _, p := range res.Value.(promengine.Vector) {
			sum += int64(p.F)
		}
		return sum, res.Explain.Reading.RowsCached
	}
	var (
		acknowledged atomic.Int64
		done         atomic.Bool
		wg           sync.WaitGroup
		found        atomic.Int64
	)
	for range 2 {
		wg.Go(func() {
			for !done.Load() && !t.Failed() {
				before := acknowledged.Load()
				got, cached := sum()
				found.Add(cached)
				if got < before {
					t.Errorf("the sum is %d, %d were acknowledged before", got, before)
				}
			}
		})
	}
	rng := newRandOf(t)
	values := make([]float64, samples)
	ls := labels.FromStrings("__name__", "n")
	for k := range samples {
		for _, at := range []int{k, rng.IntN(8 * samples)} {
			if at <= k {
				values[at]++
				s.write([]ingest.Sample{{Labels: ls, TsMs: dataFrom + int64(at)*1000, Value: values[at]}})
				acknowledged.Add(1)
			}
		}
		if rng.IntN(100) == 0 {
			s.flush()
		}
		if k%50 == 0 {
			sum() // at least one reader is as fast as the writer
		}
	}
	done.Store(true)
	wg.Wait()
	got, cached := sum()
	require.Equal(t, acknowledged.Load(), got)
	require.Positive(t, found.Load()+cached)
}
