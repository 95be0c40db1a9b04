package chunktest

import (
	"math"
	"math/rand/v2"
)

// FleetClass is one metric of a host in a fleet: how many series each host has and how they move. It is closer to real
// servers than the mix. Rates differ between hosts and follow the time of day, gauges return to their mean, and hosts
// restart.
type FleetClass struct {
	Name   string
	Series int // of 100 on each host
	kind   fleetKind
	base   float64   // mean of gauges and levels
	steps  []float64 // typical change in 15 s, one for each series or one for all
	div    float64   // a value is a whole number divided by div
}

type fleetKind uint8

const (
	fleetCounter  fleetKind = iota // grows by 0.7 to 1.3 times the step, times the load
	fleetBucket                    // grows by a share, in thousandths, of the requests
	fleetSum                       // running sum of floats
	fleetGauge                     // walks by up to two steps and returns to the base by 2 % a sample
	fleetNoise                     // any float around the base times the load
	fleetConstant                  // the base
	fleetRare                      // moves once in 2,000 samples
)

// Fleet models the series of a host; the counts add up to 100.
var Fleet = []FleetClass{
	{"cpu-seconds", 32, fleetCounter, 0, []float64{420, 130, 880, 25, 4, 12, 0, 1}, 100},
	{"disk-operations", 4, fleetCounter, 0, []float64{180, 900}, 1},
	{"disk-bytes", 4, fleetCounter, 0, []float64{4096 * 1500, 4096 * 9000}, 1},
	{"network-bytes", 4, fleetCounter, 0, []float64{21e6, 17e6}, 1},
	{"network-packets", 4, fleetCounter, 0, []float64{24_000, 20_000}, 1},
	{"latency-bucket", 9, fleetBucket, 0, []float64{310, 520, 700, 860, 960, 985, 998, 1000, 1000}, 1},
	{"latency-sum", 1, fleetSum, 0, []float64{0}, 1},
	{"switches", 2, fleetCounter, 0, []float64{160_000, 90_000}, 1},
	{"memory-large", 4, fleetGauge, 1e6, []float64{9000, 4500, 2250, 1125}, 1.0 / 4096},
	{"memory-small", 4, fleetGauge, 60e3, []float64{563, 282, 141, 71}, 1.0 / 4096},
	{"load", 3, fleetGauge, 240, []float64{25, 7, 2}, 100},
	{"filesystem", 3, fleetGauge, 30e6, []float64{700}, 1.0 / 4096},
	{"temperature", 5, fleetGauge, 58_000, []float64{400}, 1000},
	{"queue-depth", 4, fleetGauge, 60, []float64{7}, 1},
	{"frequency", 4, fleetGauge, 2.6e6, []float64{90_000}, 1.0 / 1024},
	{"latency-quantile", 3, fleetNoise, 0.032, []float64{0}, 1},
	{"constant", 8, fleetConstant, 8_000_000, []float64{0}, 1.0 / 4096},
	{"rare", 2, fleetRare, 100_000, []float64{1024}, 1},
}

// fleetSeries is the changing state of one series on one host.
type fleetSeries struct {
	class       *FleetClass
	r           *rand.Rand
	step        float64
	busy, phase float64 // of the host
	at          float64
	bits        float64 // entropy of all draws so far
}

func newFleetSeries(r *rand.Rand, c *FleetClass, index int) *fleetSeries {
	s := &fleetSeries{class: c, r: r, step: c.steps[index%len(c.steps)], busy: 0.5 + r.Float64(),
		phase: 2 * math.Pi * r.Float64(), at: c.base}
	switch c.kind {
	case fleetCounter:
		s.at = math.Floor(s.step * s.busy * 20_000 * r.Float64())
	case fleetGauge:
		s.at = math.Floor(c.base * (0.6 + 0.8*r.Float64()))
	}
	return s
}

// draw returns a uniform number in [from, to) and counts the entropy of its whole part.
func (s *fleetSeries) draw(from, to float64) float64 {
	s.bits += math.Log2(max(to-from, 1))
	return from + (to-from)*s.r.Float64()
}

// next returns the value after an interval.
func (s *fleetSeries) next(tsMs, intervalMs int64) float64 {
	c, r := s.class, s.r
	per := float64(intervalMs) / 15_000
	day := 2 * math.Pi * float64(tsMs) / (24 * hourMs)
	load := s.busy * (1 + 0.4*math.Sin(day+s.phase))
	switch c.kind {
	case fleetCounter:
		rate := s.step * load * per
		s.at += math.Floor(s.draw(0.7*rate, 1.3*rate))
	case fleetBucket:
		requests := math.Floor(s.draw(480*load*per, 720*load*per))
		s.at += math.Floor(requests * s.step / 1000)
	case fleetSum:
		requests := math.Floor(480*load*per + 240*load*per*r.Float64())
		width := 600 * load * per * 0.0731 * 0.4
		s.at += requests * 0.0731 * (0.9 + 0.2*r.Float64())
		s.bits += math.Log2(max(width/(math.Nextafter(s.at, math.Inf(1))-s.at), 1))
	case fleetGauge:
		s.at += math.Trunc(s.draw(-2*s.step, 2*s.step)) + math.Trunc((c.base-s.at)*0.02)
		s.at = max(s.at, 0)
	case fleetNoise:
		v := c.base * load * (0.75 + 0.5*r.Float64())
		s.bits += math.Log2(c.base * load * 0.5 / (math.Nextafter(v, math.Inf(1)) - v))
		return v
	case fleetRare:
		if r.IntN(2000) == 0 {
			s.at = c.base + float64(r.IntN(5))*s.step
			s.bits += 13
		}
	}
	return s.at / c.div
}

// FleetHours makes series-hours of a class with n samples each: the first `rows` of `hosts` hosts. It also returns the
// entropy of the random parts of the values, in bytes a sample.
func FleetHours(seed uint64, c *FleetClass, hosts, rows, n int, intervalMs int64) (hours []Hour, bound float64) {
	bits, samples := 0.0, 0
	for host := range hosts {
		for index := range c.Series {
			r := rand.New(rand.NewPCG(seed, uint64(host)<<32|uint64(index)<<16|uint64(len(c.Name))))
			s := newFleetSeries(r, c, index)
			phase := r.Int64N(intervalMs)
			at := int64(0)
			for row := range rows {
				h := Hour{make([]int64, n), make([]float64, n)}
				from := int64(0)
				if fits := hourMs / intervalMs; int64(n) < fits && row%2 == 0 {
					from = (fits - int64(n)) * intervalMs // the series began within the hour
				}
				for i := range n {
					h.TsMs[i] = from + phase + int64(i)*intervalMs
					h.Values[i] = s.next(at, intervalMs)
					at += intervalMs
				}
				hours = append(hours, h)
				samples += n
			}
			bits += s.bits
		}
	}
	return hours, bits / 8 / float64(samples)
}
