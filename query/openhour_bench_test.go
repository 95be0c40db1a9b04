package query_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// openHourSeries is the number of series of BenchmarkOpenHour: 25 metrics with four series on each of 1,000 hosts.
const openHourSeries = 100_000

// openHourStack has samples of the first minutes of the current hour, 15 s apart.
func openHourStack(b *testing.B, minutes int64) *stack {
	clock := new(atomic.Int64)
	clock.Store(dataFrom + minutes*60_000)
	s := openStackWith(b, vfs.NewMem(), stackOptions{clock: clock})
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	series := make([]labels.Labels, openHourSeries)
	for i := range series {
		series[i] = labels.FromStrings("__name__", fmt.Sprintf("node_metric_%02d_total", i/4%25),
			"cpu", fmt.Sprint(i%4), "instance", fmt.Sprintf("host-%04d", i/100), "job", fmt.Sprint(i/100%10))
	}
	request := make([]ingest.Sample, 0, 10_000)
	for k := range minutes * 4 {
		for i, ls := range series {
			value := float64((k + int64(i)%5) * int64(100+i%7))
			request = append(request, ingest.Sample{Labels: ls, TsMs: dataFrom + k*15_000, Value: value})
			if len(request) == cap(request) {
				s.write(request)
				request = request[:0]
			}
		}
	}
	return s
}

// BenchmarkOpenHour queries the current hour, mostly with instant queries. Its samples are in the head or in the tables. The
// row cache has its default size. The benchmark reports CPU time.
func BenchmarkOpenHour(b *testing.B) {
	for _, minutes := range []int64{5, 50} {
		s := openHourStack(b, minutes)
		for _, place := range []flushMode{inHead, inTables} {
			if place == inTables {
				s.flush()
			}
			e, err := newEngine(query.Options{Queryable: s.withRowCache(0)})
			require.NoError(b, err)
			for name, text := range map[string]string{
				"count_by_name":    `count by (__name__) ({job!=""})`,
				"names_of_host":    `{__name__=~"node_metric_.*",instance="host-0500"}`,
				"names":            `{__name__=~"node_metric_0[0-4]_total"}`,
				"sum_rate_5m":      `sum(rate(node_metric_03_total[5m]))`,
				"sum_rate_1h":      `sum(rate(node_metric_03_total[1h]))`,
				"avg_without_rate": `avg without (cpu) (rate(node_metric_03_total[5m]))`,
				"max_15m":          `max by (job) (max_over_time(node_metric_03_total[15m]))`,
			} {
				r := query.InstantRequest{Query: text, TimeMs: dataFrom + minutes*60_000}
				benchmarkCPU(b, fmt.Sprintf("%dm/%s/%s", minutes, name, place), func() (*query.Result, error) {
					return e.Instant(context.Background(), r)
				})
			}
			r := query.RangeRequest{
				Query: `sum by (job) (rate(node_metric_03_total[5m]))`, Start: time.UnixMilli(dataFrom),
				End: time.UnixMilli(dataFrom + minutes*60_000), Step: time.Minute,
			}
			benchmarkCPU(b, fmt.Sprintf("%dm/range/%s", minutes, place), func() (*query.Result, error) {
				return e.Range(context.Background(), r)
			})
		}
	}
}

// benchmarkCPU reports the CPU time of a query.
func benchmarkCPU(b *testing.B, name string, run func() (*query.Result, error)) {
	b.Run(name, func(b *testing.B) {
		began := cpuTime(b)
		for b.Loop() {
			res, err := run()
			require.NoError(b, err)
			require.NotEmpty(b, res.Value)
			res.Close()
		}
		b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
