package rolluptest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/value"

	"halite/rollup"
	"halite/storage/storagetest/seeds"
)

// Lengths of the usual buckets.
const (
	HourMs = int64(3_600_000)
	DayMs  = 24 * HourMs
)

// Bits makes states comparable bit by bit.
func Bits(s rollup.State) [15]uint64 {
	b := math.Float64bits
	stale := uint64(0)
	if s.Stale {
		stale = 1
	}
	return [15]uint64{
		uint64(s.Count) | stale<<63, uint64(s.NaNs), uint64(s.FirstMs), uint64(s.LastMs), b(s.First), b(s.Last), b(s.Correction),
		uint64(s.Resets), uint64(s.Changes), b(s.Sum), b(s.SumLow), b(s.Min), b(s.Max), b(s.Mean), b(s.M2),
	}
}

// Day makes the hour states of a random day, with gaps, jitter and several kinds of values.
func Day(rng *rand.Rand, fromMs int64) []rollup.State {
	states := make([]rollup.State, 24)
	special := rng.IntN(4) == 0
	gaps, few := rng.IntN(3) == 0, rng.IntN(4) == 0
	for h := range states {
		if gaps && rng.IntN(3) == 0 {
			continue
		}
		n := rng.IntN(100)
		if few {
			n = rng.IntN(3)
		}
		tsMs, values := Samples(rng, n, special)
		shift := fromMs + int64(h)*HourMs - 1_700_000_000_000 - 1
		for i := range tsMs {
			tsMs[i] += shift
		}
		switch rng.IntN(3) {
		case 0:
			states[h] = rollup.FromColumns(tsMs, values)
		default:
			states[h] = rollup.Compute(tsMs, values)
		}
		if states[h].Count == 0 {
			states[h] = rollup.State{Stale: states[h].Stale}
		}
	}
	return states
}

// Only returns a state with the given fields alone, and with count and times.
func Only(s rollup.State, f rollup.Fields) rollup.State {
	out := rollup.State{Count: s.Count, FirstMs: s.FirstMs, LastMs: s.LastMs}
	keep := func(field rollup.Fields, copy func()) {
		if f.Has(field) {
			copy()
		}
	}
	keep(rollup.FieldEdges, func() { out.First, out.Last = s.First, s.Last })
	keep(rollup.FieldNaNs, func() { out.NaNs = s.NaNs })
	keep(rollup.FieldMin, func() { out.Min = s.Min })
	keep(rollup.FieldMax, func() { out.Max = s.Max })
	keep(rollup.FieldSum, func() { out.Sum, out.SumLow = s.Sum, s.SumLow })
	keep(rollup.FieldCounter, func() { out.Correction, out.Resets = s.Correction, s.Resets })
	keep(rollup.FieldChanges, func() { out.Changes = s.Changes })
	keep(rollup.FieldMoments, func() { out.Mean, out.M2 = s.Mean, s.M2 })
	keep(rollup.FieldStale, func() { out.Stale = s.Stale })
	return out
}

// Samples makes n random samples of one of several kinds. With special, it mixes in NaN, infinities and stale markers.
func Samples(rng *rand.Rand, n int, special bool) ([]int64, []float64) {
	tsMs, values := make([]int64, n), make([]float64, n)
	kind := rng.IntN(4)
	ts, counter := int64(1_700_000_000_000), 0.0
	for i := range n {
		ts += 1 + rng.Int64N(30_000)
		counter += float64(rng.IntN(50))
		if rng.IntN(15) == 0 {
			counter = float64(rng.IntN(3))
		}
		v := counter
		switch kind {
		case 1:
			v = math.Round(rng.NormFloat64()*1e4) / 100
		case 2:
			v = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12)))
		case 3:
			v = float64(rng.IntN(3))
		}
		if special {
			switch rng.IntN(12) {
			case 0:
				v = math.NaN()
			case 1:
				v = math.Float64frombits(value.StaleNaN)
			case 2:
				v = math.Inf(rng.IntN(2)*2 - 1)
			}
		}
		tsMs[i], values[i] = ts, v
	}
	return tsMs, values
}

// Seeded returns a random source with a new seed each time, or the seed of HALITE_SEED. A failed test logs its seed.
func Seeded(t *testing.T) *rand.Rand { return seeds.Rand(t, 1) }
