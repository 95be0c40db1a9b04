package histchunk

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

const (
	benchSamples = 240 // an hour at 15 s
	benchSeries  = 10
	peerSamples  = 120 // in a chunk of Prometheus
)

// workload makes the histogram of a series at each scrape.
type workload struct {
	name   string
	scrape func(r *rand.Rand) func() Sample
}

var workloads = []workload{
	{"idle", latencies(5000, 0)},
	{"rate-1", latencies(5000, 15)},
	{"rate-1-fresh", latencies(0, 15)},
	{"rate-100", latencies(100_000, 1500)},
	{"gauge", gauges},
	{"custom", customBuckets},
	{"float-rate", floatRates},
}

// latencies observes log-normal latencies in a native histogram of client_golang: some before the hour, and about perScrape
// between two scrapes.
func latencies(before, perScrape int) func(r *rand.Rand) func() Sample {
	return func(r *rand.Rand) func() Sample {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", NativeHistogramBucketFactor: 1.1})
		observe := func(n int) {
			for range n {
				h.Observe(0.02 * math.Exp(r.NormFloat64()))
			}
		}
		observe(before)
		return func() Sample {
			n := float64(perScrape)
			observe(max(int(math.Round(n+math.Sqrt(n)*r.NormFloat64())), 0))
			return Sample{H: readHistogram(h)}
		}
	}
}

// readHistogram converts what client_golang exposes.
func readHistogram(h prometheus.Histogram) *histogram.Histogram {
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		panic(err)
	}
	p := m.Histogram
	out := &histogram.Histogram{Schema: p.GetSchema(), ZeroThreshold: p.GetZeroThreshold(), ZeroCount: p.GetZeroCount(),
		Count: p.GetSampleCount(), Sum: p.GetSampleSum(), PositiveBuckets: p.PositiveDelta, NegativeBuckets: p.NegativeDelta}
	for _, s := range p.PositiveSpan {
		out.PositiveSpans = append(out.PositiveSpans, histogram.Span{Offset: s.GetOffset(), Length: s.GetLength()})
	}
	for _, s := range p.NegativeSpan {
		out.NegativeSpans = append(out.NegativeSpans, histogram.Span{Offset: s.GetOffset(), Length: s.GetLength()})
	}
	return out
}

// gauges measures 500 items at each scrape.
func gauges(r *rand.Rand) func() Sample {
	return func() Sample {
		s := latencies(500, 0)(r)()
		s.H.CounterResetHint = histogram.GaugeType
		return s
	}
}

// customBuckets counts 10 latencies a second in the default buckets of client_golang.
func customBuckets(r *rand.Rand) func() Sample {
	bounds, counts, sum := prometheus.DefBuckets, make([]int64, len(prometheus.DefBuckets)+1), 0.0
	return func() Sample {
		for range 150 {
			v, at := 0.02*math.Exp(r.NormFloat64()), 0
			for at < len(bounds) && v > bounds[at] {
				at++
			}
			counts[at]++
			sum += v
		}
		h := &histogram.Histogram{Schema: histogram.CustomBucketsSchema, CustomValues: bounds, Sum: sum,
			PositiveSpans: []histogram.Span{{Length: uint32(len(counts))}}}
		before := int64(0)
		for _, c := range counts {
			h.Count += uint64(c)
			h.PositiveBuckets = append(h.PositiveBuckets, c-before)
			before = c
		}
		return Sample{H: h}
	}
}

// floatRates are the rates over a minute of a histogram with 100 observations a second.
func floatRates(r *rand.Rand) func() Sample {
	scrape := latencies(100_000, 1500)(r)
	var window []*histogram.FloatHistogram
	for range 4 {
		window = append(window, scrape().H.ToFloat(nil))
	}
	return func() Sample {
		window = append(window[1:], scrape().H.ToFloat(nil))
		rate, _, _, err := window[3].Copy().Sub(window[0])
		if err != nil {
			panic(err)
		}
		rate.CounterResetHint = histogram.GaugeType
		return Sample{FH: rate.Mul(1.0 / 60)}
	}
}

// hours returns one hour of each series of a workload. A scrape is a few milliseconds early or late.
func (w workload) hours() [][]Sample {
	r := rand.New(rand.NewPCG(1, 2))
	hours := make([][]Sample, benchSeries)
	for i := range hours {
		scrape := w.scrape(r)
		for k := range benchSamples {
			s := scrape()
			s.TsMs = testHourMs + int64(k)*15_000 + 7000 + r.Int64N(3)
			hours[i] = append(hours[i], s)
		}
	}
	return hours
}

