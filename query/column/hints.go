package column

import (
	"github.com/prometheus/prometheus/model/histogram"

	"halite/keyschema/histchunk"
)

// SetHints sets the counter reset hints of histograms like Prometheus's storage. Gauges stay gauges. A histogram that
// continues its predecessor is not a reset; all others are unknown. floats are the times of float samples of the series:
// a histogram after a float is unknown.
func SetHints(samples []histchunk.Sample, floats []int64) {
	at := 0
	for i := range samples {
		for at < len(floats) && floats[at] < samples[i].TsMs {
			at++
		}
		follows := i > 0 && (at == 0 || floats[at-1] < samples[i-1].TsMs)
		// The next iteration uses the old hint of this histogram only to check whether it is a gauge.
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
	if histchunk.Continues(before, s) {
		return histogram.NotCounterReset
	}
	return histogram.UnknownCounterReset
}
