package opentsdb

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"halite/keyschema/histchunk"
	"halite/query/column"
	"halite/query/opentsdb/aggregation"
	"halite/query/read"
)

// histogramMember is a series of histograms.
type histogramMember struct {
	labels  labels.Labels
	samples []aggregation.Histogram
}

// evaluateHistograms evaluates a sub-query for percentiles or buckets of histograms.
func (r *subRun) evaluateHistograms(ctx context.Context, selection *read.Selection) ([]Series, error) {
	var members []member
	var samples [][]aggregation.Histogram // of each member
	for batch := range selection.Batches() {
		found, err := r.readHistograms(ctx, selection, batch)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			members = append(members, member{labels: m.labels, number: len(members)})
			samples = append(samples, r.sub.Down.Histograms(m.samples, r.within))
		}
	}
	var out []Series
	for _, group := range divide(members, r.sub) {
		var lists [][]aggregation.Histogram
		for _, m := range group {
			lists = append(lists, samples[m.number])
		}
		out = append(out, r.histogramSeries(group, aggregation.JoinHistograms(lists))...)
	}
	return out, ctx.Err()
}

// readHistograms reads the histograms of a batch. It omits series without histograms.
func (r *subRun) readHistograms(ctx context.Context, selection *read.Selection, batch int) ([]histogramMember, error) {
	var members []histogramMember // of each series
	err := selection.ReadSlices(ctx, batch, func(slice *read.Batch) error {
		if members == nil {
			members = make([]histogramMember, len(slice.Columns))
		}
		for i := range slice.Columns {
			if err := r.addHistograms(&members[i], &slice.Columns[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(members, func(m histogramMember) bool { return len(m.samples) == 0 }), nil
}

func (r *subRun) addHistograms(m *histogramMember, c *column.Column) error {
	m.labels = c.Labels
	if c.Records == nil {
		return nil
	}
	for i := range c.Records.Histograms {
		h := bucketsOf(&c.Records.Histograms[i])
		if h == nil {
			continue
		}
		if err := r.reading.Hold(2 + 2*len(h.Buckets)); err != nil {
			return err
		}
		h.TsMs += r.sub.OffsetMs
		m.samples = append(m.samples, *h)
	}
	return nil
}

// bucketsOf returns the buckets of a histogram, or nil for a stale marker.
func bucketsOf(s *histchunk.Sample) *aggregation.Histogram {
	var h *histogram.FloatHistogram
	if h = s.FH; h == nil {
		h = s.H.ToFloat(nil)
	}
	if value.IsStaleNaN(h.Sum) {
		return nil
	}
	out := &aggregation.Histogram{TsMs: s.TsMs}
	for it := h.AllBucketIterator(); it.Next(); {
		switch b := it.At(); {
		case math.IsInf(b.Lower, -1):
			out.Under += b.Count
		case math.IsInf(b.Upper, 1):
			out.Over += b.Count
		default:
			out.Buckets = append(out.Buckets, aggregation.Bucket{Lower: b.Lower, Upper: b.Upper, Count: b.Count})
		}
	}
	return out
}

// histogramSeries returns a series for each percentile. With ShowBuckets it adds series for underflow, for each bucket of
// the first histogram, and for overflow.
func (r *subRun) histogramSeries(group []member, samples []aggregation.Histogram) (out []Series) {
	for len(samples) > 0 && samples[0].TsMs < r.query.StartMs {
		samples = samples[1:]
	}
	for n := len(samples); n > 0 && samples[n-1].TsMs > r.query.EndMs; n-- {
		samples = samples[:n-1]
	}
	if len(samples) == 0 {
		return nil
	}
	for _, p := range r.sub.Percentiles {
		s := r.emptySeries(group, "_pct_"+javaFloat(p))
		for i := range samples {
			s.TsMs, s.Doubles = append(s.TsMs, samples[i].TsMs), append(s.Doubles, samples[i].Percentile(p))
		}
		out = append(out, s)
	}
	if !r.sub.ShowBuckets {
		return out
	}
	counted := func(suffix string, count func(*aggregation.Histogram) float64) {
		s := r.emptySeries(group, suffix)
		for i := range samples {
			s.TsMs, s.Integers = append(s.TsMs, samples[i].TsMs), append(s.Integers, int64(count(&samples[i])))
		}
		out = append(out, s)
	}
	counted("_UNDERFLOW", func(h *aggregation.Histogram) float64 { return h.Under })
	for _, b := range samples[0].Buckets {
		counted("_"+javaFloat(b.Lower)+"_"+javaFloat(b.Upper), func(h *aggregation.Histogram) float64 {
			return h.Bucket(b.Lower, b.Upper)
		})
	}
	counted("_OVERFLOW", func(h *aggregation.Histogram) float64 { return h.Over })
	return out
}

// emptySeries returns a series of a group without points. It appends suffix to the metric.
func (r *subRun) emptySeries(group []member, suffix string) Series {
	s := Series{Sub: r.sub}
	s.Metric = r.metric + suffix
	s.Tags, s.AggregateTags = commonTags(group)
	if r.query.ShowTSUIDs {
		s.TSUIDs = ids(group)
		s.FormerTSUIDs = r.formerIDs(s.TSUIDs)
	}
	return s
}

// javaFloat formats v as Java formats a float, but without an exponent.
func javaFloat(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 32)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
