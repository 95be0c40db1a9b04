package query_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/query/read"
	"halite/query/read/rollups"
	"halite/rollup"
	rollupstore "halite/rollup/store"
)

// vanishing deletes the series one by one while queries read them.
type vanishing struct {
	t *testing.T
	*stack
	series  uint64
	samples float64      // of each series
	gone    atomic.Int64 // number of series whose deletion has returned
	done    chan struct{}
}

const vanishingDays = 6

func newVanishing(t *testing.T) *vanishing {
	clock := new(atomic.Int64)
	clock.Store(tieredFrom + vanishingDays*dayMs + 5*hourMs)
	v := &vanishing{
		t: t, stack: openStackWith(t, vfs.NewMem(), stackOptions{tiers: true, clock: clock}), done: make(chan struct{}),
		series: unlessShort(24, 8),
	}
	for late := range 2 { // the last samples stay in memory
		for i := range v.series {
			var all []ingest.Sample
			ls := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i))
			for ts := int64(tieredFrom); ts < clock.Load(); ts += 20 * 60_000 {
				all = append(all, ingest.Sample{Labels: ls, TsMs: ts, Value: 1})
			}
			v.samples = float64(len(all))
			if late == 0 {
				v.write(all[:len(all)-5])
			} else {
				v.write(all[len(all)-5:])
			}
		}
		if late == 0 {
			v.flush()
		}
	}
	v.rollUp()
	return v
}

func (v *vanishing) ended() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// runQuery counts the samples of all series repeatedly until all series are deleted, and then one more time.
func (v *vanishing) runQuery(e *query.Engine, p query.Params) {
	for ended := false; !ended; {
		ended = v.ended()
		before := int(v.gone.Load())
		got, err := countSamples(e, fmt.Sprintf("count_over_time(m[%dh])", (vanishingDays+1)*24), v.clock.Load(), p)
		if err != nil {
			v.t.Error(err)
			return
		}
		for i := range v.series {
			have, there := got[fmt.Sprint(i)]
			if there && (have != v.samples || int(i) < before) {
				v.t.Errorf("series %d after %d deletions: %v samples of %v", i, before, have, v.samples)
				return
			}
		}
	}
}

// writeOthers writes other series, and flushes.
func (v *vanishing) writeOthers() {
	for i := 0; !v.ended(); i++ {
		ls := labels.FromStrings("__name__", "other", "i", fmt.Sprint(i%7))
		sample := ingest.Sample{Labels: ls, TsMs: v.clock.Load() - int64(i), Value: 1}
		_, err := v.ingester.Write(context.Background(), ingest.SamplesInput([]ingest.Sample{sample}))
		if err == nil && i%50 == 0 {
			err = v.ingester.Flush(context.Background())
		}
		if err != nil {
			v.t.Error(err)
			return
		}
	}
}

// TestDeletionsAreSeenWhole queries series repeatedly, with and without caches. At the same time it deletes them one by
// one, writes and flushes other series, and cleans tombstones. Each result has all samples of a series or none, and none
// after the deletion has returned.
func TestDeletionsAreSeenWhole(t *testing.T) {
	v := newVanishing(t)
	defer func() { require.NoError(t, v.Close()) }()
	var work sync.WaitGroup
	for n := range 3 {
		options := v.options
		if n > 0 {
			options.Watch = v.watch
		}
		q, err := newSource(options)
		require.NoError(t, err)
		e := newQueryEngine(t, q, query.On)
		work.Go(func() { v.runQuery(e, query.Params{Tiers: []query.Switch{query.Off, query.Off, query.On}[n]}) })
	}
	work.Go(v.writeOthers)
	for i := range v.series {
		v.delete(0, v.clock.Load(), labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"),
			labels.MustNewMatcher(labels.MatchEqual, "i", fmt.Sprint(i)))
		v.gone.Store(int64(i + 1))
		if i%8 == 7 {
			_, err := v.ingester.CleanTombstones(context.Background())
			require.NoError(t, err)
		}
	}
	close(v.done)
	work.Wait()
	require.Zero(t, v.deleted.Len())
}

// countSamples queries a vector and returns its values by label i.
func countSamples(e *query.Engine, text string, atMs int64, p query.Params) (map[string]float64, error) {
	res, err := runQuery(e, text, atMs, atMs, time.Second, p)
	if err != nil {
		return nil, err
	}
	defer res.Close()
	out := map[string]float64{}
	for _, s := range res.Value.(promengine.Matrix) {
		out[s.Metric.Get("i")] = s.Floats[0].F
	}
	return out, nil
}

