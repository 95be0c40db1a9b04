package cell

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"halite/rollup"
	"halite/rollup/rolluptest"
)

// fleetClass is a kind of series that servers export: its share of 100 series, and a day of values.
type fleetClass struct {
	name   string
	series int
	fill   func(rng *rand.Rand, values []float64)
}

// fleet has 100 series in all.
var fleet = []fleetClass{
	{"cpu-seconds", 30, func(rng *rand.Rand, values []float64) { counter(rng, values, rng.Float64()*1000, 100) }},
	{"slow-counter", 10, func(rng *rand.Rand, values []float64) { counter(rng, values, 0.05, 1) }},
	{"operations", 8, func(rng *rand.Rand, values []float64) { counter(rng, values, 500, 1) }},
	{"bytes", 6, func(rng *rand.Rand, values []float64) { counter(rng, values, 2e7, 1) }},
	{"bucket", 8, func(rng *rand.Rand, values []float64) { counter(rng, values, 700, 1) }},
	{"duration-sum", 2, func(rng *rand.Rand, values []float64) {
		at := 1e4 * rng.Float64()
		for i := range values {
			at += rng.ExpFloat64()
			values[i] = at
		}
	}},
	{"memory", 8, func(rng *rand.Rand, values []float64) { gauge(rng, values, 1e6, 3000, 1.0/4096) }},
	{"load", 4, func(rng *rand.Rand, values []float64) { gauge(rng, values, 240, 7, 100) }},
	{"temperature", 4, func(rng *rand.Rand, values []float64) { gauge(rng, values, 580, 4, 10) }},
	{"queue", 4, func(rng *rand.Rand, values []float64) { gauge(rng, values, 60, 5, 1) }},
	{"quantile", 2, func(rng *rand.Rand, values []float64) {
		for i := range values {
			values[i] = 0.03 * (0.9 + 0.2*rng.Float64())
		}
	}},
	{"constant", 14, func(rng *rand.Rand, values []float64) {
		v := float64(rng.Int64N(1 << rng.Int64N(36)))
		for i := range values {
			values[i] = v
		}
	}},
}

// counter grows by a random number around step, more by day than by night, and restarts now and then.
func counter(rng *rand.Rand, values []float64, step, div float64) {
	at := math.Floor(step * 1e5 * rng.Float64())
	for i := range values {
		load := 1 + 0.5*math.Sin(2*math.Pi*float64(i)/5760)
		at += math.Floor(step*load*(0.7+0.6*rng.Float64()) + rng.Float64())
		if rng.IntN(100_000) == 0 {
			at = 0
		}
		values[i] = at / div
	}
}

// gauge walks at random around its base.
func gauge(rng *rand.Rand, values []float64, base, step, div float64) {
	at := base
	for i := range values {
		at = math.Round(at + (rng.Float64()*2-1)*step + (base-at)*0.02)
		values[i] = at / div
	}
}

// fleetDay is a day of one series at an interval.
func fleetDay(class *fleetClass, seed uint64, intervalMs, jitterMs int64) ([]int64, []float64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	n := int(rolluptest.DayMs / intervalMs)
	tsMs, values := make([]int64, n), make([]float64, n)
	phase := rng.Int64N(intervalMs)
	for i := range tsMs {
		tsMs[i] = int64(i)*intervalMs + phase
		if jitterMs > 0 {
			tsMs[i] = min(max(0, tsMs[i]+rng.Int64N(jitterMs)), rolluptest.DayMs-1)
		}
	}
	class.fill(rng, values)
	return tsMs, values
}

// hoursOf computes the hour states of a day.
func hoursOf(tsMs []int64, values []float64) []rollup.State {
	states := make([]rollup.State, 24)
	for from := 0; from < len(tsMs); {
		h, to := tsMs[from]/rolluptest.HourMs, from
		for to < len(tsMs) && tsMs[to]/rolluptest.HourMs == h {
			to++
		}
		states[h] = rollup.Compute(tsMs[from:to], values[from:to])
		from = to
	}
	return states
}

// fleetSize returns the bytes of day cells per raw sample at 15 s, for the fleet and for each class.
func fleetSize(t testing.TB, jitterMs int64) (all float64, classes []float64) {
	t.Helper()
	const days = 8
	var e Encoder
	for c := range fleet {
		class, bytes := &fleet[c], 0
		for seed := range uint64(days) {
			tsMs, values := fleetDay(class, seed, 15_000, jitterMs)
			cell, err := e.Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, hoursOf(tsMs, values))
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(cell)
		}
		classes = append(classes, float64(bytes)/days/5760)
		all += classes[c] * float64(class.series) / 100
	}
	return all, classes
}

// TestFleetSize bounds the size of cells.
func TestFleetSize(t *testing.T) {
	for jitterMs, most := range map[int64]float64{0: 0.0515, 8: 0.0548} {
		if all, classes := fleetSize(t, jitterMs); all > most {
			t.Errorf("%.4f bytes a sample with a jitter of %d ms, want at most %.4f; classes: %.4f", all, jitterMs, most, classes)
		}
	}
}

// BenchmarkFleetSize reports the bytes of day cells per raw sample at 15 s, by class and for the fleet.
func BenchmarkFleetSize(b *testing.B) {
	for _, jitterMs := range []int64{0, 8} {
		b.Run(fmt.Sprintf("jitter=%dms", jitterMs), func(b *testing.B) {
			for b.Loop() {
				all, classes := fleetSize(b, jitterMs)
				for c, size := range classes {
					b.ReportMetric(size, fleet[c].name+"-B/sample")
				}
				b.ReportMetric(all, "B/sample")
			}
		})
	}
}

// BenchmarkCompute reports the time of the states of a day per raw sample.
func BenchmarkCompute(b *testing.B) {
	for _, name := range []string{"cpu-seconds", "load", "constant"} {
		b.Run(name, func(b *testing.B) {
			tsMs, values := fleetDay(byName(name), 1, 15_000, 0)
			for b.Loop() {
				hoursOf(tsMs, values)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5760, "ns/sample")
		})
	}
}

func byName(name string) *fleetClass {
	for i := range fleet {
		if fleet[i].name == name {
			return &fleet[i]
		}
	}
	return nil
}

// BenchmarkEncode and BenchmarkDecode measure one day cell.
func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"cpu-seconds", "load", "constant"} {
		b.Run(name, func(b *testing.B) {
			states := hoursOf(fleetDay(byName(name), 1, 15_000, 0))
			var e Encoder
			var cell []byte
			for b.Loop() {
				cell, _ = e.Append(cell[:0], testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, states)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5760, "ns/sample")
			b.ReportMetric(float64(len(cell)), "B")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"cpu-seconds", "load", "constant"} {
		for field, fields := range map[string]rollup.Fields{
			"all": rollup.FieldsAll, "max": rollup.FieldMax, "avg": rollup.FieldSum, "increase": rollup.FieldEdges | rollup.FieldCounter,
		} {
			b.Run(name+"/"+field, func(b *testing.B) {
				states := hoursOf(fleetDay(byName(name), 1, 15_000, 0))
				var e Encoder
				var d Decoder
				var c rollup.Columns
				cell, _ := e.Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, states)
				for b.Loop() {
					c.Reset(0, rolluptest.HourMs, 24, fields)
					if _, err := d.Decode(&c, testRow, testQualifier, cell, 0, 24); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
