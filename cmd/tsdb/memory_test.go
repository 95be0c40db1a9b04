package main

import (
	"log/slog"
	"math"
	"runtime/debug"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"
)

// TestMemoryIsShared fits the flags to memory limits.
func TestMemoryIsShared(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) }()
	fit := func(limit int64, args ...string) *serveConfig {
		app := kingpin.New("tsdb", "")
		c := addServeFlags(app.Command("serve", ""))
		_, err := app.Parse(append([]string{"serve"}, args...))
		require.NoError(t, err)
		debug.SetMemoryLimit(limit)
		c.fitMemory(slog.New(slog.DiscardHandler))
		return c
	}
	t.Setenv("GOMEMLIMIT", "set by the test")

	c := fit(math.MaxInt64)
	require.Equal(t, int64(256<<20), c.rowCacheBytes)
	require.Equal(t, int64(math.MaxInt64), debug.SetMemoryLimit(-1))
	require.NoError(t, c.Validate())
	require.Zero(t, c.seriesMax, "without a memory limit there is none of series")
	require.Equal(t, []int64{2 << 30, math.MaxInt64 / 5 * 2, 50_000_000},
		[]int64{c.queryBytesMax, c.queryTotalBytesMax, int64(c.engineSamplesMax)})

	c = fit(960<<20, "--query.row-cache-bytes=200MB")
	require.Equal(t, []int64{120 << 20, 480 << 20, 30 << 20, 30 << 20, 200 << 20},
		[]int64{c.cacheBytes, c.headBytesMax, c.memtableBytes, c.resultCacheBytes, c.rowCacheBytes})
	require.Equal(t, int64((960-120-30-30-200)<<20), debug.SetMemoryLimit(-1))
	require.Equal(t, "120MiB", c.flagValues()["storage.cache-bytes"])
	require.Equal(t, []int64{116 << 20, 232 << 20, 116 << 20 / 32},
		[]int64{c.queryBytesMax, c.queryTotalBytesMax, int64(c.engineSamplesMax)})
	require.NoError(t, c.Validate())

	require.Equal(t, []int64{480 << 20, 960 << 20 / 512, 60 << 20},
		[]int64{c.headTotalBytesMax, int64(c.seriesMax), c.inFlightBytesMax})
	require.Equal(t, "1966080", c.flagValues()["ingest.max-series"])

	c = fit(960<<20, "--ingest.max-series=0", "--storage.head-total-bytes=0")
	require.Zero(t, c.seriesMax)
	require.Zero(t, c.headTotalBytesMax)
	require.NoError(t, c.Validate())

	c = fit(960<<20, "--query.max-bytes=1GB", "--query.max-samples=1000")
	require.Equal(t, []int64{1 << 30, 5 << 28, 1000},
		[]int64{c.queryBytesMax, c.queryTotalBytesMax, int64(c.engineSamplesMax)})

	fit(960<<20, "--query.row-cache-bytes=2GB")
	require.Equal(t, int64(480<<20), debug.SetMemoryLimit(-1), "half is for the heap")
}
