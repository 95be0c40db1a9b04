package main_test

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSmallQueriesInFlood has 16 clients send one large query after another, over 20,000 series, while one client sends
// small queries over one series. ms-p50, ms-p95 and ms-max are the times of the small ones, large/s the rate of the others.
func BenchmarkSmallQueriesInFlood(b *testing.B) {
	const series, floods, queries = 20_000, 16, 100
	s := startServer(b, b.TempDir())
	to := time.Now().Truncate(time.Minute)
	from := to.Add(-15 * time.Minute)
	for at := from; at.Before(to); at = at.Add(15 * time.Second) {
		s.write(wave("heavy_total", series, at, at.Add(time.Second), 15*time.Second))
		s.write(wave("light_total", 1, at, at.Add(time.Second), 15*time.Second))
	}
	urlOf := func(text string) string {
		return s.url + "/api/v1/query_range?" + url.Values{
			"query": {text}, "start": {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)},
			"step": {"1"}, "nocache": {"1"},
		}.Encode()
	}
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		var flood sync.WaitGroup
		answered := make([]int, floods)
		began := time.Now()
		for i := range floods {
			flood.Go(func() {
				for queryAndRead(ctx, urlOf(`max_over_time(sum(rate(heavy_total[5m]))[5m:1s])`)) == nil {
					answered[i]++
				}
			})
		}
		time.Sleep(3 * time.Second)
		var took []time.Duration
		for range queries {
			at := time.Now()
			require.NoError(b, queryAndRead(b.Context(), urlOf(`rate(light_total[5m])`)))
			took = append(took, time.Since(at))
			time.Sleep(100 * time.Millisecond)
			if time.Since(began) > 50*time.Second {
				break
			}
		}
		stop()
		flood.Wait()
		slices.Sort(took)
		total := 0
		for _, n := range answered {
			total += n
		}
		for name, d := range map[string]time.Duration{
			"ms-p50": took[len(took)/2], "ms-p95": took[len(took)*95/100], "ms-max": took[len(took)-1],
		} {
			b.ReportMetric(d.Seconds()*1e3, name)
		}
		b.ReportMetric(float64(total)/time.Since(began).Seconds(), "large/s")
		b.ReportMetric(float64(len(took)), "queries")
	}
}
