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
	"halite/query/promql"
)

// TestDeletionsAreSeenWhole asks for series again and again, with caches and without, while they are deleted one after the
// other, others are written, all is flushed, and what was deleted is cleaned: each series has all of its samples or none,
// and none once its deletion has returned.
func TestDeletionsAreSeenWhole(t *testing.T) {
	const series, days = 24, 6
	clock := new(atomic.Int64)
	clock.Store(tieredFrom + days*dayMs + 5*hourMs)
	s := openStackWith(t, vfs.NewMem(), stackOptions{tiers: true, clock: clock})
	defer func() { require.NoError(t, s.Close()) }()
	samplesOf := func(i int) (out []ingest.Sample) {
		ls := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i))
		for ts := int64(tieredFrom); ts < clock.Load(); ts += 20 * 60_000 {
			out = append(out, ingest.Sample{Labels: ls, TsMs: ts, Value: 1})
		}
		return out
	}
	for i := range series {
		all := samplesOf(i)
		s.write(all[:len(all)-5])
	}
	s.flush()
	for i := range series {
		all := samplesOf(i)
		s.write(all[len(all)-5:])
	}
	s.rollUp()
	want := float64(len(samplesOf(0)))

	var gone atomic.Int64 // so many series are deleted for sure
	done := make(chan struct{})
	var work sync.WaitGroup
	for n := range 3 {
		options := s.options
		if n > 0 {
			options.Watch = s.watch
		}
		q, err := promql.New(options)
		require.NoError(t, err)
		e := newQueryEngine(t, q, query.On)
		params := query.Params{Tiers: []query.Switch{query.Off, query.Off, query.On}[n]}
		work.Go(func() {
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true // and ask once more
				default:
				}
				before := int(gone.Load())
				got, err := countSamples(e, fmt.Sprintf("count_over_time(m[%dh])", (days+1)*24), clock.Load(), params)
				if err != nil {
					t.Error(err)
					return
				}
				for i := range series {
					have, there := got[fmt.Sprint(i)]
					if there && (have != want || i < before) {
						t.Errorf("query %d, series %d of which %d are gone: %v samples of %v", n, i, before, have, want)
						return
					}
				}
			}
		})
	}
	work.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			ls := labels.FromStrings("__name__", "other", "i", fmt.Sprint(i%7))
			_, err := s.ingester.Write(context.Background(), []ingest.Sample{{Labels: ls, TsMs: clock.Load() - int64(i), Value: 1}})
			if err == nil && i%50 == 0 {
				err = s.ingester.Flush(context.Background())
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range series {
		s.delete(0, clock.Load(), labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"),
			labels.MustNewMatcher(labels.MatchEqual, "i", fmt.Sprint(i)))
		gone.Store(int64(i + 1))
		if i%8 == 7 {
			_, err := s.ingester.CleanTombstones(context.Background())
			require.NoError(t, err)
		}
	}
	close(done)
	work.Wait()
	require.Zero(t, s.deleted.Len())
}

// countSamples asks for a vector, by label i.
func countSamples(e *query.Engine, text string, atMs int64, p query.Params) (map[string]float64, error) {
	res, err := ask(e, text, atMs, atMs, time.Second, p)
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
