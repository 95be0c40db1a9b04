package histograms

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"halite/keyschema/histchunk"
)

const (
	// SchemaMax is the finest schema of exponential buckets in a state: each bound is 1.41 times the previous bound.
	SchemaMax = 1
	// ResetsMax is the number of counter resets in an hour for which the histogram before the reset is kept. After more
	// resets, an increase lacks the values that the counter reached before them.
	ResetsMax = 8
)

// Hour holds the reduced histograms of an hour. The zero value has none.
type Hour struct {
	samples []histchunk.Sample // kept ones, ascending
	// first and last are the first and last histogram at full resolution, without stale markers. They are nil if the hour
	// has none, or if only the kept ones are available.
	first, last *histchunk.Sample
}

// Stored returns an hour from the histograms in its state; all others are unavailable.
func Stored(samples []histchunk.Sample) Hour { return Hour{samples: samples} }

// Reduce reduces the histograms of an hour, which have ascending times. It keeps copies only.
func Reduce(samples []histchunk.Sample) (Hour, error) {
	var h Hour
	var before *histchunk.Sample // at full resolution
	after := false               // a reset lies between the last kept histogram and the next one
	for i := range samples {
		s := &samples[i]
		if IsStale(s) {
			continue
		}
		if before != nil && isReset(before, s) {
			if len(h.samples) < ResetsMax {
				if err := h.append(before, after); err != nil {
					return Hour{}, err
				}
			}
			after = true
		}
		if before == nil {
			h.first = clone(s)
		}
		before = s
	}
	if before != nil {
		if err := h.append(before, after); err != nil {
			return Hour{}, err
		}
		h.last = clone(before)
	}
	if n := len(samples); n > 0 && IsStale(&samples[n-1]) {
		h.samples = append(h.samples, *clone(&samples[n-1]))
	}
	return h, nil
}

// append appends the part of a histogram that the hour keeps. after means that a reset lies between it and the previous kept one.
func (h *Hour) append(s *histchunk.Sample, after bool) error {
	kept, err := reduced(s)
	if err != nil {
		return err
	}
	if n := len(h.samples); after && n > 0 && !isReset(&h.samples[n-1], &kept) {
		*hint(&kept) = histogram.CounterReset
	}
	h.samples = append(h.samples, kept)
	return nil
}

// Join returns the kept histograms of consecutive hours, ascending. If the predecessor of a counter's first histogram is
// missing, Join adds the first one, so the engine finds a reset between the two.
func Join(hours []Hour) (out []histchunk.Sample, err error) {
	var last, kept *histchunk.Sample // the last histogram of the hours before, and its reduced form
	for i := range hours {
		h := &hours[i]
		if h.first == nil {
			if len(h.samples) > 0 && !IsStale(&h.samples[0]) {
				last = nil
			}
			out = append(out, h.samples...)
			continue
		}
		at := len(out)
		if last == nil && *hint(h.first) != histogram.GaugeType && h.first.TsMs < h.samples[0].TsMs {
			first, err := reduced(h.first)
			if err != nil {
				return nil, err
			}
			out = append(out, first)
			at++
		}
		out = append(out, h.samples...)
		if last != nil && isReset(last, h.first) && !isReset(kept, &out[at]) {
			*hint(&out[at]) = histogram.CounterReset
		}
		last, kept = h.last, lastKept(h.samples)
	}
	return out, nil
}

// SetHint sets the counter reset hint of a sample at full resolution that follows kept histograms. Without a hint, the engine
// would take its finer schema for a reset.
func SetHint(kept []histchunk.Sample, s *histchunk.Sample) error {
	last := lastKept(kept)
	if last == nil || IsStale(s) || *hint(s) == histogram.GaugeType {
		return nil
	}
	coarse, err := reduced(s)
	if err != nil {
		return err
	}
	if *hint(s) = histogram.NotCounterReset; isReset(last, &coarse) {
		*hint(s) = histogram.CounterReset
	}
	return nil
}

// lastKept returns the last histogram that is not a stale marker, or nil if there is none.
func lastKept(samples []histchunk.Sample) *histchunk.Sample {
	for i := range slices.Backward(samples) {
		if !IsStale(&samples[i]) {
			return &samples[i]
		}
	}
	return nil
}

// isReset reports whether the engine finds a counter reset between two histograms without hints.
func isReset(before, s *histchunk.Sample) bool {
	if *hint(before) == histogram.GaugeType || *hint(s) == histogram.GaugeType || histchunk.Continues(before, s) {
		return false
	}
	unknown := *floatOf(s)
	unknown.CounterResetHint = histogram.UnknownCounterReset
	return unknown.DetectReset(floatOf(before))
}

func floatOf(s *histchunk.Sample) *histogram.FloatHistogram {
	if s.H != nil {
		return s.H.ToFloat(nil)
	}
	return s.FH
}

func hint(s *histchunk.Sample) *histogram.CounterResetHint {
	if s.H != nil {
		return &s.H.CounterResetHint
	}
	return &s.FH.CounterResetHint
}

// IsStale reports whether a sample is a stale marker.
func IsStale(s *histchunk.Sample) bool {
	if s.H != nil {
		return value.IsStaleNaN(s.H.Sum)
	}
	return value.IsStaleNaN(s.FH.Sum)
}

func clone(s *histchunk.Sample) *histchunk.Sample {
	out := histchunk.Sample{TsMs: s.TsMs}
	if s.H != nil {
		out.H = s.H.Copy()
	} else {
		out.FH = s.FH.Copy()
	}
	return &out
}

// reduced returns a copy without hint, unless it is a gauge, and with exponential buckets of SchemaMax or coarser.
func reduced(s *histchunk.Sample) (histchunk.Sample, error) {
	out := *clone(s)
	if h := hint(&out); *h != histogram.GaugeType {
		*h = histogram.UnknownCounterReset
	}
	var err error
	switch {
	case out.H != nil && out.H.Schema > SchemaMax:
		err = out.H.ReduceResolution(SchemaMax)
	case out.FH != nil && out.FH.Schema > SchemaMax:
		err = out.FH.ReduceResolution(SchemaMax)
	}
	if err != nil {
		return out, fmt.Errorf("reduce the histogram at %d to schema %d: %w", s.TsMs, SchemaMax, err)
	}
	if out.H != nil {
		out.H.Compact(0)
	} else {
		out.FH.Compact(0)
	}
	return out, nil
}
