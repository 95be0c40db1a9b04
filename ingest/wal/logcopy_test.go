package wal

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestCheckpointOfTheLog copies a log during appends. The copy has exactly the frames before the cut, also after a
// truncation, and accepts appends as a separate log. Open detects damage to the copy.
func TestCheckpointOfTheLog(t *testing.T) {
	fs := vfs.NewMem()
	l, _, _ := mustOpen(t, testOptions(fs))
	next := uint64(1)
	for round, dir := range []string{"copies/0/wal", "copies/1/wal", "copies/2/wal"} {
		for range 30 {
			appendWait(t, l, 1, payloadOf(next, 200))
			next++
		}
		newest, err := l.Rotate()
		require.NoError(t, err)
		first := uint64(1)
		if round > 0 {
			first = next // a checkpoint stands for the frames before the cut
			require.NoError(t, l.Truncate(newest, func(emit func(byte, []byte) error) error { return emit(1, payloadOf(0, 3)) }))
		}
		var stop atomic.Bool
		var work sync.WaitGroup
		later := next
		work.Go(func() {
			for ; !stop.Load() && later < next+5000; later++ {
				if _, err := l.Append(1, payloadOf(later, 20)); err != nil {
					t.Error(err)
					return
				}
			}
		})
		require.NoError(t, l.Checkpoint(dir, newest))
		stop.Store(true)
		work.Wait()
		opts := testOptions(fs)
		opts.Dir = dir
		copied, frames, stats := mustOpen(t, opts)
		want := sequence(first, next-1)
		if round > 0 {
			want = append([]uint64{0}, want...)
		}
		require.Equal(t, want, numbers(frames))
		require.True(t, stats.Clean)
		extent, err := ReadExtent(fs, dir)
		require.NoError(t, err)
		require.GreaterOrEqual(t, extent.Last, newest)
		appendWait(t, copied, 1, payloadOf(9999, 5))
		require.NoError(t, copied.Close())
		next = later
		if round > 0 {
			continue
		}
		require.NoError(t, fs.Remove(fs.PathJoin(dir, segmentName(1))))
		_, _, _, err = tryOpen(opts)
		var damage *DamageError
		require.ErrorAs(t, err, &damage)
	}
	require.NoError(t, l.Close())
	require.Error(t, l.Checkpoint("copies/3", 1), "a closed log")
}
