package ingest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
)

// fillLog writes two samples to each of some series and returns the file system after kill -9.
func fillLog(t *testing.T, c *ingesttest.Clock, series int, tweak func(*Options)) (killed *vfs.MemFS, all []labels.Labels) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	r := openRig(t, fs, c, tweak)
	for n := range series {
		all = append(all, labels.FromStrings("__name__", fmt.Sprint("m", n%5), "instance", fmt.Sprint(n/5)))
	}
	for step := range int64(2) {
		var samples []Sample
		for n, ls := range all {
			samples = append(samples, Sample{Labels: ls, TsMs: startMs + 15_000*step, Value: float64(n)})
		}
		result, err := r.Write(context.Background(), SamplesInput(samples))
		require.NoError(t, err)
		require.Equal(t, len(samples), result.Accepted)
	}
	killed = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	r.close()
	return killed, all
}

func requireFilled(t *testing.T, r *rig, all []labels.Labels, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		bits := math.Float64bits(float64(n))
		r.requireSeries(all[n], column{startMs: bits, startMs + 15_000: bits})
	}
}

// TestReplayReportsProgress: Open reports how much of the log it has read, and at the end that it has read all of it.
func TestReplayReportsProgress(t *testing.T) {
	c := ingesttest.NewClock()
	killed, all := fillLog(t, c, 1000, nil)
	var last ReplayProgress
	r := openRig(t, killed, c, func(o *Options) { o.Replaying = func(now ReplayProgress) { last = now } })
	require.EqualValues(t, len(all), last.Series)
	require.EqualValues(t, 2*len(all), last.Samples)
	require.Greater(t, last.Bytes, int64(0))
	require.GreaterOrEqual(t, last.TotalBytes, last.Bytes)
	require.GreaterOrEqual(t, last.Percent(), int64(95))
	requireFilled(t, r, all, 0, len(all))
	r.close()
}

// TestReplayInLessMemory: a log that was filled with a large head is replayed with a small one. The head stays within the
// size from which a running server refuses writes. Every sample and series is there, although the limit
// of series is far below their number.
func TestReplayInLessMemory(t *testing.T) {
	c := ingesttest.NewClock()
	killed, all := fillLog(t, c, 20_000, nil)
	const headBytes = 200 << 10
	r := openRig(t, killed, c, func(o *Options) {
		o.Head.BytesMax, o.Head.FlushBytes = headBytes, 64<<10
		o.Limits.SeriesMax = 10
	})
	require.LessOrEqual(t, r.head.Bytes(), int64(headBytes/4*5))
	require.Less(t, r.head.Rows(), len(all))
	require.EqualValues(t, len(all), r.series.Load())
	requireFilled(t, r, all, 0, 300)
	r.flush()
	requireFilled(t, r, all, 300, 400)
	result, err := r.Write(context.Background(), SamplesInput([]Sample{
		{Labels: all[1], TsMs: startMs + 30_000}, {Labels: labels.FromStrings("__name__", "new"), TsMs: startMs},
	}))
	require.NoError(t, err)
	require.Equal(t, 1, result.Accepted, "a known series goes on, a new one is refused")
	found, err := r.index.Select(context.Background(), nil, 0, 1<<60, match(t, "__name__", "=~", "m.")...)
	require.NoError(t, err)
	require.Len(t, found, len(all))
	r.close()
}

// TestReplayWithManySeries: the series of the log take more than the memory of samples and series. A quarter of this
// memory stays for rows. The replay flushes rows early and loads every series.
func TestReplayWithManySeries(t *testing.T) {
	c := ingesttest.NewClock()
	killed, all := fillLog(t, c, 20_000, nil)
	const totalBytes = 800 << 10
	r := openRig(t, killed, c, func(o *Options) { o.Head.TotalBytesMax, o.Head.FlushBytes = totalBytes, 64<<10 })
	require.Greater(t, r.admission.memory.seriesBytes(), int64(totalBytes))
	require.LessOrEqual(t, r.head.Bytes(), int64(totalBytes/totalShares/4*5))
	require.Less(t, r.head.Rows(), len(all))
	require.EqualValues(t, len(all), r.series.Load())
	requireFilled(t, r, all, 0, 300)
	r.flush()
	requireFilled(t, r, all, 300, 400)
	r.close()
}
