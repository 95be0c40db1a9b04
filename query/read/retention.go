package read

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/hours"
	"halite/storage/index"
)

// cutoffs returns the cutoffs of metrics with a shorter retention, as far as they concern the window; nil for none.
func (s *Selection) cutoffs(window column.TimeRange) *keyschema.Cutoffs {
	if s.unretained {
		return nil
	}
	return s.session.reader.opts.RetentionByMetric.Since(s.nowMs, window.MinMs)
}

// histogramCutoffs returns the cutoffs of native histograms; nil if they are kept as long as other samples.
func (s *Selection) histogramCutoffs() *keyschema.Cutoffs {
	if s.unretained {
		return nil
	}
	return s.session.reader.opts.RetentionByMetric.Tier(keyschema.NativeHistograms).At(s.nowMs)
}

// restrictToRetention omits hours that are older than the retention of their metric, and series without other hours.
func (s *Selection) restrictToRetention(series []index.Series) []index.Series {
	cutoffs := s.cutoffs(s.window)
	if cutoffs == nil {
		return series
	}
	out := series[:0:0]
	for _, s := range series {
		if first := keyschema.HourOf(cutoffs.Ms(metricOf(s.Labels))); len(s.Hours) > 0 && s.Hours[0].First < first {
			s.Hours = hours.Intersect(s.Hours, []index.HourSpan{{First: first, Last: math.MaxInt64}})
		}
		if len(s.Hours) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// RetiredHistograms returns a metric with histograms in the range that retention hides although floats of that time are found:
// as samples, which are kept longer, or as rollups, which hold no histograms. age is the retention of the metric's histograms. ok
// is false if there is no such metric. An error of the index counts as none: the selection meets it as well.
func (r *Reader) RetiredHistograms(
	ctx context.Context, within column.TimeRange, matchers []*labels.Matcher,
) (metric string, age time.Duration, ok bool) {
	set, nowMs := r.opts.Histograms, r.opts.Now().UnixMilli()
	ages := r.opts.RetentionByMetric.Tier(keyschema.NativeHistograms)
	shorter := ages.At(nowMs)
	if set == nil || set.Len() == 0 || !r.opts.Rollups && shorter == nil {
		return "", 0, false
	}
	oldestMs := int64(math.MinInt64)
	if r.opts.Retention > 0 {
		oldestMs = nowMs - r.opts.Retention.Milliseconds()
	}
	within.MinMs = max(0, within.MinMs) // there are no samples before 1970
	if within.MinMs >= oldestMs && (ages == nil || ages.Shortest().CutoffMs(nowMs) <= within.MinMs) {
		return "", 0, false // the range is younger than each age
	}
	cutoffs := r.opts.RetentionByMetric.Since(nowMs, within.MinMs)
	for _, metric := range r.histogramMetrics(ctx, within, matchers) {
		floatsMs := max(oldestMs, cutoffs.Ms(metric))
		cutoffMs := max(floatsMs, shorter.Ms(metric))
		last := min(within.MaxMs, cutoffMs-1)
		if cutoffMs == floatsMs && !r.opts.Rollups || within.MinMs > last {
			continue
		}
		if set.Has(metric, keyschema.HourOf(within.MinMs), keyschema.HourOf(last)) {
			return metric, time.Duration(nowMs-cutoffMs) * time.Millisecond, true
		}
	}
	return "", 0, false
}

// histogramMetrics lists the metrics with histograms in a range that match all matchers of the metric's name. Without such a
// matcher, the index finds the metrics whose series match the other matchers.
func (r *Reader) histogramMetrics(ctx context.Context, within column.TimeRange, matchers []*labels.Matcher) []string {
	var names []*labels.Matcher
	for _, m := range matchers {
		if m.Name == labelMetric && m.Type == labels.MatchEqual {
			return []string{m.Value}
		}
		if m.Name == labelMetric {
			names = append(names, m)
		}
	}
	known := r.opts.Histograms.Metrics(keyschema.HourOf(within.MinMs), keyschema.HourOf(within.MaxMs))
	if len(names) > 0 || len(known) == 0 {
		return slices.DeleteFunc(known, func(metric string) bool {
			return slices.ContainsFunc(names, func(m *labels.Matcher) bool { return !m.Matches(metric) })
		})
	}
	found, err := r.opts.Index.LabelValues(ctx, labelMetric, within.MinMs, within.MaxMs, 0, matchers...)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(known, func(metric string) bool {
		_, ok := slices.BinarySearch(found, metric)
		return !ok
	})
}

func metricOf(ls labels.Labels) string { return ls.Get(labelMetric) }
