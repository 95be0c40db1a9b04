package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/ingest"
	"halite/query"
	"halite/query/querylog"
)

// BenchmarkSmallRequests queries one series of 6,300, each time at another time, with result cache and query log. It leaves
// out connections.
func BenchmarkSmallRequests(b *testing.B) {
	s := newStack(b)
	now := comparison.Now().UnixMilli()
	var samples []ingest.Sample
	for i := range 6300 {
		ls := labels.FromStrings("__name__", fmt.Sprintf("metric_%02d", i/63), "instance", fmt.Sprintf("host-%02d:9100", i%63),
			"job", "node", "region", "west", "zone", "a", "env", "production", "team", "b")
		for k := range int64(20) {
			samples = append(samples, ingest.Sample{Labels: ls, TsMs: now - k*15_000, Value: float64(i)})
		}
	}
	result, err := s.ingester.Write(b.Context(), ingest.SamplesInput(samples))
	require.NoError(b, err)
	require.Zero(b, result.Rejected)
	log, err := querylog.Open(querylog.Options{ActiveFile: filepath.Join(b.TempDir(), "active"), Slots: 4})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, log.Close()) })
	handler := s.server(b, query.Options{Changes: s.ingester, Log: log}).Handler()
	for _, text := range []string{
		`vector(1)`, `metric_07{instance="host-09:9100"}`, `sum(rate(metric_07{instance="host-09:9100"}[5m]))`,
		`absent(metric_07{instance="none"})`, `count(metric_07{instance=~".*1.*"})`, `count by (__name__) ({instance="host-09:9100"})`,
	} {
		sent := 0
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sent++
				at := fmt.Sprintf("&time=%.3f", float64(now-int64(sent%100_000))/1000)
				benchmarkGet(b, handler, "/api/v1/query?query="+url.QueryEscape(text)+at)
			}
		})
	}
	for _, target := range []string{
		`/api/v1/labels?match[]={instance="host-09:9100"}`, `/api/v1/series?match[]=metric_07{instance=~".*1.*"}`,
		`/api/v1/label/__name__/values?match[]={instance="host-09:9100"}`,
	} {
		bounds := fmt.Sprintf("&start=%d&end=%d", now/1000-3600, now/1000)
		b.Run(target, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchmarkGet(b, handler, target+bounds)
			}
		})
	}
}

func benchmarkGet(b *testing.B, handler http.Handler, target string) {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.Fatal(w.Code, w.Body)
	}
}
