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
	require.Equal(t, 3200, percentFor(0))
	require.Equal(t, 160, percentFor(20<<20))
	require.Equal(t, gcPercent, percentFor(1<<30))
	require.Equal(t, gcPercent, percentFor(math.MaxInt64))

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
