package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaceCollector(t *testing.T) {
	require.Equal(t, 3200, percentFor(0, 0))
	require.Equal(t, 160, percentFor(20<<20, 10<<20))
	require.Equal(t, 32, percentFor(100<<20, 10<<20), "little to look into")
	require.Equal(t, 6, percentFor(10<<30, 100<<20), "much to sweep")
	require.InDelta(t, 25, percentFor(1<<30, 256<<20), 1, "as much garbage as was looked into")
	require.InDelta(t, gcPercent, percentFor(1<<30, 1<<30), 1)
	require.InDelta(t, gcPercent, percentFor(math.MaxInt64, math.MaxInt64), 1)

	t.Setenv("GOGC", "") // puts it back afterwards
	require.NoError(t, os.Unsetenv("GOGC"))
	before := debug.SetGCPercent(gcPercent)
	defer debug.SetGCPercent(before)
	defer paceCollector()()
	require.Eventually(t, func() bool {
		runtime.GC()
		percent := debug.SetGCPercent(gcPercent)
		debug.SetGCPercent(percent)
		return percent > gcPercent
	}, time.Minute, time.Millisecond, "the heap of a test is small")
}
