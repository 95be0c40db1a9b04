package histchunk

import (
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
)

// Continues reports whether a histogram certainly continues its predecessor without a reset. Both have the same kind
// and layout, and no bucket counts less. Reset hints do not matter.
func Continues(before, s *Sample) bool {
	switch {
	case before.H != nil && s.H != nil:
		return continuesIntegers(before.H, s.H)
	case before.FH != nil && s.FH != nil:
		return continuesFloats(before.FH, s.FH)
	}
	return false
}

// continuesIntegers reports whether no bucket of h counts less than before.
func continuesIntegers(before, h *histogram.Histogram) bool {
	switch {
	case value.IsStaleNaN(h.Sum):
		return true
	case value.IsStaleNaN(before.Sum), h.Count < before.Count, h.ZeroCount < before.ZeroCount, h.Schema != before.Schema,
		h.ZeroThreshold != before.ZeroThreshold:
		return false
	case slices.Equal(h.PositiveSpans, before.PositiveSpans) && slices.Equal(h.NegativeSpans, before.NegativeSpans) &&
		slices.Equal(h.CustomValues, before.CustomValues):
		return ascendDeltas(before.PositiveBuckets, h.PositiveBuckets) && ascendDeltas(before.NegativeBuckets, h.NegativeBuckets)
	}
	return continuesFloats(before.ToFloat(nil), h.ToFloat(nil))
}

// ascendDeltas reports whether no count is less than before. Both slices hold differences of neighbouring buckets.
func ascendDeltas(before, now []int64) bool {
	grown := int64(0)
	for i := range now {
		if grown += now[i] - before[i]; grown < 0 {
			return false
		}
	}
	return true
}

// continuesFloats is continuesIntegers for float histograms.
func continuesFloats(before, h *histogram.FloatHistogram) bool {
	switch {
	case value.IsStaleNaN(h.Sum):
		return true
	case value.IsStaleNaN(before.Sum), h.Count < before.Count, h.ZeroCount < before.ZeroCount, h.Schema != before.Schema,
		h.ZeroThreshold != before.ZeroThreshold:
		return false
	case h.UsesCustomBuckets() && !histogram.CustomBucketBoundsMatch(h.CustomValues, before.CustomValues):
		return false
	}
	// DetectReset trusts the hint of a histogram, but here only the counts decide.
	unknown := *h
	unknown.CounterResetHint = histogram.UnknownCounterReset
	return !unknown.DetectReset(before)
}
