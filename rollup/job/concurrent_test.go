package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/store"
)

// TestReadersNeverMissWrittenSamples writes late samples, computes and reads at the same time. A state that a reader gets
// contains all samples of its hour whose write returned before the read began.
func TestReadersNeverMissWrittenSamples(t *testing.T) {
	const days, rounds = 3, 150
	r, all, _ := filled(t, days, func(o *rigOptions) { o.MarksMax, o.Job.BatchBytes = 3, 300 })
	defer func() { r.close(t) }()
	r.work(t)
	var mu sync.Mutex
	written := map[string]map[int64]int64{} // samples of each series' hour
	for _, s := range all {
		written[string(s.prefix)] = map[int64]int64{}
		for ts := range s.samples {
			written[string(s.prefix)][keyschema.HourOf(ts)]++
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { // the job
		for ctx.Err() == nil {
			if _, err := r.Step(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("step: %v", err)
				return
			}
		}
	})
	var seen atomic.Int64
	running.Go(func() { // a reader
		rng := rand.New(rand.NewPCG(9, 9))
		for ctx.Err() == nil {
			s := all[rng.IntN(len(all))]
			mu.Lock()
			least := map[int64]int64{}
			for hour, n := range written[string(s.prefix)] {
				least[hour] = n
			}
			mu.Unlock()
			n, err := r.atLeast(s, days, least)
			if err != nil {
				t.Error(err)
				return
			}
			seen.Add(int64(n))
		}
	})
	rng := rand.New(rand.NewPCG(8, 8))
	for n := 0; n < rounds || seen.Load() == 0 && !t.Failed(); n++ {
		s := all[rng.IntN(len(all))]
		late := map[int64]float64{}
		for range 1 + rng.IntN(6) {
			ts := firstDay*dayMs + rng.Int64N(days*dayMs)
			if _, old := s.samples[ts]; !old {
				late[ts] = 1
			}
		}
		r.write(t, rng, s, late)
		mu.Lock()
		for ts := range late {
			written[string(s.prefix)][keyschema.HourOf(ts)]++
		}
		mu.Unlock()
	}
	stop()
	running.Wait()
	require.Positive(t, seen.Load())
	r.work(t)
	require.Zero(t, r.verified(t).Different)
	for _, s := range all {
		known, samples := r.known(t, s, store.Hours, days)
		require.Equal(t, days*24, known)
		require.Equal(t, len(s.samples), samples)
	}
}

// atLeast returns an error if a known hour has fewer samples than least says. It returns the number of known hours.
func (r *rig) atLeast(s *series, days int64, least map[int64]int64) (known int, err error) {
	first := int64(firstDay * keyschema.DayHours)
	err = r.Read(context.Background(), store.Request{
		Prefixes: [][]byte{s.prefix}, From: first, To: first + days*keyschema.DayHours - 1, Fields: rollup.FieldsAll,
	}, func(_ int, c *rollup.Columns) error {
		for i := range c.Len() {
			if !c.Known[i] {
				continue
			}
			known++
			if hour := first + int64(i); c.Count[i] < least[hour] {
				return fmt.Errorf("hour %d of %s has %d samples, %d were written", hour, s.prefix, c.Count[i], least[hour])
			}
		}
		return nil
	})
	return known, err
}
