package query_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

const (
	histogramSeries  = 1000
	histogramSamples = 240
	histogramBuckets = 24
	histogramStepMs  = 15_000
)

// BenchmarkHistograms queries an hour of 1,000 native histograms, on Halite's storage and on Prometheus's.
func BenchmarkHistograms(b *testing.B) {
	ours := openStackWith(b, vfs.NewMem(), stackOptions{})
	b.Cleanup(func() { require.NoError(b, ours.Close()) })
	theirs := teststorage.New(b)
	fillHistograms(b, ours, theirs)
	ours.flush()
	for name, storage := range map[string]promstorage.SampleAndChunkQueryable{"halite": ours, "prometheus": theirs} {
		for _, text := range []string{
			"histogram_quantile(0.9, sum by (job) (rate(latency[5m])))", "sum(rate(latency[5m]))", "histogram_count(rate(latency[5m]))",
			"sum(histogram_count(latency))",
		} {
			b.Run(name+"/"+text, func(b *testing.B) {
				e, err := newEngine(query.Options{Queryable: storage})
				require.NoError(b, err)
				r := query.RangeRequest{
					Query: text, Step: time.Minute, Start: time.UnixMilli(dataFrom), End: time.UnixMilli(dataFrom + hourMs - 1),
				}
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

// fillHistograms writes counters of about 15 observations between two samples to both storages.
func fillHistograms(b *testing.B, ours *stack, theirs *teststorage.TestStorage) {
	rng := rand.New(rand.NewPCG(1, 2))
	counts := make([][histogramBuckets]int64, histogramSeries)
	sums := make([]float64, histogramSeries)
	for n := range histogramSamples {
		samples := make([]ingest.Sample, histogramSeries)
		app := theirs.Appender(context.Background())
		for s := range samples {
			for range 15 {
				v := min(max(rng.NormFloat64()*4+12, 0), histogramBuckets-1)
				counts[s][int(v)]++
				sums[s] += v
			}
			ls := labels.FromStrings("__name__", "latency", "instance", fmt.Sprint(s), "job", fmt.Sprint(s%10))
			h := histogramOf(counts[s], sums[s])
			samples[s] = ingest.Sample{Labels: ls, TsMs: dataFrom + int64(n)*histogramStepMs, H: h}
			_, err := app.AppendHistogram(0, ls, samples[s].TsMs, h.Copy(), nil)
			require.NoError(b, err)
		}
		ours.write(samples)
		require.NoError(b, app.Commit())
	}
}

func histogramOf(counts [histogramBuckets]int64, sum float64) *histogram.Histogram {
	h := &histogram.Histogram{
		Schema: 3, ZeroThreshold: 1e-128, Sum: sum, PositiveSpans: []histogram.Span{{Offset: -10, Length: histogramBuckets}},
	}
	last := int64(0)
	for _, n := range counts {
		h.Count += uint64(n)
		h.PositiveBuckets = append(h.PositiveBuckets, n-last)
		last = n
	}
	return h
}
