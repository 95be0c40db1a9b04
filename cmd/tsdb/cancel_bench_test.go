package main_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkDisconnect disconnects clients of heavy queries over 20,000 series at random moments. ms-max is the longest
// time until the server runs no query. ms-run is the duration of an undisturbed query.
func BenchmarkDisconnect(b *testing.B) {
	const series, breaks = 20_000, 40
	s := startServer(b, b.TempDir())
	to := time.Now().Truncate(time.Minute)
	from := to.Add(-15 * time.Minute)
	for at := from; at.Before(to); at = at.Add(15 * time.Second) {
		s.write(wave("heavy_total", series, at, at.Add(time.Second), 15*time.Second))
	}
	for _, text := range []string{
		`sum(rate(heavy_total[5m]))`,
		`max_over_time(sum(rate(heavy_total[5m]))[5m:5s])`,
		`heavy_total`,
	} {
		b.Run(text, func(b *testing.B) {
			target := s.url + "/api/v1/query_range?" + url.Values{
				"query": {text}, "start": {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)},
				"step": {"3"}, "nocache": {"1"},
			}.Encode()
			began := time.Now()
			require.NoError(b, queryAndRead(b.Context(), target))
			whole := time.Since(began)
			var longest time.Duration
			for b.Loop() {
				for range breaks {
					ctx, goAway := context.WithTimeout(b.Context(), rand.N(whole))
					err := queryAndRead(ctx, target)
					goAway()
					if err != nil {
						longest = max(longest, s.untilIdle(b))
					}
				}
			}
			b.ReportMetric(longest.Seconds()*1e3, "ms-max")
			b.ReportMetric(whole.Seconds()*1e3, "ms-run")
		})
	}
}

func queryAndRead(ctx context.Context, target string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// untilIdle waits until no query runs and returns how long that took.
func (s *server) untilIdle(b *testing.B) time.Duration {
	began := time.Now()
	for {
		_, a := s.get("/api/v1/status/active_queries", nil)
		if string(a.Data) == "[]" {
			return time.Since(began)
		}
		require.Less(b, time.Since(began), time.Minute, "%s", a.Data)
		time.Sleep(time.Millisecond)
	}
}
