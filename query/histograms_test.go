package query_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/storagetest/seeds"
)

// histogramMetrics are the metrics of newHistograms.
var histogramMetrics = []string{"hi", "hf", "hg", "hc", "turns"}

// TestAgainstPrometheusHistograms is TestAgainstPrometheus with native histograms among the series.
func TestAgainstPrometheusHistograms(t *testing.T) {
	seed := seeds.Number(t, "HALITE_SEED", defaultSeed)
	t.Logf("HALITE_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	compareHistograms(t, rng, func(t *testing.T, ours, theirs *query.Engine) {
		cases := seeds.Number(t, "HALITE_CASES", unlessShort(differentialCases, differentialCases/10))
		compareAll(t, exprs{Rand: rng, histograms: true}, ours, theirs, int(cases))
	})
}

// compareHistograms calls compare for each flush mode. Both engines have the same samples of both kinds.
func compareHistograms(t *testing.T, rng *rand.Rand, compare func(t *testing.T, ours, theirs *query.Engine)) {
	data, histograms := newDataset(rng), newHistograms(rng)
	theirs := newQueryEngine(t, prometheusWith(t, data, histograms), query.Off)
	for _, mode := range flushModes {
		t.Run(string(mode), func(t *testing.T) {
			s := newStack(t)
			defer func() { require.NoError(t, s.Close()) }()
			s.fill(shuffled(rng, append(data.history(rng), histograms...)), mode)
			small := s.options
			small.BatchRowsMax, small.Watch = 7, s.watch
			q, err := newSource(small)
			require.NoError(t, err)
			compare(t, newQueryEngine(t, q, query.On), theirs)
		})
	}
}

// prometheusWith loads both kinds of samples into Prometheus's storage.
func prometheusWith(t *testing.T, data dataset, histograms []ingest.Sample) promstorage.SampleAndChunkQueryable {
	s := prometheusOf(t, data).(*teststorage.TestStorage)
	app := s.Appender(context.Background())
	for _, h := range histograms {
		var err error
		switch {
		case h.H != nil:
			_, err = app.AppendHistogram(0, h.Labels, h.TsMs, h.H.Copy(), nil)
		case h.FH != nil:
			_, err = app.AppendHistogram(0, h.Labels, h.TsMs, nil, h.FH.Copy())
		default:
			_, err = app.Append(0, h.Labels, h.TsMs, h.Value)
		}
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	return s
}

// shuffled makes a tenth of the samples late.
func shuffled(rng *rand.Rand, list []ingest.Sample) []ingest.Sample {
	var onTime, late []ingest.Sample
	for _, s := range list {
		if rng.IntN(10) == 0 && (s.H != nil || s.FH != nil) {
			late = append(late, s)
		} else {
			onTime = append(onTime, s)
		}
	}
	rng.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
	return append(onTime, late...)
}

// newHistograms makes histograms: integer and float counters, gauges, custom buckets, and a series that alternates between
// integers, float histograms and floats. They have resets, stale markers and gaps, and change buckets, schema and bounds. The
// samples of each series are in order of time.
func newHistograms(rng *rand.Rand) (list []ingest.Sample) {
	for _, metric := range histogramMetrics {
		for inst := range 4 {
			ls := labels.FromStrings("__name__", metric, "job", fmt.Sprint(inst%2), "inst", fmt.Sprint(inst))
			source := histogramSource{Rand: rng, metric: metric}
			source.reset()
			for ts := dataFrom; ts < dataTo; ts += 30_000 {
				if rng.IntN(200) == 0 {
					ts += rng.Int64N(hourMs/2) / 30_000 * 30_000
				}
				s := source.next()
				s.Labels, s.TsMs = ls, ts
				list = append(list, s)
			}
		}
	}
	return list
}

// histogramSource makes the samples of one series.
type histogramSource struct {
	*rand.Rand
	metric string
	now    *histogram.Histogram
	kind   int // 0 integers, 1 float histograms, 2 floats
}

// reset begins with an empty histogram of a random layout.
func (g *histogramSource) reset() {
	h := &histogram.Histogram{Schema: int32(g.IntN(3)), ZeroThreshold: 0.001}
	if g.metric == "hc" {
		h.Schema, h.ZeroThreshold, h.CustomValues = histogram.CustomBucketsSchema, 0, []float64{1, 2, 5, 10, 20, 50}[:5+g.IntN(2)]
		h.PositiveSpans = []histogram.Span{{Length: 5}}
		h.PositiveBuckets = make([]int64, 5)
	} else {
		first, gap := int32(g.IntN(3)-1), 1+int32(g.IntN(2))
		h.PositiveSpans = []histogram.Span{{Offset: first, Length: 3}, {Offset: gap, Length: 2}}
		h.NegativeSpans = []histogram.Span{{Offset: 0, Length: 2}}
		h.PositiveBuckets, h.NegativeBuckets = make([]int64, 5), make([]int64, 2)
	}
	if g.metric == "hg" {
		h.CounterResetHint = histogram.GaugeType
	}
	g.now = h
}

// next returns the next sample; its time and labels are not set.
func (g *histogramSource) next() (s ingest.Sample) {
	switch {
	case g.IntN(150) == 0 && g.kind < 2:
		stale := math.Float64frombits(value.StaleNaN)
		if g.kind == 1 || g.metric == "hf" {
			return ingest.Sample{FH: &histogram.FloatHistogram{Sum: stale}}
		}
		return ingest.Sample{H: &histogram.Histogram{Sum: stale}}
	case g.IntN(100) == 0:
		g.reset()
	}
	if g.metric == "turns" && g.IntN(20) == 0 {
		g.kind = g.IntN(3)
	}
	if g.kind == 2 {
		return ingest.Sample{Value: g.Float64()}
	}
	g.observe()
	h := g.now.Copy()
	if g.metric == "hf" || g.kind == 1 {
		return ingest.Sample{FH: h.ToFloat(nil)}
	}
	return ingest.Sample{H: h}
}

// observe adds some observations.
func (g *histogramSource) observe() {
	h := g.now
	add := func(deltas []int64) {
		for range g.IntN(3) {
			at, n := g.IntN(len(deltas)), int64(g.IntN(4))
			deltas[at] += n
			if at+1 < len(deltas) {
				deltas[at+1] -= n
			}
			h.Count += uint64(n)
			h.Sum += float64(n) * g.Float64() * 4
		}
	}
	add(h.PositiveBuckets)
	if len(h.NegativeBuckets) > 0 {
		add(h.NegativeBuckets)
		n := uint64(g.IntN(2))
		h.ZeroCount += n
		h.Count += n
	}
}

// nearHistogram compares two histograms, counts to 1e-12. Prometheus's chunks add empty buckets, so it ignores buckets that
// are 0, or NaN as a product of 0.
func nearHistogram(a, b *histogram.FloatHistogram) bool {
	if a.Schema != b.Schema || a.ZeroThreshold != b.ZeroThreshold || !near(a.Count, b.Count) || !near(a.Sum, b.Sum) {
		return false
	}
	return slices.EqualFunc(filledBuckets(a), filledBuckets(b), func(a, b histogram.Bucket[float64]) bool {
		return a.Lower == b.Lower && a.Upper == b.Upper && near(a.Count, b.Count)
	})
}

func filledBuckets(h *histogram.FloatHistogram) (list []histogram.Bucket[float64]) {
	for it := h.AllBucketIterator(); it.Next(); {
		if b := it.At(); b.Count != 0 && !math.IsNaN(b.Count) {
			list = append(list, b)
		}
	}
	return list
}
