package chunktest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"halite/storage/storagetest/seeds"
)

// NewRand returns a source whose seed is printed when the test fails; HALITE_SEED repeats a run.
func NewRand(t testing.TB) *rand.Rand { return seeds.Rand(t, 0) }

// OddValues are bit patterns that a careless codec does not restore.
var OddValues = []uint64{
	0x7ff0000000000002,                                                             // the stale marker
	0x7ff8000000000001,                                                             // the NaN of Go and Prometheus
	0x7ff8000000000000, 0x7ff0000000000001, 0xfff8dead0000beef, 0xffffffffffffffff, // other NaNs, quiet and signalling
	0x7ff0000000000000, 0xfff0000000000000, 0x8000000000000000, 0, // infinities and zeros
	1, 2, 0x8000000000000001, 0x000fffffffffffff, 0x0010000000000000, // denormals and the smallest normal
	0x7fefffffffffffff, 0xffefffffffffffff, // the largest
	math.Float64bits(1 << 53), math.Float64bits(1<<53 - 1), math.Float64bits(-(1<<53 - 1)), math.Float64bits(1<<52 + 1),
	math.Float64bits(0.1), math.Float64bits(0.1 + 0.2), math.Float64bits(1e22), math.Float64bits(1e23),
}

// RandomValues fills values by one of many recipes and sometimes mixes odd values in.
func RandomValues(r *rand.Rand, values []float64) {
	switch kind := r.IntN(len(Mix) + 8); {
	case kind < len(Mix):
		Mix[kind].Fill(r, values)
	case kind == len(Mix):
		DurationSum.Fill(r, values)
	case kind == len(Mix)+1: // any bits
		for i := range values {
			values[i] = math.Float64frombits(r.Uint64())
		}
	case kind == len(Mix)+2: // odd values only
		for i := range values {
			values[i] = math.Float64frombits(OddValues[r.IntN(len(OddValues))])
		}
	case kind == len(Mix)+3: // single precision, both signs
		for i := range values {
			values[i] = float64(float32(r.NormFloat64()))
		}
	case kind == len(Mix)+4: // decimals of all sizes
		for i := range values {
			values[i], _ = strconv.ParseFloat(strconv.Itoa(r.IntN(100_000)-50_000)+"e"+strconv.Itoa(r.IntN(40)-25), 64)
		}
	case kind == len(Mix)+5: // a parabola, and resets
		at, step := int64(0), int64(0)
		for i := range values {
			if step += 3; r.IntN(100) == 0 {
				at = 0
			}
			at += step
			values[i] = float64(at)
		}
	case kind == len(Mix)+6: // whole numbers around the limit of mantissas
		for i := range values {
			values[i] = float64((int64(1)<<53 - 3 + r.Int64N(6)) * (1 - 2*r.Int64N(2)))
		}
	default: // multiples of something
		factor := between(r, 2, 1_000_000)
		for i := range values {
			values[i] = float64(factor * (r.Int64N(1000) - 500))
		}
	}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(1+len(values)/8) {
			from := r.IntN(len(values))
			v := math.Float64frombits(OddValues[r.IntN(len(OddValues))])
			for i := from; i < min(from+1+r.IntN(3), len(values)); i++ {
				values[i] = v
			}
		}
	}
}

// RandomTimes returns n ascending timestamps of the hour: regular, with jitter, gaps and phase changes, or events.
func RandomTimes(r *rand.Rand, hourStartMs int64, n int) []int64 {
	set := make(map[int64]bool, n)
	interval := max(hourMs/int64(n)/(1+r.Int64N(3)), 1)
	jitter := []int64{0, 0, 1, 3, interval / 3}[r.IntN(5)]
	gaps, events := r.IntN(3) == 0, r.IntN(4) == 0
	at := r.Int64N(interval)
	for len(set) < n {
		ts := at
		if jitter > 0 {
			ts += r.Int64N(2*jitter+1) - jitter
		}
		if events {
			ts = r.Int64N(hourMs)
		}
		if ts >= 0 && ts < hourMs {
			set[hourStartMs+ts] = true
		}
		if at += interval; gaps && r.IntN(20) == 0 {
			at += []int64{interval, 3 * interval, interval / 2, 1}[r.IntN(4)]
		}
		if at >= hourMs {
			at, events = 0, true // fill up with events
		}
	}
	out := make([]int64, 0, n)
	for ts := range set {
		out = append(out, ts)
	}
	slices.Sort(out)
	return out
}

// RandomLength prefers lengths near the length of a block.
func RandomLength(r *rand.Rand) int {
	return []int{1, 2, 3, 5, 16, 60, 127, 128, 129, 130, 240, 255, 256, 257, 258, 1 + r.IntN(1000)}[r.IntN(16)]
}

// SameBits reports whether two columns of values have the same bit patterns.
func SameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}
