package chunk

import (
	"testing"

	"halite/keyschema/chunktest"
)

// reportBytes adds the size per sample of a benchmark's input.
func reportBytes(b *testing.B, hours []chunktest.Hour) {
	b.Helper()
	bytes, samples := 0, 0
	for _, h := range hours {
		packed, err := Append(nil, 0, h.TsMs, h.Values)
		if err != nil {
			b.Fatal(err)
		}
		bytes += len(packed)
		samples += len(h.Values)
	}
	b.ReportMetric(float64(bytes)/float64(samples), "B/sample")
}

func benchEncode(b *testing.B, hours []chunktest.Hour) {
	var e Encoder
	var dst []byte
	samples := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h := hours[i%len(hours)]
		dst, _ = e.Append(dst[:0], 0, h.TsMs, h.Values)
		samples += len(h.Values)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
	reportBytes(b, hours)
}

func benchDecode(b *testing.B, hours []chunktest.Hour) {
	var packed [][]byte
	for _, h := range hours {
		p, err := Append(nil, 0, h.TsMs, h.Values)
		if err != nil {
			b.Fatal(err)
		}
		packed = append(packed, p)
	}
	var d Decoder
	var tsMs []int64
	var values []float64
	samples := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var err error
		if tsMs, values, err = d.Decode(packed[i%len(packed)], 0, tsMs[:0], values[:0]); err != nil {
			b.Fatal(err)
		}
		samples += len(values)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
	reportBytes(b, hours)
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range chunktest.AllClasses() {
		b.Run(c.Name, func(b *testing.B) { benchEncode(b, chunktest.MakeHours(1, c, 50, 240, 0)) })
	}
	b.Run("mix", func(b *testing.B) { benchEncode(b, chunktest.MakeMix(1, 240, 0)) })
	b.Run("mix-jitter-3ms", func(b *testing.B) { benchEncode(b, chunktest.MakeMix(1, 240, 3)) })
	b.Run("mix-60", func(b *testing.B) { benchEncode(b, chunktest.MakeMix(1, 60, 0)) })
	b.Run("mix-16", func(b *testing.B) { benchEncode(b, chunktest.MakeMix(1, 16, 0)) })
	b.Run("mix-3600", func(b *testing.B) { benchEncode(b, chunktest.MakeMix(1, 3600, 0)) })
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range chunktest.AllClasses() {
		b.Run(c.Name, func(b *testing.B) { benchDecode(b, chunktest.MakeHours(1, c, 50, 240, 0)) })
	}
	b.Run("mix", func(b *testing.B) { benchDecode(b, chunktest.MakeMix(1, 240, 0)) })
	b.Run("mix-jitter-3ms", func(b *testing.B) { benchDecode(b, chunktest.MakeMix(1, 240, 3)) })
	b.Run("mix-3600", func(b *testing.B) { benchDecode(b, chunktest.MakeMix(1, 3600, 0)) })
}
