package aggregation

import (
	"cmp"
	"slices"
)

// Bucket counts the values from Lower to Upper.
type Bucket struct{ Lower, Upper, Count float64 }

// Histogram has buckets, sorted by their bounds. Under and Over count the values below and above all buckets.
type Histogram struct {
	TsMs        int64
	Buckets     []Bucket
	Under, Over float64
}

// add adds the counts of other. Buckets with equal bounds become one.
func (h *Histogram) add(other *Histogram) {
	h.Under += other.Under
	h.Over += other.Over
	bounds := func(a, b Bucket) int { return cmp.Or(cmp.Compare(a.Lower, b.Lower), cmp.Compare(a.Upper, b.Upper)) }
	merged := make([]Bucket, 0, max(len(h.Buckets), len(other.Buckets)))
	a, b := h.Buckets, other.Buckets
	for len(a) > 0 && len(b) > 0 {
		switch order := bounds(a[0], b[0]); {
		case order < 0:
			merged, a = append(merged, a[0]), a[1:]
		case order > 0:
			merged, b = append(merged, b[0]), b[1:]
		default:
			merged = append(merged, Bucket{a[0].Lower, a[0].Upper, a[0].Count + b[0].Count})
			a, b = a[1:], b[1:]
		}
	}
	h.Buckets = append(append(merged, a...), b...)
}

// Percentile returns the middle of the bucket in which percentile p, from 1 to 100, lies. Values outside of all buckets do not
// count. For other values of p it returns -1, as OpenTSDB does. Without samples it returns 0.
func (h *Histogram) Percentile(p float64) float64 {
	if p < 1 || p > 100 {
		return -1
	}
	all, running := 0.0, 0.0
	for _, b := range h.Buckets {
		all += b.Count
	}
	for _, b := range h.Buckets {
		if running += b.Count; running*100/all >= p {
			return (b.Lower + b.Upper) / 2
		}
	}
	return 0
}

// Bucket returns the count of the bucket with the given bounds, or 0 if there is none.
func (h *Histogram) Bucket(lower, upper float64) float64 {
	for _, b := range h.Buckets {
		if b.Lower == lower && b.Upper == upper {
			return b.Count
		}
	}
	return 0
}

// Histograms adds up the histograms of each interval. A nil d returns the samples unchanged. No fill policy applies.
func (d *Downsampling) Histograms(samples []Histogram, within Range) (out []Histogram) {
	if d == nil {
		return samples
	}
	fromMs, toMs := within.ReadFromMs, within.ReadToMs+1
	v := intervals{down: d}
	if d.All {
		fromMs, toMs = within.StartMs, within.EndMs
		v.startMs, v.endMs = within.StartMs, within.EndMs
	} else {
		fromMs = d.firstWhole(fromMs)
	}
	begun := d.All
	for i := range samples {
		h := &samples[i]
		if h.TsMs < fromMs || h.TsMs >= toMs {
			continue
		}
		if !begun {
			v.begin(h.TsMs)
			begun = true
		}
		if h.TsMs >= v.endMs {
			v.reach(h.TsMs)
		}
		if n := len(out); n > 0 && out[n-1].TsMs == v.startMs {
			out[n-1].add(h)
			continue
		}
		first := *h
		first.TsMs = v.startMs
		out = append(out, first)
	}
	return out
}

// JoinHistograms adds up the histograms of several series that have the same time.
func JoinHistograms(series [][]Histogram) (out []Histogram) {
	all := slices.Concat(series...)
	slices.SortStableFunc(all, func(a, b Histogram) int { return cmp.Compare(a.TsMs, b.TsMs) })
	for i := range all {
		if n := len(out); n > 0 && out[n-1].TsMs == all[i].TsMs {
			out[n-1].add(&all[i])
			continue
		}
		out = append(out, all[i])
	}
	return out
}
