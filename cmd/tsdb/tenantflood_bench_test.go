package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkTenantFlood measures small queries and writes of one tenant alone, and while another tenant has 30 range queries over
// 2,000 series, or 30 writes, under way. p50 and p95 are of the small requests, flood/s is the rate of the other tenant.
// "bound" has the bounds of a tenant while others are active, "free" has none.
func BenchmarkTenantFlood(b *testing.B) {
	b.Run("free", func(b *testing.B) {
		tenantFlood(b, "--tenants.max-shared-queries=1000", "--tenants.max-shared-writes=1000")
	})
	b.Run("bound", func(b *testing.B) { tenantFlood(b) })
}

func tenantFlood(b *testing.B, flags ...string) {
	const clients, asked = 30, 300
	s := startTenants(b, b.TempDir(), append(flags, "--no-web.self-scrape")...)
	now := time.Now().Truncate(time.Minute)
	text := func(series, from int, at time.Time) string {
		var out strings.Builder
		for i := range series {
			fmt.Fprintf(&out, "m{i=\"%d\",job=\"j\"} %d %d\n", from+i, i, at.UnixMilli())
		}
		return out.String()
	}
	for at := now.Add(-time.Hour); !at.After(now); at = at.Add(15 * time.Second) {
		for who, series := range map[string]int{"acme": 2000, "beta": 3} {
			status, answer := s.ask(who, "", http.MethodPost, "/api/v1/import/prometheus", text(series, 0, at))
			require.Less(b, status, 300, answer)
		}
	}
	heavy := "/api/v1/query_range?" + url.Values{
		"query": {"sum by (i) (rate(m[5m]))"}, "start": {strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)},
		"end": {strconv.FormatInt(now.Unix(), 10)}, "step": {"15"}, "nocache": {"1"},
	}.Encode()
	small := "/api/v1/query?" + url.Values{
		"query": {"sum(m)"}, "time": {strconv.FormatInt(now.Unix(), 10)}, "nocache": {"1"},
	}.Encode()
	send := func(ctx context.Context, who, target, body string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+target, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+who)
		return discardAnswer(http.DefaultClient.Do(req))
	}
	floods := map[string]func(ctx context.Context, n int64) error{
		"none":    nil,
		"queries": func(ctx context.Context, _ int64) error { return send(ctx, "acme", heavy, "") },
		"writes": func(ctx context.Context, n int64) error {
			return send(ctx, "acme", "/api/v1/import/prometheus", text(2000, 0, now.Add(time.Duration(n)*time.Millisecond)))
		},
	}
	requests := map[string]func(n int64) error{
		"query": func(int64) error { return send(b.Context(), "beta", small, "") },
		"write": func(n int64) error {
			return send(b.Context(), "beta", "/api/v1/import/prometheus", text(3, 0, now.Add(time.Duration(n)*time.Millisecond)))
		},
	}
	for _, flood := range []string{"none", "queries", "writes"} {
		for _, request := range []string{"query", "write"} {
			b.Run("flood="+flood+"/"+request, func(b *testing.B) {
				for b.Loop() {
					measureInFlood(b, floods[flood], requests[request], clients, asked)
				}
			})
		}
	}
}

// measureInFlood sends requests one after the other while clients send others.
func measureInFlood(
	b *testing.B, flood func(ctx context.Context, n int64) error, request func(n int64) error, clients, asked int,
) {
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	var sent atomic.Int64
	began := time.Now()
	for range clients {
		if flood != nil {
			running.Go(func() {
				for ctx.Err() == nil {
					_ = flood(ctx, sent.Add(1)) // refusals are part of the flood
				}
			})
		}
	}
	time.Sleep(2 * time.Second)
	var took []time.Duration
	for n := range asked {
		at := time.Now()
		require.NoError(b, request(int64(n)))
		took = append(took, time.Since(at))
		time.Sleep(20 * time.Millisecond)
		if time.Since(began) > 40*time.Second {
			break
		}
	}
	elapsed := time.Since(began).Seconds()
	stop()
	running.Wait()
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms-p50")
	b.ReportMetric(took[len(took)*95/100].Seconds()*1e3, "ms-p95")
	b.ReportMetric(float64(sent.Load())/elapsed, "flood/s")
}

// discardAnswer reads and forgets an answer.
func discardAnswer(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
