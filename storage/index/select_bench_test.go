package index

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/index/memory"
)

// cpuTime returns the CPU time of this process.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSelectAll selects a million series that were touched on an open day, on a closed one, or on both. It reports CPU
// time and allocated memory for each series.
func BenchmarkSelectAll(b *testing.B) {
	w := newBenchWorld(b)
	w.fill(b)
	now := w.now.UnixMilli()
	run := func(name string, from, to int64) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			spent := time.Duration(0)
			for b.Loop() {
				start := cpuTime(b)
				got, err := w.x.Select(context.Background(), nil, from, to)
				spent += cpuTime(b) - start
				require.NoError(b, err)
				require.Len(b, got, benchSeries)
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/benchSeries, "cpu-ns/series")
		})
	}
	run("open", now, now)
	w.now = w.now.Add(14 * time.Hour)
	require.NoError(b, w.x.Maintain(context.Background()))
	run("closed-and-active", now, now)
	hour := keyschema.HourOf(w.now.UnixMilli())
	for ref := memory.Ref(1); ref <= benchSeries; ref++ {
		w.x.MarkActive(ref, hour)
	}
	run("closed-and-open", now, w.now.UnixMilli())
	w.reopenCold(b)
	require.Zero(b, w.x.active.SeriesCount())
	run("closed", now, now)
}
