package column

import (
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"halite/keyschema/histchunk"
)

// SetHints sets the counter reset hints of histograms as Prometheus's storage returns them. Gauges stay gauges. A histogram that
// continues the one before is no counter reset; all others are unknown. floats are the times of float samples of the series: a
// histogram after a float is unknown.
func SetHints(samples []histchunk.Sample, floats []int64) {
	at := 0
	for i := range samples {
		for at < len(floats) && floats[at] < samples[i].TsMs {
			at++
		}
		follows := i > 0 && (at == 0 || floats[at-1] < samples[i-1].TsMs)
		// The next histogram needs the old hint of this one only to know whether it is a gauge.
		var before *histchunk.Sample
		if follows {
			before = &samples[i-1]
		}
		if hint := hintOf(&samples[i]); *hint != histogram.GaugeType {
			*hint = hintAfter(before, &samples[i])
		}
	}
}

func hintOf(s *histchunk.Sample) *histogram.CounterResetHint {
	if s.H != nil {
		return &s.H.CounterResetHint
	}
	return &s.FH.CounterResetHint
}

// hintAfter is the hint of a counter after the sample before, which may be nil.
func hintAfter(before, s *histchunk.Sample) histogram.CounterResetHint {
	if before == nil || *hintOf(s) == histogram.CounterReset || *hintOf(before) == histogram.GaugeType {
		return histogram.UnknownCounterReset
	}
	continues := false
	switch {
	case before.H != nil && s.H != nil:
		continues = continuesIntegers(before.H, s.H)
	case before.FH != nil && s.FH != nil:
		continues = continuesFloats(before.FH, s.FH)
	}
	if continues {
		return histogram.NotCounterReset
	}
	return histogram.UnknownCounterReset
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
	// DetectReset trusts the hint of a histogram. Only the counts decide here.
	unknown := *h
	unknown.CounterResetHint = histogram.UnknownCounterReset
	return !unknown.DetectReset(before)
}
