package column

import (
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
)

// Records are the samples of one series other than floats. Times ascend.
type Records struct {
	// Histograms have one sample for each time. Callers do not change them.
	Histograms []histchunk.Sample
	// StartTimes are the start timestamps of floats and histograms. The time of a point is the time of the sample. Its value is
	// the start timestamp in milliseconds since 1970.
	StartTimes Points
	// Exemplars may have equal times. No two are equal.
	Exemplars []exemplar.Exemplar
}

// Sizes in bytes.
const (
	histogramBytes = 200 // without buckets
	exemplarBytes  = 64  // without labels
)

// HistogramBytes returns the memory of histograms. Memory that several histograms share counts for each of them.
func HistogramBytes(samples []histchunk.Sample) (sizeBytes int64) {
	for i := range samples {
		numbers := 0
		if h := samples[i].H; h != nil {
			numbers = len(h.PositiveBuckets) + len(h.NegativeBuckets) + len(h.PositiveSpans) + len(h.NegativeSpans) +
				len(h.CustomValues)
		} else if h := samples[i].FH; h != nil {
			numbers = len(h.PositiveBuckets) + len(h.NegativeBuckets) + len(h.PositiveSpans) + len(h.NegativeSpans) +
				len(h.CustomValues)
		}
		sizeBytes += histogramBytes + 8*int64(numbers)
	}
	return sizeBytes
}

// SizeBytes returns the memory of the records.
func (r *Records) SizeBytes() int64 {
	sizeBytes := HistogramBytes(r.Histograms) + SampleBytes*int64(len(r.StartTimes.TsMs))
	for i := range r.Exemplars {
		sizeBytes += exemplarBytes
		r.Exemplars[i].Labels.Range(func(l labels.Label) { sizeBytes += int64(len(l.Name) + len(l.Value)) })
	}
	return sizeBytes
}

// Len returns the number of histograms and exemplars.
func (r *Records) Len() int { return len(r.Histograms) + len(r.Exemplars) }

// Add adds later records. At equal times they win.
func (r *Records) Add(later *Records) {
	r.Histograms = merged(r.Histograms, later.Histograms)
	r.StartTimes = mergedPoints(r.StartTimes, later.StartTimes)
	r.Exemplars = MergeExemplars(r.Exemplars, later.Exemplars)
}

// ClipRecords returns the records within the range.
func (w TimeRange) ClipRecords(r Records) Records {
	r.StartTimes = w.Clip(r.StartTimes)
	byTime := func(s histchunk.Sample, tsMs int64) int { return cmp.Compare(s.TsMs, tsMs) }
	from, _ := slices.BinarySearchFunc(r.Histograms, w.MinMs, byTime)
	to, found := slices.BinarySearchFunc(r.Histograms, w.MaxMs, byTime)
	if found {
		to++
	}
	to = max(from, to)
	r.Histograms = r.Histograms[from:to:to]
	from = slices.IndexFunc(r.Exemplars, func(e exemplar.Exemplar) bool { return e.TsMs >= w.MinMs })
	if from < 0 {
		from = len(r.Exemplars)
	}
	r.Exemplars = r.Exemplars[from:]
	if to = slices.IndexFunc(r.Exemplars, func(e exemplar.Exemplar) bool { return e.TsMs > w.MaxMs }); to >= 0 {
		r.Exemplars = r.Exemplars[:to]
	}
	return r
}

// merged merges two ascending lists of histograms. At equal times the later list wins.
func merged(earlier, later []histchunk.Sample) []histchunk.Sample {
	switch {
	case len(later) == 0:
		return earlier
	case len(earlier) == 0:
		return later
	case earlier[len(earlier)-1].TsMs < later[0].TsMs:
		return append(earlier, later...)
	}
	out := make([]histchunk.Sample, 0, len(earlier)+len(later))
	for len(earlier) > 0 && len(later) > 0 {
		if earlier[0].TsMs < later[0].TsMs {
			out, earlier = append(out, earlier[0]), earlier[1:]
			continue
		}
		if earlier[0].TsMs == later[0].TsMs {
			earlier = earlier[1:]
		}
		out, later = append(out, later[0]), later[1:]
	}
	return append(append(out, earlier...), later...)
}

// mergedPoints is merged for points.
func mergedPoints(earlier, later Points) Points {
	switch {
	case len(later.TsMs) == 0:
		return earlier
	case len(earlier.TsMs) == 0:
		return later
	}
	var out Buffer
	for len(later.TsMs) > 0 {
		var before Points
		before, earlier = earlier.Split(later.TsMs[0])
		out.Append(before.TsMs, before.Values)
		if len(earlier.TsMs) > 0 && earlier.TsMs[0] == later.TsMs[0] {
			earlier.TsMs, earlier.Values = earlier.TsMs[1:], earlier.Values[1:]
		}
		n := len(later.TsMs)
		if len(earlier.TsMs) > 0 {
			head, _ := later.Split(earlier.TsMs[0])
			n = max(1, len(head.TsMs))
		}
		out.Append(later.TsMs[:n], later.Values[:n])
		later.TsMs, later.Values = later.TsMs[n:], later.Values[n:]
	}
	out.Append(earlier.TsMs, earlier.Values)
	return Points(out)
}

// MergeExemplars merges two lists by time, without duplicates.
func MergeExemplars(a, b []exemplar.Exemplar) []exemplar.Exemplar {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b exemplar.Exemplar) int { return cmp.Compare(a.TsMs, b.TsMs) })
	out := all[:0]
	for _, e := range all {
		duplicate := false
		for i := len(out) - 1; i >= 0 && out[i].TsMs == e.TsMs && !duplicate; i-- {
			duplicate = out[i].Value == e.Value && labels.Equal(out[i].Labels, e.Labels)
		}
		if !duplicate {
			out = append(out, e)
		}
	}
	return out
}

// HideFloats removes the samples at the times of histograms.
func (r *Records) HideFloats(s *Samples) {
	if len(r.Histograms) == 0 || len(s.TsMs) == 0 {
		return
	}
	at, kept := 0, 0
	for i, ts := range s.TsMs {
		for at < len(r.Histograms) && r.Histograms[at].TsMs < ts {
			at++
		}
		if at < len(r.Histograms) && r.Histograms[at].TsMs == ts {
			continue
		}
		s.TsMs[kept], s.Values[kept] = ts, s.Values[i]
		kept++
	}
	if kept < len(s.TsMs) {
		s.TsMs, s.Values, s.StepMs = s.TsMs[:kept], s.Values[:kept], 0
	}
}
