package query_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// processorTime returns the CPU time of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTierCosts reports the CPU time for each series of functions over long windows: from states and from rows, read or
// cached. The costs in query/read/rollups/plan.go come from it.
func BenchmarkTierCosts(b *testing.B) {
	const series = 60
	for _, interval := range []int64{15_000, 60_000} {
		days := int64(9)
		if interval == 60_000 {
			days = 70
		}
		clock := new(atomic.Int64)
		clock.Store(tieredFrom + (days+1)*dayMs)
		s := openStackWith(b, vfs.NewMem(), stackOptions{tiers: true, clock: clock})
		s.fillSpan(series, tieredFrom, tieredFrom+days*dayMs, interval)
		s.rollUp()
		kept := s.withRowCache(0)
		end := tieredFrom + days*dayMs - 40*60_000 - 1
		for _, window := range []string{"6h", "1d", "7d", "60d"} {
			if window == "60d" && days < 60 {
				continue
			}
			for _, name := range []string{"max_over_time", "avg_over_time", "increase"} {
				text := fmt.Sprintf("%s(c_total[%s])", name, window)
				b.Run(fmt.Sprintf("%ds/%s/%s", interval/1000, window, name), func(b *testing.B) {
					s.queryTiers(b, kept, tierQuestion{text: text, step: time.Second}, end, series)
				})
			}
		}
		require.NoError(b, s.Close())
	}
}
