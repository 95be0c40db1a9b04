package aggregation

import "math"

// Rate holds the options of a rate. The zero value computes the plain rate. With Counter, set CounterMax as well.
type Rate struct {
	// Counter treats a fall as the overflow of a counter at CounterMax.
	Counter    bool
	CounterMax int64
	// ResetValue, if positive, is the rate above which an overflow counts as a reset. The rate of a reset is 0.
	ResetValue int64
	// DropResets omits the points at which the counter falls.
	DropResets bool
}

// DefaultCounterMax is the maximum of a counter without a given maximum.
const DefaultCounterMax = math.MaxInt64

// points returns the rates per second. The first is the rate since 1970, as OpenTSDB computes it. A Group never shows it, but
// uses it as the value of the series until the second point.
func (r *Rate) points(p Points, downsampled bool) (out Points) {
	var beforeMs int64
	before := 0.0
	for i, tsMs := range p.TsMs {
		if rate, ok := r.between(before, p.Values[i], float64(tsMs-beforeMs)/1000, downsampled); ok {
			out.add(tsMs, rate)
		}
		beforeMs, before = tsMs, p.Values[i]
	}
	return out
}

// between returns the rate between two values, or false if it is omitted.
func (r *Rate) between(before, value, seconds float64, downsampled bool) (rate float64, ok bool) {
	difference := value - before
	if !r.Counter || !(difference < 0) {
		return difference / seconds, true
	}
	if r.DropResets {
		return 0, false
	}
	if !downsampled && IsInteger(before) && IsInteger(value) {
		difference = float64(r.CounterMax - int64(before) + int64(value))
	} else {
		difference = float64(r.CounterMax) - before + value
	}
	rate = difference / seconds
	if r.ResetValue > 0 && rate > float64(r.ResetValue) {
		return 0, true
	}
	return rate, true
}
