package query_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// benchStack has 1,000 series of two hours at 15 s, in the tables.
func benchStack(b *testing.B) *stack {
	s := newStack(b)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	for i := range 1000 {
		ls := labels.FromStrings("__name__", "requests_total",
			"instance", fmt.Sprintf("host-%03d", i), "job", fmt.Sprint(i%10))
		var request []ingest.Sample
		for k := range int64(480) {
			request = append(request, ingest.Sample{Labels: ls, TsMs: dataFrom + k*15_000, Value: float64(k * int64(i%7))})
		}
		s.write(request)
	}
	s.flush()
	b.ReportAllocs()
	b.ResetTimer()
	return s
}

// BenchmarkRead reads the last hour of all series into columns: 240,000 samples.
func BenchmarkRead(b *testing.B) {
	s := benchStack(b)
	for b.Loop() {
		sel, err := s.Select(context.Background(), dataFrom+hourMs, dataFrom+2*hourMs-1, nil,
			labels.MustNewMatcher(labels.MatchEqual, "__name__", "requests_total"))
		require.NoError(b, err)
		samples := 0
		for i := range sel.Batches() {
			batch, err := sel.Read(context.Background(), i)
			require.NoError(b, err)
			for _, c := range batch.Columns {
				samples += len(c.TsMs)
			}
			batch.Release()
		}
		sel.Close()
		require.Equal(b, 240_000, samples)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/240_000, "ns/sample")
}

// BenchmarkSumRate asks for sum by (job) (rate(…[5m])) over an hour at a step of 15 s.
func BenchmarkSumRate(b *testing.B) {
	s := benchStack(b)
	e, err := query.New(query.Options{Queryable: s})
	require.NoError(b, err)
	r := query.RangeRequest{
		Query: "sum by (job) (rate(requests_total[5m]))", Step: 15 * time.Second,
		Start: time.UnixMilli(dataFrom + hourMs), End: time.UnixMilli(dataFrom + 2*hourMs - 1),
	}
	for b.Loop() {
		res, err := e.Range(context.Background(), r)
		require.NoError(b, err)
		require.Len(b, res.Value, 10)
		res.Close()
	}
}