// peerEncode packs samples into chunks of Prometheus.
func peerEncode(tb testing.TB, samples []Sample) (chunks []chunkenc.Chunk) {
	for len(samples) > 0 {
		n := min(len(samples), peerSamples)
		chunks = append(chunks, peerChunks(tb, samples[:n])...)
		samples = samples[n:]
	}
	return chunks
}

// peerChunks packs samples into one chunk, or into several if their layouts differ too much. If buckets appear, the
// appender rewrites the chunk.
func peerChunks(tb testing.TB, samples []Sample) (chunks []chunkenc.Chunk) {
	var c chunkenc.Chunk = chunkenc.NewHistogramChunk()
	if samples[0].FH != nil {
		c = chunkenc.NewFloatHistogramChunk()
	}
	app, err := c.Appender()
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range samples {
		var next chunkenc.Chunk
		var recoded bool
		if s.H != nil {
			next, recoded, app, err = app.AppendHistogram(nil, 0, s.TsMs, s.H, false)
		} else {
			next, recoded, app, err = app.AppendFloatHistogram(nil, 0, s.TsMs, s.FH, false)
		}
		if err != nil {
			tb.Fatal(err)
		}
		if next != nil {
			if !recoded {
				chunks = append(chunks, c)
			}
			c = next
		}
	}
	return append(chunks, c)
}

// reportPerSample adds the figures of one sample.
func reportPerSample(b *testing.B, samples, sizeBytes int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchSamples), "ns/sample")
	b.ReportMetric(float64(sizeBytes)/float64(samples), "B/sample")
}

func BenchmarkEncode(b *testing.B) {
	for _, w := range workloads {
		hours := w.hours()
		b.Run(w.name+"/halite", func(b *testing.B) {
			var e Encoder
			var dst []byte
			size := 0
			for _, h := range hours {
				encoded, err := e.Append(nil, testHourMs, h)
				if err != nil {
					b.Fatal(err)
				}
				size += len(encoded)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				dst, _ = e.Append(dst[:0], testHourMs, hours[i%benchSeries])
			}
			reportPerSample(b, benchSeries*benchSamples, size)
		})
		b.Run(w.name+"/prometheus", func(b *testing.B) {
			size := 0
			for _, h := range hours {
				for _, c := range peerEncode(b, h) {
					size += len(c.Bytes())
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				peerEncode(b, hours[i%benchSeries])
			}
			reportPerSample(b, benchSeries*benchSamples, size)
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, w := range workloads {
		hours := w.hours()
		b.Run(w.name+"/halite", func(b *testing.B) {
			var encoded [][]byte
			size := 0
			for _, h := range hours {
				c, err := new(Encoder).Append(nil, testHourMs, h)
				if err != nil {
					b.Fatal(err)
				}
				encoded, size = append(encoded, c), size+len(c)
			}
			var d Decoder
			var dst []Sample
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				var err error
				if dst, err = d.Decode(encoded[i%benchSeries], testHourMs, dst[:0]); err != nil {
					b.Fatal(err)
				}
			}
			reportPerSample(b, benchSeries*benchSamples, size)
		})
		b.Run(w.name+"/prometheus", func(b *testing.B) {
			var encoded [][]chunkenc.Chunk
			size := 0
			for _, h := range hours {
				chunks := peerEncode(b, h)
				for _, c := range chunks {
					size += len(c.Bytes())
				}
				encoded = append(encoded, chunks)
			}
			var it chunkenc.Iterator
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for _, c := range encoded[i%benchSeries] {
					it = c.Iterator(it)
					for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
						if kind == chunkenc.ValHistogram {
							it.AtHistogram(nil)
						} else {
							it.AtFloatHistogram(nil)
						}
					}
				}
			}
			reportPerSample(b, benchSeries*benchSamples, size)
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	s := workloads[3].hours()[0][100]
	record := AppendRecord(nil, s)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			record = AppendRecord(record[:0], s)
		}
		b.ReportMetric(float64(len(record)), "B/sample")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := DecodeRecord(record); err != nil {
				b.Fatal(err)
			}
		}
	})
}
