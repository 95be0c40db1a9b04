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
	"halite/query/column"
	"halite/query/read"
)

// benchStack has series with samples at 15 s, in the tables.
func benchStack(b *testing.B, series int, samples int64) *stack {
	s := newStack(b)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	for i := range series {
		ls := labels.FromStrings("__name__", "requests_total",
			"instance", fmt.Sprintf("host-%03d", i/10), "job", fmt.Sprint(i%10), "le", leOf(i))
		var request []ingest.Sample
		for k := range samples {
			request = append(request, ingest.Sample{Labels: ls, TsMs: dataFrom + k*15_000, Value: float64(k * int64(i%7))})
		}
		s.write(request)
	}
	s.flush()
	s.options.StartTimes = false // as by default
	var err error
	s.source, err = newSource(s.options)
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	return s
}

func leOf(i int) string {
	return []string{"0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50", "+Inf"}[i%10]
}

// BenchmarkRead reads the last hour of all series into columns: 240,000 samples.
func BenchmarkRead(b *testing.B) {
	s := benchStack(b, 1000, 480)
	for b.Loop() {
		session := s.Reader().Session()
		sel, err := session.SelectRange(context.Background(),
			read.Range{TimeRange: column.TimeRange{MinMs: dataFrom + hourMs, MaxMs: dataFrom + 2*hourMs - 1}},
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
		session.Close()
		require.Equal(b, 240_000, samples)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/240_000, "ns/sample")
}

// BenchmarkRange queries an hour of 1,000 series at a step of 15 s, with operators and without.
func BenchmarkRange(b *testing.B) {
	for _, text := range []string{
		"sum by (job) (rate(requests_total[5m]))",
		"avg_over_time(requests_total[5m])",
		"max_over_time(requests_total[5m])",
		"topk(5, requests_total)",
		"sum by (job) (requests_total)",
		"histogram_quantile(0.9, sum by (le) (rate(requests_total[5m])))",
		"sum by (job) (rate(requests_total[5m])) / on (job) sum by (job) (requests_total)",
	} {
		r := query.RangeRequest{
			Query: text, Step: 15 * time.Second,
			Start: time.UnixMilli(dataFrom + hourMs), End: time.UnixMilli(dataFrom + 2*hourMs - 1),
		}
		for way, columns := range map[string]query.Switch{"columnar": query.On, "engine": query.Off} {
			b.Run(text+"/"+way, func(b *testing.B) {
				e, err := newEngine(query.Options{Queryable: benchStack(b, 1000, 480), Columnar: columns})
				require.NoError(b, err)
				for b.Loop() {
					res, err := e.Range(context.Background(), r)
					require.NoError(b, err)
					require.NotEmpty(b, res.Value)
					res.Close()
				}
			})
		}
	}
}

// BenchmarkInstant queries one step of 10,000 series.
func BenchmarkInstant(b *testing.B) {
	for _, text := range []string{"requests_total", "sum by (job) (rate(requests_total[5m]))"} {
		r := query.InstantRequest{Query: text, TimeMs: dataFrom + hourMs/2}
		for way, columns := range map[string]query.Switch{"columnar": query.On, "engine": query.Off} {
			b.Run(text+"/"+way, func(b *testing.B) {
				e, err := newEngine(query.Options{Queryable: benchStack(b, 10_000, 120), Columnar: columns})
				require.NoError(b, err)
				for b.Loop() {
					res, err := e.Instant(context.Background(), r)
					require.NoError(b, err)
					require.NotEmpty(b, res.Value)
					res.Close()
				}
			})
		}
	}
}
