package rollup

import (
	"math"

	"github.com/prometheus/prometheus/model/value"
)

// State describes the samples of one series in a span. The zero State describes no samples. Stale markers are not
// samples. NaN values are, and count in all fields except Min and Max.
type State struct {
	// Count is the number of samples. NaNs is the number of samples that are NaN.
	Count, NaNs int64
	// FirstMs and First are the time and value of the first sample. LastMs and Last belong to the last sample. They are
	// unset while Count is 0.
	FirstMs, LastMs int64
	First, Last     float64
	// Correction is the sum of the values right before each reset of a counter.
	Correction float64
	// Resets counts samples smaller than their predecessor. Changes counts samples unequal to it; NaN equals NaN.
	Resets, Changes int64
	// Sum and SumLow add up to the sum of all values. SumLow collects the rounding errors of Sum. See Total.
	Sum, SumLow float64
	// Min and Max ignore NaN unless all values are NaN.
	Min, Max float64
	// Mean and M2 are the mean and the sum of squared distances from it. They are NaN if a value is NaN or infinite.
	Mean, M2 float64
	// Stale is set if a stale marker follows the last sample.
	Stale bool
}

// FromColumns computes the state of samples with ascending times. The slices have equal length.
func FromColumns(tsMs []int64, values []float64) State {
	var s State
	for i, ts := range tsMs {
		s.Add(ts, values[i])
	}
	return s
}

// Add adds a sample that is later than all samples of s.
func (s *State) Add(tsMs int64, v float64) {
	if value.IsStaleNaN(v) {
		s.Stale = true
		return
	}
	s.Stale = false
	if s.Count == 0 {
		s.FirstMs, s.First, s.Min, s.Max = tsMs, v, v, v
	} else {
		s.step(v)
		s.Min, s.Max = lower(s.Min, v), higher(s.Max, v)
	}
	s.Count++
	if math.IsNaN(v) {
		s.NaNs++
	}
	s.LastMs, s.Last = tsMs, v
	s.Sum, s.SumLow = addExact(s.Sum, s.SumLow, v)
	s.addMoment(v)
}

// step counts the reset or change from the last sample to the next one, which has value v.
func (s *State) step(v float64) {
	if v < s.Last {
		s.Resets++
		s.Correction += s.Last
	}
	if v != s.Last && !(math.IsNaN(v) && math.IsNaN(s.Last)) {
		s.Changes++
	}
}

// addMoment adds v to Mean and M2 by Welford's method. Count already includes v.
func (s *State) addMoment(v float64) {
	delta := v - s.Mean
	if math.IsNaN(delta) || math.IsInf(delta, 0) {
		s.Mean, s.M2 = math.NaN(), math.NaN()
		return
	}
	s.Mean += delta / float64(s.Count)
	s.M2 += delta * (v - s.Mean)
}

// Join is the state of the samples of a and b. All samples of b are later than all samples of a.
func Join(a, b State) State {
	a.Append(&b, FieldsAll)
	return a
}

// Append joins b to s. All samples of b are later than all samples of s. Append joins count, times and the given fields; the
// other fields are then undefined.
func (s *State) Append(b *State, fields Fields) {
	if b.Count == 0 {
		s.Stale = s.Stale || b.Stale
		return
	}
	if s.Count == 0 {
		*s = *b
		return
	}
	if fields&(FieldCounter|FieldChanges) != 0 {
		s.step(b.First)
		s.Correction += b.Correction
		s.Resets += b.Resets
		s.Changes += b.Changes
	}
	if fields&FieldMin != 0 {
		s.Min = lower(s.Min, b.Min)
	}
	if fields&FieldMax != 0 {
		s.Max = higher(s.Max, b.Max)
	}
	if fields&FieldMoments != 0 {
		joinMoments(s, b.Count, b.Mean, b.M2)
	}
	if fields&FieldSum != 0 {
		joinSum(s, b.Sum, b.SumLow)
	}
	s.Count += b.Count
	s.NaNs += b.NaNs
	s.LastMs, s.Last, s.Stale = b.LastMs, b.Last, b.Stale
}

// joinSum adds the sum of a later span to s.
func joinSum(s *State, sum, low float64) {
	s.Sum, s.SumLow = addExact(s.Sum, s.SumLow, sum)
	if !math.IsInf(s.Sum, 0) {
		s.SumLow += low
	}
}

// joinMoments joins mean and M2 of a later span with count samples to s, whose Count does not include them yet.
func joinMoments(s *State, count int64, mean, m2 float64) {
	delta := mean - s.Mean
	share := float64(count) / float64(s.Count+count)
	m2 += s.M2 + float64(delta*delta*share*float64(s.Count)) // not fused, so that all machines agree
	s.Mean, s.M2 = s.Mean+float64(delta*share), m2
}

// Total is the sum of all values.
func (s State) Total() float64 {
	if math.IsInf(s.Sum, 0) {
		return s.Sum
	}
	return s.Sum + s.SumLow
}

// Variance is the population variance, NaN without samples.
func (s State) Variance() float64 { return s.M2 / float64(s.Count) }

// addExact adds v to sum, and the rounding error to low, by Neumaier's method. An infinite sum has no error.
func addExact(sum, low, v float64) (float64, float64) {
	t := sum + v
	switch {
	case math.IsInf(t, 0):
		return t, 0
	case math.Abs(sum) >= math.Abs(v):
		return t, low + ((sum - t) + v)
	default:
		return t, low + ((v - t) + sum)
	}
}

func lower(a, b float64) float64 {
	if b < a || math.IsNaN(a) {
		return b
	}
	return a
}

func higher(a, b float64) float64 {
	if b > a || math.IsNaN(a) {
		return b
	}
	return a
}
