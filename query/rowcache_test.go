package query_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/storage"
)

// withRowCache returns a Queryable over the same data with a row cache.
func (s *stack) withRowCache(bytes int64) *source {
	options := s.options
	options.Watch, options.RowCacheBytes = s.watch, bytes
	q, err := newSource(options)
	require.NoError(s.tb, err)
	return q
}

// TestKeptRowsAreThoseOfTheTable writes in and out of order, flushes and deletes, and sends the same queries with and
// without the row cache after each step.
func TestKeptRowsAreThoseOfTheTable(t *testing.T) {
	rng := newRandOf(t)
	s := newStack(t, keyschema.Rule{Pattern: "c_*", FromHour: dataFrom/hourMs + 2, Salts: 5, Promoted: []string{"job"}})
	defer func() { require.NoError(t, s.Close()) }()
	kept := newQueryEngine(t, s.withRowCache(0), query.On)
	plain := newQueryEngine(t, s.source, query.On)
	g := exprs{Rand: rng}
	history := newDataset(rng).history(rng)
	size := len(history)/30 + 1
	cached := int64(0)
	for len(history) > 0 {
		n := min(size, len(history))
		s.write(history[:n])
		history = history[n:]
		if rng.IntN(2) == 0 {
			s.flush()
		}
		if rng.IntN(8) == 0 {
			dropSomeRows(t, s)
		}
		for range 12 {
			text := g.vector(1 + g.IntN(2))
			run := instantCase(g, text)
			if rng.IntN(2) == 0 {
				run = rangeCase(g, text)
			}
			require.NoError(t, difference(run(plain), run(kept)), text)
		}
		res, err := runQuery(kept, `{__name__=~".+"}`, dataFrom, dataTo, time.Hour, query.Params{Explain: true})
		require.NoError(t, err)
		cached += res.Explain.Reading.RowsCached
		want, err := runQuery(plain, `{__name__=~".+"}`, dataFrom, dataTo, time.Hour, query.Params{Explain: true})
		require.NoError(t, err)
		require.NoError(t, difference(responseOf("all", want, nil), responseOf("all", res, nil)))
	}
	require.Greater(t, cached, int64(1000), "rows are found again")
}

// dropSomeRows drops the rows of a metric from the table. Samples in the head stay.
func dropSomeRows(t *testing.T, s *stack) {
	data, err := s.store.Table(t.Context(), storage.TableData)
	require.NoError(t, err)
	require.NoError(t, data.DropRows(t.Context(), storage.RowRange{Start: []byte("g#"), End: []byte("g$")}))
}

// TestRowCacheDuringFlushes reads through the row cache while samples arrive, some out of order, and are flushed. Each read
// returns all samples that were acknowledged before it began, once.
func TestRowCacheDuringFlushes(t *testing.T) {
	const (
		rounds = 120
		series = 12
		stepMs = 400_000
	)
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	s.source = s.withRowCache(0)
	var (
		acknowledged atomic.Int64
		wg           sync.WaitGroup
	)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	check := func(err error) bool {
		if err != nil && ctx.Err() == nil {
			t.Error(err)
			stop()
		}
		return err == nil && ctx.Err() == nil
	}
	wg.Go(func() {
		defer stop()
		for k := int64(0); k < rounds; k++ {
			var request []ingest.Sample
			for i := range series {
				ls := labels.FromStrings("__name__", "n", "i", fmt.Sprint(i))
				request = append(request, ingest.Sample{Labels: ls, TsMs: dataFrom + k*stepMs, Value: float64(k)})
				if old := k - 40; old >= 0 && i == 0 {
					// The same sample arrives again hours later, so that a flush rewrites its row.
					request = append(request, ingest.Sample{Labels: ls, TsMs: dataFrom + old*stepMs, Value: float64(old)})
				}
			}
			if _, err := s.ingester.Write(ctx, ingest.SamplesInput(request)); !check(err) {
				return
			}
			acknowledged.Store(k + 1)
			if k%3 == 0 && !check(s.ingester.Flush(context.Background())) {
				return
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for check(readAll(s, acknowledged.Load(), series, stepMs)) {
			}
		})
	}
	wg.Wait()
	require.NoError(t, readAll(s, acknowledged.Load(), series, stepMs))
	require.Equal(t, int64(rounds), acknowledged.Load())
}
