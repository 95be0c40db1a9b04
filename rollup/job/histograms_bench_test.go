package job

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/storage"
)

// latencies counts log-normal latencies in buckets of schema 3, or in custom buckets.
type latencies struct {
	*rand.Rand
	counts []int64
	bounds []float64 // nil for exponential buckets
	sum    float64
}

func (l *latencies) observe(n int) {
	for range n {
		v := 0.02 * math.Exp(l.NormFloat64())
		at := int(math.Ceil(math.Log2(v/0.0003) * 8))
		if l.bounds != nil {
			for at = 0; at < len(l.bounds) && v > l.bounds[at]; at++ {
			}
		}
		l.counts[min(max(at, 0), len(l.counts)-1)]++
		l.sum += v
	}
}

// sample returns the counter, without the empty buckets at both ends.
func (l *latencies) sample(tsMs int64) histchunk.Sample {
	h := &histogram.Histogram{Schema: 3, ZeroThreshold: 1e-128, Sum: l.sum}
	if l.bounds != nil {
		h.Schema, h.ZeroThreshold, h.CustomValues = histogram.CustomBucketsSchema, 0, l.bounds
	}
	before := int64(0)
	for _, n := range l.counts {
		h.PositiveBuckets = append(h.PositiveBuckets, n-before)
		h.Count, before = h.Count+uint64(n), n
	}
	h.PositiveSpans = []histogram.Span{{Length: uint32(len(l.counts))}}
	if l.bounds == nil {
		h.PositiveSpans[0].Offset = -93
		h.Compact(0)
	}
	return histchunk.Sample{TsMs: tsMs, H: h}
}

// BenchmarkHistogramSize reports the bytes of hourly histograms for each histogram sample at 15 s: the bytes of the
// cells, and the bytes of the table on disk after a compaction, with keys and marks.
func BenchmarkHistogramSize(b *testing.B) {
	bounds := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	for _, w := range []struct {
		name      string
		perScrape int
		bounds    []float64
	}{{"idle", 0, nil}, {"rate-1", 15, nil}, {"rate-100", 1500, nil}, {"custom", 150, bounds}} {
		b.Run(w.name, func(b *testing.B) {
			const count = 20
			r := openRig(b, vfs.NewMem(), newClock(firstDay+1), nil)
			defer r.close(b)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range count {
				l := &latencies{Rand: rng, counts: make([]int64, 96), bounds: w.bounds}
				if w.bounds != nil {
					l.counts = make([]int64, len(w.bounds)+1)
				}
				l.observe(5000)
				b.StopTimer()
				r.histogramDay(b, newSeries(i), l, w.perScrape)
				b.StartTimer()
			}
			r.clock.Add(keyschema.HourMs)
			for b.Loop() {
				require.NoError(b, r.Rebuild(context.Background(), firstDay, firstDay))
			}
			cells := 0
			it := r.Table.ReadRows(context.Background(), allRows(), storage.ReadOptions{})
			for it.Next() {
				for _, c := range it.Row().Cells {
					cells += len(c.Value)
				}
			}
			require.NoError(b, it.Close())
			base, err := r.store.Table(context.Background(), storage.TableRollup)
			require.NoError(b, err)
			spans := base.(storage.SpanTable)
			span := storage.CellSpan{
				Family: storage.FamilyHours, Rows: allRows().Ranges, FromDay: firstDay, ToDay: firstDay + 1,
			}
			require.NoError(b, r.store.Sync(context.Background()))
			require.NoError(b, spans.Reclaim(context.Background(), span))
			disk, err := spans.SpanBytes(context.Background(), span)
			require.NoError(b, err)
			b.ReportMetric(float64(cells)/(count*benchSamples), "B/sample")
			b.ReportMetric(float64(disk)/(count*benchSamples), "disk-B/sample")
		})
	}
}

// histogramDay writes a day of a series.
func (r *rig) histogramDay(b *testing.B, s *series, l *latencies, perScrape int) {
	b.Helper()
	var encoder histchunk.Encoder
	muts := make([]storage.RowMutation, keyschema.DayHours)
	for h := range int64(keyschema.DayHours) {
		hour := firstDay*keyschema.DayHours + h
		var samples []histchunk.Sample
		for ts := keyschema.HourStartMs(hour) + 7000; ts < keyschema.HourStartMs(hour+1); ts += benchInterval {
			l.observe(max(0, int(float64(perScrape)+math.Sqrt(float64(perScrape))*l.NormFloat64())))
			samples = append(samples, l.sample(ts+l.Int64N(3)))
		}
		value, err := encoder.Append(nil, keyschema.HourStartMs(hour), samples)
		require.NoError(b, err, fmt.Sprint(hour))
		muts[int64(keyschema.DayHours)-1-h] = storage.RowMutation{
			Key: keyschema.AppendHour(bytes.Clone(s.prefix), hour),
			Entries: []storage.Entry{{Kind: storage.SetCell, Family: storage.FamilyHistograms, TsMs: keyschema.HourCellMs(hour),
				Qualifier: keyschema.AppendChunkQualifier(nil, 1), Value: value}},
		}
	}
	require.NoError(b, r.raw.Load(context.Background(), muts))
}
