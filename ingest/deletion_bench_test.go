package ingest

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
)

// BenchmarkDelete has 100,000 series of one metric with samples in an hour of each of ten closed days. It deletes one
// series, a tenth, or all of them, and cleans. It reports the time until the response, the time for which flushes wait,
// the time until the lists are exact, and the time of cleaning.
func BenchmarkDelete(b *testing.B) {
	const series, days = 100_000, 10
	for name, sel := range map[string][]string{
		"one": {"__name__", "=", "m", "x", "=", "77"}, "tenth": {"__name__", "=", "m", "x", "=~", ".+7"}, "all": {"__name__", "=", "m"},
	} {
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			for range b.N {
				b.StopTimer()
				c := ingesttest.NewClock()
				r, err := deletionRig(b, vfs.NewMem(), c, nil)
				require.NoError(b, err)
				for day := range int64(days) {
					var some []Sample
					for n := range series {
						ls := labels.FromStrings("__name__", "m", "x", fmt.Sprint(n))
						tsMs := c.Now().UnixMilli() - (days-day)*keyschema.DayHours*keyschema.HourMs
						some = append(some, Sample{Labels: ls, TsMs: tsMs, Value: float64(n)})
					}
					_, err := r.Ingester.Write(ctx, SamplesInput(some))
					require.NoError(b, err)
				}
				r.flush()
				require.NoError(b, r.maintain(ctx))
				b.StartTimer()
				began := time.Now()
				r.delete(0, math.MaxInt64, match(b, sel...))
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/delete")
				began = time.Now()
				require.NoError(b, r.deleter.CleanIndex(ctx))
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/lists")
				began = time.Now()
				_, err = r.CleanTombstones(ctx)
				require.NoError(b, err)
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/clean")
				b.StopTimer()
				r.close()
			}
		})
	}
}
