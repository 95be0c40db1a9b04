package promql

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQueriesShareMemory: what one query holds another cannot have, until the first has ended; each has a little in any
// case.
func TestQueriesShareMemory(t *testing.T) {
	p := &pool{bytesMax: 10 << 20}
	o := &Options{BytesMax: 8 << 20}
	one, two, three := newBudget(o, p), newBudget(o, p), newBudget(o, p)
	require.NoError(t, one.Take(8<<20))
	require.NoError(t, two.Take(4<<20), "7 MiB of the first and 3 of the second")
	limit := new(LimitError)
	require.ErrorAs(t, one.Take(1), &limit)
	require.Equal(t, LimitError{LimitBytes, 8 << 20}, *limit)
	require.ErrorAs(t, two.Take(1), &limit)
	require.Equal(t, LimitError{LimitTotalBytes, 10 << 20}, *limit)
	require.ErrorContains(t, limit, "(query.max-total-bytes)")
	require.NoError(t, three.Take(1<<20))
	require.Error(t, three.Take(1))

	one.Release(8 << 20)
	require.Error(t, two.Take(1), "the first still runs")
	one.End()
	require.NoError(t, two.Take(4<<20))
	one.End()
	two.End()
	two.Release(8 << 20) // what was handed on is released later
	three.End()
	require.Zero(t, p.bytes.Load())
}

// TestBudgetsRace has queries take and release side by side; nothing of the pool is lost, nor taken twice.
func TestBudgetsRace(t *testing.T) {
	p := &pool{bytesMax: 64 << 20}
	var queries sync.WaitGroup
	for range 8 {
		queries.Go(func() {
			for range 50 {
				b := newBudget(&Options{BytesMax: math.MaxInt64}, p)
				var readers sync.WaitGroup
				for range 3 {
					readers.Go(func() {
						for range 20 {
							if err := b.Take(700 << 10); err == nil {
								b.Release(300 << 10)
							} else if limit := new(LimitError); !errors.As(err, &limit) || limit.Limit != LimitTotalBytes {
								t.Error(err)
							}
							if n := p.bytes.Load(); n < 0 {
								t.Errorf("%d bytes are taken", n)
							}
						}
					})
				}
				readers.Wait()
				b.End()
			}
		})
	}
	queries.Wait()
	require.Zero(t, p.bytes.Load())
}
