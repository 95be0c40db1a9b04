package query_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/storagetest/seeds"
)

// TestKeptStatesAreThoseOfTheTables queries cached states between changes: late samples, flushes, deletions, recomputed
// states, and days and months that close. No result uses a stale state.
func TestKeptStatesAreThoseOfTheTables(t *testing.T) {
	first, seeds := seeds.Number(t, "HALITE_SEED", defaultSeed), seeds.Number(t, "HALITE_SEEDS", unlessShort(2, 1))
	var functions []string
	for name := range tieredFunctions {
		functions = append(functions, name)
	}
	for seed := first; seed < first+seeds; seed++ {
		w := newTieredWorld(t, seed)
		options := w.options
		options.Watch = w.watch
		options.RowCacheBytes = []int64{0, 300_000}[w.IntN(2)] // all states, or some
		registry := prometheus.NewRegistry()
		options.Registerer = registry
		q, err := newSource(options)
		require.NoError(t, err)
		e := newQueryEngine(t, q, query.On)
		for range unlessShort(30, 10) {
			for range 6 {
				text, exact, start, end, step := w.question(functions)
				stepTime := time.Duration(step) * time.Millisecond
				want, err := runQuery(e, text, start, end, stepTime, query.Params{Tiers: query.Off})
				require.NoError(t, err, "HALITE_SEED=%d %s", seed, text)
				for range 2 { // the second query uses the cache
					got, err := runQuery(e, text, start, end, stepTime, query.Params{Tiers: query.On, Explain: true})
					require.NoError(t, err, "HALITE_SEED=%d %s", seed, text)
					require.NoError(t, tieredDifference(want.Value.(promengine.Matrix), got.Value.(promengine.Matrix), exact),
						"HALITE_SEED=%d %s from %d to %d by %s: %s", seed, text, start, end, stepTime, got.Explain)
					got.Close()
				}
				want.Close()
			}
			if w.IntN(4) == 0 { // days end, and sometimes months
				w.clock.Add(w.Int64N(2 * dayMs))
				w.rollUp()
			}
			w.disturb()
		}
		require.Positive(t, counterOf(t, registry, "tsdb_query_state_cache_hits_total"))
		require.NoError(t, w.Close())
	}
}

// counterOf returns the value of a counter without labels.
func counterOf(t *testing.T, r *prometheus.Registry, name string) float64 {
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(t, "no metric", name)
	return 0
}

// TestKeptStatesMissNoSample writes late samples, flushes them and computes states during queries. Each result counts
// all samples written before the query.
func TestKeptStatesMissNoSample(t *testing.T) {
	const days, rounds, series = 5, 40, 3
	clock := new(atomic.Int64)
	clock.Store(tieredFrom + days*dayMs + hourMs)
	s := openStackWith(t, vfs.NewMem(), stackOptions{tiers: true, clock: clock})
	defer func() { require.NoError(t, s.Close()) }()
	s.fillSpan(series, tieredFrom+7, tieredFrom+days*dayMs, 600_000)
	s.rollUp()
	options := s.options
	options.Watch = s.watch
	q, err := newSource(options)
	require.NoError(t, err)
	e := newQueryEngine(t, q, query.On)
	end := tieredFrom + days*dayMs
	var written atomic.Int64
	written.Store(series * days * 144)
	stop, stopNow := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for stop.Err() == nil {
			if _, err := s.tiers.Step(stop); err != nil && stop.Err() == nil {
				t.Errorf("step: %v", err)
			}
		}
	})
	for range 2 {
		running.Go(func() {
			for stop.Err() == nil {
				least := written.Load()
				res, err := runQuery(e, "sum(count_over_time(c_total[5d]))", end, end, time.Second, query.Params{Tiers: query.On})
				if err != nil {
					t.Errorf("query: %v", err)
					return
				}
				if got := res.Value.(promengine.Matrix)[0].Floats[0].F; got < float64(least) {
					t.Errorf("%v samples, %d were written", got, least)
				}
				res.Close()
			}
		})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range int64(rounds) {
		n := rng.IntN(series)
		name := labels.FromStrings("__name__", "c_total", "i", fmt.Sprintf("%06d", n), "job", fmt.Sprint(n))
		s.write([]ingest.Sample{{Labels: name, TsMs: tieredFrom + rng.Int64N(days)*dayMs + 20_000 + i, Value: 1}})
		written.Add(1)
		if rng.IntN(2) == 0 {
			require.NoError(t, s.ingester.Flush(context.Background()))
		}
	}
	stopNow()
	running.Wait()
}
