package query_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/query"
)

// tierQuestion is a query with long windows or a long range.
type tierQuestion struct {
	name, text string
	spanDays   int64 // from the first step to the last
	step       time.Duration
}

// BenchmarkTierRanges reports the CPU time for each series of sliding and of long windows: from states and from rows, read
// or cached. As with scrapes, no sample is exactly at the start of an hour.
func BenchmarkTierRanges(b *testing.B) {
	const series, offsetMs = 20, 3_217
	for _, world := range []struct {
		name             string
		days, intervalMs int64
		questions        []tierQuestion
	}{
		{"month", 38, 15_000, []tierQuestion{
			{"max7d-step1h-30d", "max_over_time(c_total[7d])", 30, time.Hour},
			{"avg7d-step1h-30d", "avg_over_time(c_total[7d])", 30, time.Hour},
			{"increase7d-step1h-30d", "increase(c_total[7d])", 30, time.Hour},
		}},
		{"year", 396, 60_000, []tierQuestion{
			{"max30d", "max_over_time(c_total[30d])", 0, time.Second},
			{"max30d-step1d-year", "max_over_time(c_total[30d])", 365, 24 * time.Hour},
			{"increase365d", "increase(c_total[365d])", 0, time.Second},
			{"avgby-avg1d-step1d-year", "avg by (job) (avg_over_time(c_total[1d]))", 365, 24 * time.Hour},
		}},
	} {
		b.Run(world.name, func(b *testing.B) {
			clock := new(atomic.Int64)
			clock.Store(tieredFrom + (world.days+1)*dayMs)
			s := openStackWith(b, vfs.NewMem(), stackOptions{tiers: true, clock: clock})
			s.fillSpan(series, tieredFrom+offsetMs, tieredFrom+world.days*dayMs, world.intervalMs)
			s.rollUp()
			end := tieredFrom + world.days*dayMs
			kept := s.withRowCache(0)
			for _, q := range world.questions {
				b.Run(q.name, func(b *testing.B) { s.queryTiers(b, kept, q, end, series) })
			}
			require.NoError(b, s.Close())
		})
	}
}

// queryTiers runs one query in every way. kept has a cache of rows and states.
func (s *stack) queryTiers(b *testing.B, kept *source, q tierQuestion, end, series int64) {
	for _, way := range []struct {
		name string
		from *source
		use  query.Switch
	}{
		{"states", s.source, query.On}, {"kept", kept, query.On},
		{"rows", s.source, query.Off}, {"decoded", kept, query.Off},
	} {
		b.Run(way.name, func(b *testing.B) {
			e, err := newEngine(query.Options{Queryable: way.from})
			require.NoError(b, err)
			one := func() {
				res, err := runQuery(e, q.text, end-q.spanDays*dayMs, end, q.step, query.Params{Tiers: way.use})
				require.NoError(b, err)
				res.Close()
			}
			one()
			before := processorTime(b)
			for b.Loop() {
				one()
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N)/float64(series)/1000, "cpu-µs/series")
		})
	}
}