// TestDeletionHidesCachedRowsAtOnce queries between the two new versions of the rows that a deletion changes, before and
// after it takes effect. A query may wait there. If it returns after the deletion has taken effect, it must not find rows
// that an earlier query has cached.
func TestDeletionHidesCachedRowsAtOnce(t *testing.T) {
	clock := new(atomic.Int64)
	clock.Store(tieredFrom + 4*dayMs)
	for _, tier := range []query.Switch{query.Off, query.On} {
		var runQuery func() (samples int)
		var queries sync.WaitGroup
		inDeletion := func() (samples int, answered bool) {
			response := make(chan int, 1)
			queries.Go(func() { response <- runQuery() })
			select {
			case samples = <-response:
				return samples, true
			case <-time.After(100 * time.Millisecond): // it waits for the end of the deletion
				return 0, false
			}
		}
		s := openStackWith(t, vfs.NewMem(), stackOptions{clock: clock, tiers: true, deleting: func(change func() error) error {
			inDeletion()
			if err := change(); err != nil {
				return err
			}
			if samples, answered := inDeletion(); answered && samples > 0 {
				t.Errorf("a query after the effect of the deletion found %d samples, with rollups %v", samples, tier)
			}
			return nil
		}})
		options := s.options
		options.Watch = s.watch
		q, err := newSource(options)
		require.NoError(t, err)
		e := newQueryEngine(t, q, query.On)
		runQuery = func() int {
			got, err := countSamples(e, "count_over_time(m[5d])", clock.Load(), query.Params{Tiers: tier})
			if err != nil {
				t.Error(err)
			}
			return int(got["0"])
		}
		var all []ingest.Sample
		for ts := int64(tieredFrom); ts < clock.Load(); ts += 20 * 60_000 {
			all = append(all, ingest.Sample{Labels: labels.FromStrings("__name__", "m", "i", "0"), TsMs: ts, Value: 1})
		}
		s.write(all)
		s.flush()
		s.rollUp()
		// A deletion of the whole metric would also remove the series from the index.
		s.delete(0, clock.Load(), labels.MustNewMatcher(labels.MatchEqual, "i", "0"))
		require.Zero(t, runQuery(), "after the deletion is acknowledged, with rollups %v", tier)
		queries.Wait()
		require.NoError(t, s.Close())
	}
}

// TestReadKeepsItsDeletions deletes a series after a read has seen the head, and before it reads the tables. The read still
// returns all samples. A later read returns none.
func TestReadKeepsItsDeletions(t *testing.T) {
	clock := new(atomic.Int64)
	clock.Store(tieredFrom + 4*dayMs)
	metric := labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")
	fill := func(o stackOptions) (s *stack, samples int) {
		o.clock = clock
		s = openStackWith(t, vfs.NewMem(), o)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		var all []ingest.Sample
		for ts := int64(tieredFrom); ts < clock.Load(); ts += 20 * 60_000 {
			all = append(all, ingest.Sample{Labels: labels.FromStrings("__name__", "m", "i", "0"), TsMs: ts, Value: 1})
		}
		s.write(all)
		s.flush()
		return s, len(all)
	}
	t.Run("rows", func(t *testing.T) {
		s, samples := fill(stackOptions{})
		session := s.Reader().Session()
		defer session.Close()
		sel, err := session.Select(t.Context(), read.Windows{FirstEndMs: clock.Load(), RangeMs: 10 * dayMs, Steps: 1}, metric)
		require.NoError(t, err)
		defer sel.Close()
		for _, want := range []int{samples, 0} {
			stream, err := sel.Open(t.Context(), 0)
			require.NoError(t, err)
			s.delete(0, clock.Load(), metric)
			batch, err := stream.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, batch.Columns[0].Len())
			batch.Release()
			stream.Close()
		}
	})
	t.Run("states", func(t *testing.T) {
		s, samples := fill(stackOptions{tiers: true})
		s.rollUp()
		options := s.options
		store := &storeOfReads{Store: s.tiers, before: func() { s.delete(0, clock.Load(), metric) }}
		options.Tiers = store
		q, err := newSource(options)
		require.NoError(t, err)
		e := newQueryEngine(t, q, query.On)
		for _, want := range []map[string]float64{{"0": float64(samples)}, {}} {
			got, err := countSamples(e, "count_over_time(m[10d])", clock.Load(), query.Params{Tiers: query.On})
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.Positive(t, store.reads.Load())
	})
}

// storeOfReads does something before each read of states.
type storeOfReads struct {
	rollups.Store
	before func()
	reads  atomic.Int64
}

func (s *storeOfReads) Read(
	ctx context.Context, req rollupstore.Request, each func(i int, c *rollup.Columns) error,
) error {
	s.reads.Add(1)
	s.before()
	return s.Store.Read(ctx, req, each)
}
