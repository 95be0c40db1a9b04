package query_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/query"
)

// BenchmarkSubquery queries six hours of 1,000 series at a step of a minute, and one step, with operators and without.
func BenchmarkSubquery(b *testing.B) {
	s := benchStack(b, 1000, 8*240)
	for _, text := range []string{
		"max_over_time(rate(requests_total[5m])[1h:1m])",
		"sum by (job) (avg_over_time(rate(requests_total[5m])[1h:1m]))",
		"max_over_time(avg_over_time(rate(requests_total[5m])[10m:1m])[30m:5m])",
		"avg_over_time((sum by (job) (rate(requests_total[5m])) / sum by (job) (requests_total))[1h:1m])",
		"quantile_over_time(0.9, sum by (job) (rate(requests_total[5m]))[1h:1m])",
		"count_over_time((rate(requests_total[5m]) > bool 0.1)[1h:1m])",
		"max_over_time(avg_over_time(requests_total[1h])[1h:1m])",
		"stddev_over_time(rate(requests_total[5m])[1h:1m])",
	} {
		for way, columns := range map[string]query.Switch{"columnar": query.On, "engine": query.Off} {
			e, err := newEngine(query.Options{Queryable: s, Columnar: columns, ResultCacheBytes: -1})
			require.NoError(b, err)
			to := time.UnixMilli(dataFrom + 8*hourMs - 1)
			for kind, run := range map[string]func() (*query.Result, error){
				"range": func() (*query.Result, error) {
					return e.Range(context.Background(), query.RangeRequest{
						Query: text, Step: time.Minute, Start: to.Add(-6 * time.Hour), End: to,
					})
				},
				"instant": func() (*query.Result, error) {
					return e.Instant(context.Background(), query.InstantRequest{Query: text, TimeMs: to.UnixMilli()})
				},
			} {
				b.Run(text+"/"+kind+"/"+way, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						res, err := run()
						require.NoError(b, err)
						require.NotEmpty(b, res.Value)
						res.Close()
					}
				})
			}
		}
	}
}
