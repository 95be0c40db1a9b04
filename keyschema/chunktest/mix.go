package chunktest

import (
	"math"
	"math/rand/v2"
)

// Class is one kind of series of the benchmark mix, which models what a node exporter sends every 15 s.
type Class struct {
	Name    string
	Percent int
	Fill    func(r *rand.Rand, values []float64)
}

// Mix is the benchmark mix; its percentages add up to 100.
var Mix = []Class{
	{"slow-counter", 14, func(r *rand.Rand, values []float64) {
		counter(r, values, 1, func() int64 { return sometimes(r, 0.08) })
	}},
	{"int-counter", 10, func(r *rand.Rand, values []float64) {
		rate := between(r, 15, 120)
		counter(r, values, 1, func() int64 { return around(r, rate) })
	}},
	{"byte-counter", 10, func(r *rand.Rand, values []float64) {
		rate := between(r, 150_000, 900_000)
		counter(r, values, 1, func() int64 { return around(r, rate) })
	}},
	{"cpu-seconds", 12, func(r *rand.Rand, values []float64) {
		rate := between(r, 10, 120)
		counter(r, values, 100, func() int64 { return around(r, rate) })
	}},
	{"int-gauge", 6, func(r *rand.Rand, values []float64) {
		counter(r, values, 1, func() int64 { return sometimes(r, 0.3) * (r.Int64N(7) - 3) })
	}},
	{"page-gauge", 8, func(r *rand.Rand, values []float64) {
		counter(r, values, 1.0/4096, func() int64 { return sometimes(r, 0.6) * (r.Int64N(1001) - 500) })
	}},
	{"1-decimal", 6, func(r *rand.Rand, values []float64) { noise(r, values, 14, 10) }},
	{"3-decimals", 4, func(r *rand.Rand, values []float64) { noise(r, values, 150, 1000) }},
	{"constant", 20, func(r *rand.Rand, values []float64) {
		v := float64(r.Int64N(1 << r.Int64N(36)))
		for i := range values {
			values[i] = v
		}
	}},
	{"boolean", 3, func(r *rand.Rand, values []float64) {
		at := r.Int64N(2)
		for i := range values {
			at ^= sometimes(r, 0.01)
			values[i] = float64(at)
		}
	}},
	{"float-noise", 3, func(r *rand.Rand, values []float64) {
		base := math.Exp(10*r.Float64() - 5)
		for i := range values {
			values[i] = base * (0.96 + 0.08*r.Float64())
		}
	}},
	{"latency-sum", 4, func(r *rand.Rand, values []float64) {
		sum := 5e4 * r.Float64()
		for i := range values {
			sum += 3 * r.ExpFloat64()
			values[i] = sum
		}
	}},
}

// DurationSum is not part of the mix: a sum of durations in nanoseconds, which rounding moves off the decimal grid.
var DurationSum = Class{"duration-sum", 0, func(r *rand.Rand, values []float64) {
	sum := float64(r.Int64N(1e12)) / 1e9
	for i := range values {
		for range r.Int64N(10) {
			sum += float64(100_000+r.Int64N(20_000_000)) / 1e9
		}
		values[i] = sum
	}
}}

// AllClasses returns the classes of the mix and DurationSum.
func AllClasses() []Class { return append(Mix[:len(Mix):len(Mix)], DurationSum) }

// counter fills values with the running sum of steps, divided by div.
func counter(r *rand.Rand, values []float64, div float64, step func() int64) {
	at := r.Int64N(10_000_000)
	for i := range values {
		at += step()
		values[i] = float64(at) / div
	}
}

// noise fills values with uniform noise of a width around some level, divided by div.
func noise(r *rand.Rand, values []float64, width int64, div float64) {
	level := between(r, 300, 900)
	for i := range values {
		values[i] = float64(level+r.Int64N(width)) / div
	}
}

func between(r *rand.Rand, low, high int64) int64 { return low + r.Int64N(high-low) }

func around(r *rand.Rand, rate int64) int64 { return int64(float64(rate) * (0.7 + 0.6*r.Float64())) }

func sometimes(r *rand.Rand, p float64) int64 {
	if r.Float64() < p {
		return 1
	}
	return 0
}

// Hour is one series-hour of input.
type Hour struct {
	TsMs   []int64
	Values []float64
}

// MakeHours makes count series-hours of a class with n samples each. Timestamps vary by jitterMs around a grid.
func MakeHours(seed uint64, c Class, count, n int, jitterMs int64) []Hour {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	hours := make([]Hour, count)
	interval := int64(3_600_000 / n)
	for k := range hours {
		h := Hour{make([]int64, n), make([]float64, n)}
		phase := jitterMs + r.Int64N(max(interval-2*jitterMs, 1))
		for i := range h.TsMs {
			h.TsMs[i] = phase + int64(i)*interval
			if jitterMs > 0 {
				h.TsMs[i] += r.Int64N(2*jitterMs+1) - jitterMs
			}
		}
		c.Fill(r, h.Values)
		hours[k] = h
	}
	return hours
}

// MakeMix makes series-hours in the proportions of the mix.
func MakeMix(seed uint64, n int, jitterMs int64) []Hour {
	var hours []Hour
	for _, c := range Mix {
		hours = append(hours, MakeHours(seed, c, 2*c.Percent, n, jitterMs)...)
	}
	return hours
}

// SeedHours makes short and long hours of all classes, for the corpus of a fuzz test.
func SeedHours() []Hour {
	var hours []Hour
	for _, c := range AllClasses() {
		for _, n := range []int{1, 2, 20, 140} {
			for _, jitterMs := range []int64{0, 3} {
				h := MakeHours(5, c, 1, n, jitterMs)[0]
				if n > 10 {
					h.Values[3] = math.Inf(1)
				}
				hours = append(hours, h)
			}
		}
	}
	return hours
}
