package record

import "testing"

const benchSamples = 2000

// benchBatch is a batch as one scrape gives it: consecutive series, nearly one timestamp.
func benchBatch() []Sample {
	samples := make([]Sample, benchSamples)
	for i := range samples {
		samples[i] = Sample{uint32(100_000 + i), 1_700_000_000_000 + int64(i%3), float64(i) * 1.5}
	}
	return samples
}

// perSample reports the time of one of the samples that each iteration handles.
func perSample(b *testing.B, samplesEach int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*samplesEach), "ns/sample")
}

func BenchmarkEncodeSamples(b *testing.B) {
	samples := benchBatch()
	buf := make([]byte, 0, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendSamples(buf[:0], samples)
	}
	perSample(b, benchSamples)
}

func BenchmarkDecodeSamples(b *testing.B) {
	payload := AppendSamples(nil, benchBatch())
	var sum float64
	b.ReportAllocs()
	for b.Loop() {
		for it := ReadSamples(payload); it.Next(); {
			sum += it.Value
		}
	}
	_ = sum
	perSample(b, benchSamples)
}
