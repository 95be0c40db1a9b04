package query_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/query"
)

// BenchmarkCancel cancels heavy queries over 100,000 series at random moments. ms-max is the longest time from the
// cancellation to the end of the query. ms-run is the duration of an undisturbed query.
func BenchmarkCancel(b *testing.B) {
	const breaks = 40
	s := benchStack(b, 100_000, 60)
	e, err := newEngine(query.Options{Queryable: s.source})
	require.NoError(b, err)
	for _, text := range []string{
		`sum by (job) (rate(requests_total[5m]))`,
		`quantile by (job) (0.9, requests_total)`,
		`topk(10, requests_total * on (instance, job, le) requests_total)`,
		`count by (instance) ({__name__=~".+"})`,
		`max_over_time(sum by (job) (rate(requests_total[2m]))[5m:15s])`,
		`sort(label_replace(requests_total, "x", "$1", "instance", "host-(.*)"))`,
	} {
		r := query.RangeRequest{
			Query: text, Step: 30 * time.Second, Start: time.UnixMilli(dataFrom), End: time.UnixMilli(dataFrom + 15*60_000),
		}
		b.Run(text, func(b *testing.B) {
			began := time.Now()
			res, err := e.Range(b.Context(), r)
			require.NoError(b, err)
			res.Close()
			whole := time.Since(began)
			var longest time.Duration
			for b.Loop() {
				for range breaks {
					longest = max(longest, breakOff(b, e, r, rand.N(whole)))
				}
			}
			b.ReportMetric(longest.Seconds()*1e3, "ms-max")
			b.ReportMetric(whole.Seconds()*1e3, "ms-run")
		})
	}
}

// breakOff cancels a query after a delay and returns the time until the query ends. It returns 0 if the query had already
// ended.
func breakOff(b *testing.B, e *query.Engine, r query.RangeRequest, after time.Duration) time.Duration {
	ctx, cancel := context.WithCancel(b.Context())
	var broken time.Time
	stop := time.AfterFunc(after, func() {
		broken = time.Now()
		cancel()
	})
	res, err := e.Range(ctx, r)
	ended := time.Now()
	if stop.Stop() || err == nil {
		if err == nil {
			res.Close()
		}
		cancel()
		return 0
	}
	var typed *query.Error
	require.True(b, errors.As(err, &typed) && typed.Type == query.ErrorCanceled, "%v", err)
	<-ctx.Done()
	return ended.Sub(broken)
}
