package promjson

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// strconvText is what strconv writes by Prometheus' rule for exponents.
func strconvText(v float64) string {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.FormatFloat(v, format, -1, 64)
}

func checkFloatText(t *testing.T, v float64) {
	for _, v := range []float64{v, -v} {
		if want, got := strconvText(v), string(appendShortest(nil, v)); want != got {
			require.Equal(t, want, got, "bits %#x", math.Float64bits(v))
		}
	}
}

// drawnFloat draws a number of one kind. Each kind has its own text form.
func drawnFloat(rng *rand.Rand) float64 {
	exponent := func(from, to int) uint64 { return uint64(from+rng.IntN(to-from)) << mantissaBits }
	switch rng.IntN(8) {
	case 0: // any bits
		return math.Float64frombits(rng.Uint64())
	case 1: // full mantissa, written without an exponent
		return math.Float64frombits(exponent(1023-21, 1023+54) | rng.Uint64()&mantissaMask)
	case 2: // few bits: exact halves between two decimals
		return math.Float64frombits(exponent(1023-21, 1023+54) | rng.Uint64()&mantissaMask&^(1<<rng.IntN(53)-1))
	case 3: // a short decimal
		return float64(rng.Uint64()>>rng.IntN(64)) / math.Pow10(rng.IntN(23))
	case 4: // and its neighbours
		return math.Nextafter(float64(rng.Int64N(1e6))/math.Pow10(rng.IntN(8)), math.Inf(rng.IntN(2)*2-1))
	case 5: // whole
		return float64(rng.Uint64() >> rng.IntN(64))
	case 6: // subnormal
		return math.Float64frombits(rng.Uint64() & mantissaMask >> rng.IntN(52))
	default: // next to a power of two or ten
		v := []float64{math.Ldexp(1, rng.IntN(76)-21), math.Pow10(rng.IntN(30) - 8)}[rng.IntN(2)]
		return math.Float64frombits(math.Float64bits(v) + uint64(rng.IntN(7)) - 3)
	}
}

// TestFloatTextAsStrconv compares numbers of all kinds with strconv.
func TestFloatTextAsStrconv(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 400_000 {
		checkFloatText(t, drawnFloat(rng))
	}
}

func FuzzFloatText(f *testing.F) {
	for _, v := range floats(rand.New(rand.NewPCG(1, 2)))[:40] {
		f.Add(math.Float64bits(v))
	}
	f.Fuzz(func(t *testing.T, b uint64) { checkFloatText(t, math.Float64frombits(b)) })
}

// BenchmarkFloatText writes numbers such as queries answer, by appendShortest and by strconv.
func BenchmarkFloatText(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 4))
	kinds := []struct {
		name string
		draw func() float64
	}{
		{"rate", func() float64 { return float64(rng.IntN(1e9)) / 285 * 300 / 299.7 }},
		{"ratio", rng.Float64},
		{"gauge", func() float64 { return float64(rng.IntN(1e4)) / 100 }},
		{"counter", func() float64 { return float64(rng.IntN(1e12)) }},
	}
	for _, kind := range kinds {
		list := make([]float64, 4096)
		for i := range list {
			list[i] = kind.draw()
		}
		for _, way := range []struct {
			name  string
			write func([]byte, float64) []byte
		}{
			{"own", appendShortest},
			{"strconv", func(dst []byte, v float64) []byte { return strconv.AppendFloat(dst, v, 'f', -1, 64) }},
		} {
			b.Run(kind.name+"/"+way.name, func(b *testing.B) {
				var buf []byte
				for i := 0; b.Loop(); i++ {
					buf = way.write(buf[:0], list[i%len(list)])
				}
			})
		}
	}
}
