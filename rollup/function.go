package rollup

import (
	"fmt"
	"math"
	"time"
)

// Func is a function over a range that states can answer.
type Func uint8

// The functions, named as in PromQL.
const (
	CountOverTime Func = iota
	PresentOverTime
	SumOverTime
	AvgOverTime
	MinOverTime
	MaxOverTime
	FirstOverTime
	LastOverTime
	TsOfFirstOverTime
	TsOfLastOverTime
	StddevOverTime
	StdvarOverTime
	Rate
	Increase
	Delta
	Resets
	Changes
	functionsAll
)

func functionNames() [functionsAll]string {
	return [functionsAll]string{
		"count_over_time", "present_over_time", "sum_over_time", "avg_over_time", "min_over_time", "max_over_time",
		"first_over_time", "last_over_time", "ts_of_first_over_time", "ts_of_last_over_time", "stddev_over_time",
		"stdvar_over_time", "rate", "increase", "delta", "resets", "changes",
	}
}

// ParseFunc finds a function by its name in PromQL. Callers derive absent_over_time from present_over_time. All other
// functions need the samples: sorted (quantile_over_time, mad_over_time), in order (double_exponential_smoothing), with
// their times (deriv, predict_linear), or the last two (irate, idelta).
func ParseFunc(name string) (Func, bool) {
	for f, n := range functionNames() {
		if n == name {
			return Func(f), true
		}
	}
	return 0, false
}

// String is the function's name in PromQL.
func (f Func) String() string {
	if f >= functionsAll {
		return fmt.Sprintf("function %d", f)
	}
	return functionNames()[f]
}

// Fields are the fields of a State that the function needs.
func (f Func) Fields() Fields {
	switch f {
	case SumOverTime, AvgOverTime:
		return FieldSum
	case MinOverTime:
		return FieldMin
	case MaxOverTime:
		return FieldMax
	case FirstOverTime, LastOverTime, Delta:
		return FieldEdges
	case StddevOverTime, StdvarOverTime:
		return FieldMoments
	case Rate, Increase, Resets:
		return FieldEdges | FieldCounter
	case Changes:
		return FieldEdges | FieldChanges
	default:
		return 0
	}
}

// Eval evaluates the function over the window (startMs, endMs], whose samples have the state s. The value equals
// Prometheus's, except for the order of additions and, for stddev and stdvar, the rounding of Mean and M2. has is false if
// there is no value. exact is false if a sum is infinite. Then the caller must use the samples, because the order
// of additions decides whether a sum overflows.
func (f Func) Eval(s *State, startMs, endMs int64) (v float64, has, exact bool) {
	if s.Count == 0 {
		return 0, false, true
	}
	switch f {
	case CountOverTime:
		return float64(s.Count), true, true
	case PresentOverTime:
		return 1, true, true
	case SumOverTime:
		return s.Total(), true, !math.IsInf(s.Sum, 0)
	case AvgOverTime:
		return s.Total() / float64(s.Count), true, !math.IsInf(s.Sum, 0)
	case MinOverTime:
		return s.Min, true, true
	case MaxOverTime:
		return s.Max, true, true
	case FirstOverTime:
		return s.First, true, true
	case LastOverTime:
		return s.Last, true, true
	case TsOfFirstOverTime:
		return float64(s.FirstMs) / 1000, true, true
	case TsOfLastOverTime:
		return float64(s.LastMs) / 1000, true, true
	case StddevOverTime:
		return math.Sqrt(s.Variance()), true, true
	case StdvarOverTime:
		return s.Variance(), true, true
	case Rate, Increase, Delta:
		return f.extrapolate(s, startMs, endMs)
	case Resets:
		return float64(s.Resets), true, true
	case Changes:
		return float64(s.Changes), true, true
	default:
		return 0, false, false
	}
}

// extrapolate evaluates Rate, Increase or Delta. It extends the difference between the first and the last sample to the
// window, as Prometheus does.
func (f Func) extrapolate(s *State, startMs, endMs int64) (v float64, has, exact bool) {
	if s.Count < 2 {
		return 0, false, true
	}
	counter := f != Delta
	diff := s.Last - s.First
	if counter {
		diff += s.Correction
	}
	toStart := float64(s.FirstMs-startMs) / 1000
	toEnd := float64(endMs-s.LastMs) / 1000
	sampled := float64(s.LastMs-s.FirstMs) / 1000
	between := sampled / float64(s.Count-1)
	threshold := between * 1.1
	// If a sample is near an end of the window, the series extends to it. Otherwise it extends by half an interval.
	if toStart >= threshold {
		toStart = between / 2
	}
	if counter && diff > 0 && s.First >= 0 {
		// A counter is never below zero.
		toStart = min(toStart, sampled*(s.First/diff))
	}
	if toEnd >= threshold {
		toEnd = between / 2
	}
	factor := (sampled + toStart + toEnd) / sampled
	if f == Rate {
		factor /= (time.Duration(endMs-startMs) * time.Millisecond).Seconds()
	}
	return diff * factor, true, true
}
