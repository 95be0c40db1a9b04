package column

import (
	"math"

	"github.com/prometheus/prometheus/model/value"
)

// Properties are known facts about samples. They also hold for each part of the samples.
type Properties struct {
	// StepMs is the time between neighbouring samples; 0 if it varies.
	StepMs int64
	// NoStale means that no value is a stale marker. Monotonic means that no value is less than its predecessor.
	NoStale, Monotonic bool
}

// PropertiesOf examines samples.
func PropertiesOf(c Points) Properties {
	return Properties{StepMs: interval(c.TsMs), NoStale: noStale(c.Values), Monotonic: monotonic(c.Values)}
}

// Loops that end early are twice as fast as one loop with two flags.

func noStale(values []float64) bool {
	for _, v := range values {
		if math.Float64bits(v) == value.StaleNaN {
			return false
		}
	}
	return true
}

func monotonic(values []float64) bool {
	before := math.Inf(-1)
	for _, v := range values {
		if v < before {
			return false
		}
		before = v
	}
	return true
}

// Join merges the properties of two adjacent sample ranges. n is the length of the first range; the second must not be
// empty.
func (t Properties) Join(next Properties, n int, all Points) Properties {
	between := all.TsMs[n] - all.TsMs[n-1]
	if n > 1 && t.StepMs != between || len(all.TsMs)-n > 1 && next.StepMs != between {
		between = 0
	}
	return Properties{
		StepMs: between, NoStale: t.NoStale && next.NoStale,
		Monotonic: t.Monotonic && next.Monotonic && !(all.Values[n] < all.Values[n-1]),
	}
}

// interval returns the time between neighbouring samples; 0 if it varies.
func interval(tsMs []int64) int64 {
	if len(tsMs) < 2 {
		return 1
	}
	step := tsMs[1] - tsMs[0]
	for i := 2; i < len(tsMs); i++ {
		if tsMs[i]-tsMs[i-1] != step {
			return 0
		}
	}
	return step
}
