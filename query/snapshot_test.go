package query_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"halite/ingest"
)

// TestNothingMissedOrDoubledDuringFlushes writes, flushes and reads concurrently. Sample k of every series has the value k
// and lies k steps after the first sample. So a reader detects missing, duplicate and wrong samples. Each read returns all
// samples that were acknowledged before it began.
func TestNothingMissedOrDoubledDuringFlushes(t *testing.T) {
	const (
		flushesMin = 25
		roundsMin  = 150
		series     = 20
		stepMs     = 90_000
	)
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	var (
		acknowledged, flushes, reads atomic.Int64
		wg                           sync.WaitGroup
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
		for k := int64(0); k < roundsMin || flushes.Load() < flushesMin; k++ {
			var request []ingest.Sample
			for i := range series {
				ls := labels.FromStrings("__name__", "n", "i", fmt.Sprint(i))
				request = append(request, ingest.Sample{Labels: ls, TsMs: dataFrom + k*stepMs, Value: float64(k)})
			}
			if _, err := s.ingester.Write(ctx, ingest.SamplesInput(request)); !check(err) {
				return
			}
			acknowledged.Store(k + 1)
		}
	})
	wg.Go(func() {
		for check(s.ingester.Flush(context.Background())) {
			flushes.Add(1)
		}
	})
	for range 2 {
		wg.Go(func() {
			for check(readAll(s, acknowledged.Load(), series, stepMs)) {
				reads.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d rounds, %d flushes, %d reads", acknowledged.Load(), flushes.Load(), reads.Load())
	require.NoError(t, readAll(s, acknowledged.Load(), series, stepMs))
}

func readAll(s *stack, atLeast, series, stepMs int64) error {
	q, err := s.Querier(dataFrom, math.MaxInt64)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "n"))
	found := int64(0)
	var it chunkenc.Iterator
	for set.Next() {
		found++
		it = set.At().Iterator(it)
		k := int64(0)
		for ; it.Next() == chunkenc.ValFloat; k++ {
			if ts, v := it.At(); ts != dataFrom+k*stepMs || v != float64(k) {
				return fmt.Errorf("sample %d of %s is %d steps after the first and has value %v",
					k, set.At().Labels(), (ts-dataFrom)/stepMs, v)
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
		if k < atLeast {
			return fmt.Errorf("%s has %d samples, %d were acknowledged before", set.At().Labels(), k, atLeast)
		}
	}
	if atLeast > 0 && found != series {
		return fmt.Errorf("%d series of %d", found, series)
	}
	return set.Err()
}
