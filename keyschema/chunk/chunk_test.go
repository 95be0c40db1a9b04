package chunk

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"halite/keyschema"
	"halite/keyschema/chunktest"
	"halite/keyschema/column"
)

func TestRoundTripClasses(t *testing.T) {
	for _, n := range []int{1, 2, 3, 16, 127, 128, 129, 130, 240, 257, 3600} {
		for _, jitterMs := range []int64{0, 3, 200} {
			for _, c := range chunktest.AllClasses() {
				for _, h := range chunktest.MakeHours(7, c, 4, n, jitterMs) {
					checkRoundTrip(t, 0, h.TsMs, h.Values)
				}
			}
		}
	}
}

func TestRoundTripRandom(t *testing.T) {
	r := chunktest.NewRand(t)
	var e Encoder
	for range 4_000 {
		n, hourStartMs := chunktest.RandomLength(r), keyschema.HourStartMs(r.Int64N(keyschema.HourMax))
		values := make([]float64, n)
		chunktest.RandomValues(r, values)
		tsMs := chunktest.RandomTimes(r, hourStartMs, n)
		packed := checkRoundTrip(t, hourStartMs, tsMs, values)
		// Earlier chunks of an Encoder must not influence the result.
		again, err := e.Append(nil, hourStartMs, tsMs, values)
		if err != nil || !bytes.Equal(again, packed) {
			t.Fatalf("a used Encoder gives %x, %v, want %x", again, err, packed)
		}
	}
}

func TestEveryOddValueEverywhere(t *testing.T) {
	for _, pattern := range chunktest.OddValues {
		odd := math.Float64frombits(pattern)
		for _, values := range [][]float64{
			{odd}, {odd, odd}, {odd, 1}, {1, odd}, {1, 2, odd, 4}, {1.5, odd, odd, 2.5}, {odd, 1, 2, odd},
			{odd, math.Inf(1), odd}, {odd, math.Pi, odd, math.E}, {0.1, 0.2, odd, odd, odd},
		} {
			tsMs := []int64{0, 1000, 2000, 3000, 4000}[:len(values)]
			checkRoundTrip(t, 0, tsMs, values)
		}
	}
}

func TestFullestHour(t *testing.T) {
	tsMs, values := make([]int64, keyschema.HourMs), make([]float64, keyschema.HourMs)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range tsMs {
		tsMs[i] = int64(i)
	}
	if packed := checkRoundTrip(t, 0, tsMs, values); len(packed) > 20 {
		t.Errorf("equal values take %d bytes", len(packed))
	}
	for i := range values {
		values[i] = float64(r.IntN(16))
	}
	checkRoundTrip(t, 0, tsMs, values)
}

// TestSizes checks the codec's promised sizes of simple hours of 240 samples, in bytes.
func TestSizes(t *testing.T) {
	fill := func(f func(i int) float64) []float64 {
		values := make([]float64, 240)
		for i := range values {
			values[i] = f(i)
		}
		return values
	}
	stale, r := math.Float64frombits(chunktest.OddValues[0]), rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name     string
		values   []float64
		bytesMax int
	}{
		{"constant", fill(func(int) float64 { return 1 }), 10},
		{"constant NaN", fill(func(int) float64 { return math.NaN() }), 20},
		{"steady counter", fill(func(i int) float64 { return float64(1000 + 15*i) }), 20},
		{"steady counter that ends", fill(func(i int) float64 {
			if i == 239 {
				return stale
			}
			return float64(1000 + 15*i)
		}), 25},
		{"steady decimals", fill(func(i int) float64 { return float64(1000+15*i) / 100 }), 20},
		{"rare change", fill(func(i int) float64 { return float64(i / 60) }), 30},
		{"half NaN", fill(func(i int) float64 {
			if i < 120 {
				return math.NaN()
			}
			return 7
		}), 20},
		{"bits of a byte", fill(func(int) float64 { return float64(r.IntN(256)) }), 240 + 20},
		{"multiples", fill(func(int) float64 { return float64(r.IntN(256) * 123_457 * 1024) }), 240 + 20},
		{"single precision", fill(func(int) float64 { return float64(float32(1 + r.Float64())) }), 240*3 + 30},
	} {
		tsMs := make([]int64, 240)
		for i := range tsMs {
			tsMs[i] = int64(i) * 15_000
		}
		if packed := checkRoundTrip(t, 0, tsMs, c.values); len(packed) > c.bytesMax {
			t.Errorf("%s: %d bytes, want at most %d", c.name, len(packed), c.bytesMax)
		}
	}
}

