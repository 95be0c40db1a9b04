package query_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/query"
	"halite/query/promql"
)

// processorTime is that of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTierCosts is the processor time for each series of functions over long windows, from states and from samples,
// these with and without their rows decoded before. The costs in query/promql/tierplan.go are from it.
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
		end := tieredFrom + days*dayMs - 40*60_000 - 1
		options := s.options
		options.Watch = s.watch
		warm, err := promql.New(options)
		require.NoError(b, err)
		for _, window := range []string{"6h", "1d", "7d", "60d"} {
			if window == "60d" && days < 60 {
				continue
			}
			for _, name := range []string{"max_over_time", "avg_over_time", "increase"} {
				for way, q := range map[string]*promql.Queryable{"states": warm, "rows": s.Queryable, "decoded": warm} {
					p := query.Params{Tiers: query.Off}
					if way == "states" {
						p.Tiers = query.On
					}
					b.Run(fmt.Sprintf("%ds/%s/%s/%s", interval/1000, window, name, way), func(b *testing.B) {
						e, err := query.New(query.Options{Queryable: q})
						require.NoError(b, err)
						text := fmt.Sprintf("%s(c_total[%s])", name, window)
						one := func() {
							res, err := ask(e, text, end, end, time.Second, p)
							require.NoError(b, err)
							res.Close()
						}
						one()
						before := processorTime(b)
						for b.Loop() {
							one()
						}
						b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N)/series/1000, "cpu-µs/series")
					})
				}
			}
		}
		require.NoError(b, s.Close())
	}
}
