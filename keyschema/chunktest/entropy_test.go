package chunktest

import (
	"math"
	"testing"
)

// fleetProfile is a load whose sizes docs/benchmarks.md lists. Hosts restart every two days, which bounds their sums.
type fleetProfile struct {
	name       string
	intervalMs int64
	lastMs     int64
}

var fleetProfiles = []fleetProfile{{"main", 15_000, 3_600_000}, {"long", 60_000, 2 * 86_400_000}}

// TestFleetEntropy computes the entropy of a fleet's values from the rules that draw them. No lossless store takes
// less. The first figure is for a store that encodes each series separately. The second is for a store that knows that
// one number of requests determines all buckets and the count of a host, and part of the sum. With -v it prints both.
func TestFleetEntropy(t *testing.T) {
	for _, p := range fleetProfiles {
		alone, joint := 0.0, 0.0
		steps := p.lastMs / p.intervalMs
		for at := int64(0); at < p.lastMs; at += p.intervalMs {
			a, j := fleetStepBits(float64(at), float64(p.intervalMs)/15_000, float64(at/p.intervalMs+1))
			alone, joint = alone+a, joint+j
		}
		alone, joint = alone/float64(steps)/800, joint/float64(steps)/800
		t.Logf("%s: %.3f bytes a sample series by series, %.3f jointly", p.name, alone, joint)
		if joint > alone-0.05 || joint < 1 {
			t.Errorf("%s: entropy %.3f, jointly %.3f", p.name, alone, joint)
		}
	}
}

// fleetStepBits is the entropy of the 100 values of one host at one time, on average over hosts, each by itself and all
// jointly. fleetSeries.next has the same load; steps is how often the host was scraped since it began.
func fleetStepBits(tsMs, per, steps float64) (alone, joint float64) {
	const hosts, sumMean = 4, 0.0731
	for host := range hosts {
		phase := 2 * math.Pi * float64(host) / hosts
		busy := 0.5 + (float64(host*3%hosts)+0.5)/hosts
		load := busy * (1 + 0.4*math.Sin(2*math.Pi*tsMs/86_400_000+phase))
		requests := floorBits(480*load*per, 720*load*per)
		joint += requests / hosts
		for i := range Fleet {
			for s := range Fleet[i].Series {
				c, step := &Fleet[i], Fleet[i].steps[s%len(Fleet[i].steps)]
				bits, shared := 0.0, 0.0
				switch c.kind {
				case fleetCounter:
					bits = floorBits(0.7*step*load*per, 1.3*step*load*per)
				case fleetBucket:
					bits = floorBits(480*load*per*step/1000, 720*load*per*step/1000)
					shared = bits
				case fleetSum:
					mean := 600 * load * per * sumMean
					spacing := math.Log2(ulp(steps * 600 * busy * per * sumMean))
					shared = spreadBits(mean) - math.Log2(mean*0.2)
					bits = spreadBits(mean) - spacing
				case fleetGauge:
					bits = floorBits(-2*step, 2*step)
				case fleetNoise:
					bits = math.Log2(c.base * load * 0.5 / ulp(c.base*load))
				case fleetRare:
					bits = (math.Log2(2000) + math.Log2(5) + math.Log2E) / 2000
				}
				alone += bits / hosts
				joint += (bits - shared) / hosts
			}
		}
	}
	return alone, joint
}

func ulp(x float64) float64 { return math.Nextafter(x, math.Inf(1)) - x }

// floorBits is the entropy of the whole part of a number drawn from [from, to).
func floorBits(from, to float64) (bits float64) {
	width := to - from
	for at := from; at < to; {
		next := min(math.Floor(at)+1, to)
		if p := (next - at) / width; p > 0 {
			if whole := math.Floor(to) - next; next == math.Floor(next) && whole > 1 {
				bits += whole / width * math.Log2(width)
				next += whole
			}
			bits -= p * math.Log2(p)
		}
		at = next
	}
	return bits
}

// spreadBits is the differential entropy of mean · r · v with r drawn from 0.8 to 1.2 and v from 0.9 to 1.1.
func spreadBits(mean float64) (bits float64) {
	const points = 200
	for i := range points {
		x := 0.72 + (1.32-0.72)*(float64(i)+0.5)/points
		density := (math.Log(min(1.2, x/0.9)) - math.Log(max(0.8, x/1.1))) / (0.4 * 0.2)
		bits -= density * math.Log2(density) * (1.32 - 0.72) / points
	}
	return bits + math.Log2(mean)
}