// TestSizesOfTimes does the same for the timestamps of an hour of equal values.
func TestSizesOfTimes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name     string
		at       func(i int) int64
		bytesMax int
	}{
		{"regular", func(i int) int64 { return 7 + 10_000*int64(i) }, 10},
		{"missed scrapes", func(i int) int64 { return 7 + 10_000*int64(i+i/100) }, 25},
		{"jitter of 3 ms", func(i int) int64 { return 7 + 10_000*int64(i) + r.Int64N(7) - 3 }, 240*3/8 + 20},
		{"jitter and gaps", func(i int) int64 { return 7 + 10_000*int64(i+i/100) + r.Int64N(7) }, 240*3/8 + 30},
		{"change of phase", func(i int) int64 { return 7 + 10_000*int64(i) + 4_711*int64(i/200) }, 25},
		{"two in turn", func(i int) int64 { return 7 + 10_000*int64(i) + 1_000*int64(i%2) }, 50},
	} {
		tsMs := make([]int64, 240)
		for i := range tsMs {
			tsMs[i] = 4 + c.at(i)
		}
		if packed := checkRoundTrip(t, 0, tsMs, make([]float64, 240)); len(packed) > c.bytesMax {
			t.Errorf("%s: %d bytes, want at most %d", c.name, len(packed), c.bytesMax)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	const start = 7 * keyschema.HourMs
	for name, c := range map[string]struct {
		tsMs   []int64
		values []float64
	}{
		"no samples":          {nil, nil},
		"fewer values":        {[]int64{start, start + 1}, []float64{1}},
		"before the hour":     {[]int64{start - 1}, []float64{1}},
		"after the hour":      {[]int64{start, start + keyschema.HourMs}, []float64{1, 2}},
		"equal timestamps":    {[]int64{start, start + 1, start + 1, start + 2}, []float64{1, 2, 3, 4}},
		"falling timestamps":  {[]int64{start + 2, start + 1}, []float64{1, 2}},
		"falling in between":  {[]int64{start, start + 9, start + 8, start + 10}, []float64{1, 2, 3, 4}},
		"far away":            {[]int64{math.MinInt64, start}, []float64{1, 2}},
		"far away the other":  {[]int64{start, math.MaxInt64}, []float64{1, 2}},
		"outside in between":  {[]int64{start, start + 2*keyschema.HourMs, start + 5}, []float64{1, 2, 3}},
		"outside between too": {[]int64{start + 5, start - 5, start + 6}, []float64{1, 2, 3}},
	} {
		got, err := Append([]byte("x"), start, c.tsMs, c.values)
		if !errors.Is(err, ErrBadColumns) || string(got) != "x" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := Append(nil, math.MinInt64, []int64{math.MaxInt64}, []float64{1}); !errors.Is(err, ErrBadColumns) {
		t.Errorf("a difference that overflows: %v", err)
	}
}

// TestDamage truncates chunks at every byte, flips every bit and appends a byte. Decoding never panics. It returns an error,
// or samples that a chunk may hold.
func TestDamage(t *testing.T) {
	r := chunktest.NewRand(t)
	var d Decoder
	for range 60 {
		n := chunktest.RandomLength(r)
		values := make([]float64, n)
		chunktest.RandomValues(r, values)
		packed := checkRoundTrip(t, 0, chunktest.RandomTimes(r, 0, n), values)
		for cut := range packed {
			ts, vs, err := d.Decode(packed[:cut], 0, nil, nil)
			if !errors.Is(err, ErrCorrupt) || ts != nil || vs != nil {
				t.Fatalf("%x cut at %d: %v", packed, cut, err)
			}
		}
		if _, _, err := d.Decode(append(slices.Clone(packed), 0), 0, nil, nil); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%x and a zero byte: %v", packed, err)
		}
		for bit := range 8 * min(len(packed), 300) {
			packed[bit/8] ^= 1 << (bit % 8)
			checkAnyBytes(t, &d, packed)
			packed[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// checkAnyBytes decodes bytes from anywhere.
func checkAnyBytes(t *testing.T, d *Decoder, src []byte) {
	t.Helper()
	tsMs, values, err := d.Decode(src, keyschema.HourMs, []int64{5}, []float64{6})
	info, statErr := d.Stat(src, keyschema.HourMs)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) || len(tsMs) != 1 || len(values) != 1 {
			t.Fatalf("%x: %v, %d timestamps, %d values", src, err, len(tsMs), len(values))
		}
		return
	}
	tsMs, values = tsMs[1:], values[1:]
	if _, err := checkTimes(keyschema.HourMs, tsMs); err != nil || len(tsMs) != len(values) {
		t.Fatalf("%x: %v, %d values", src, err, len(values))
	}
	if want := (Info{len(tsMs), tsMs[0], tsMs[len(tsMs)-1]}); statErr != nil || info != want {
		t.Fatalf("%x: Stat is %+v, %v, want %+v", src, info, statErr, want)
	}
}

func TestDecodeAllocatesByInput(t *testing.T) {
	count := []byte{0x80, 0xdd, 0xdb, 0x01} // 3.6 million
	for name, src := range map[string][]byte{
		"values":       slices.Concat([]byte{version | byte(column.ModeFrame)}, count, []byte{0, 1, 0, 0, 0}),
		"timestamps":   slices.Concat([]byte{version | flagIrregular}, count, []byte{byte(column.ModeDelta), 0, 1, 0}),
		"runs":         slices.Concat([]byte{version | flagExceptions}, count, []byte{0, 1, 0xff, 0xff, 0x03, 1, 1}),
		"jumps":        slices.Concat([]byte{version | flagIrregular}, count, []byte{flagGrid, 1, 0xff, 255, 3, 1, 1}),
		"regular grid": slices.Concat([]byte{version}, count, []byte{1, 1, 0, 0}), // leaves the hour by 1 ms
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var d Decoder
		_, _, err := d.Decode(src, 0, nil, nil)
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrCorrupt) || bytes > 100_000 {
			t.Errorf("%s: %d bytes allocated, %v", name, bytes, err)
		}
	}
}

func TestReuseAllocatesNothing(t *testing.T) {
	var e Encoder
	var d Decoder
	var packed []byte
	var tsMs []int64
	var values []float64
	hours := append(chunktest.MakeMix(3, 240, 0), chunktest.MakeMix(4, 240, 3)...)
	round := func() {
		for _, h := range hours {
			var err error
			if packed, err = e.Append(packed[:0], 0, h.TsMs, h.Values); err != nil {
				t.Fatal(err)
			}
			if tsMs, values, err = d.Decode(packed, 0, tsMs[:0], values[:0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(5, round); n != 0 {
		t.Errorf("%v allocations in %d runs", n, len(hours))
	}
}

func TestSampleValue(t *testing.T) {
	for _, pattern := range chunktest.OddValues {
		cell := AppendSampleValue(nil, math.Float64frombits(pattern))
		if v, err := ParseSampleValue(cell); err != nil || math.Float64bits(v) != pattern {
			t.Errorf("%x comes back as %x, %v", pattern, math.Float64bits(v), err)
		}
	}
	for _, n := range []int{0, 7, 9} {
		if _, err := ParseSampleValue(make([]byte, n)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
