package read

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/hours"
	"halite/rollup/histograms"
	"halite/storage/index"
	"halite/storage/principal"
)

// cutoffs are the oldest times that metrics keep, and the oldest time that any metric keeps. They belong to one goroutine.
type cutoffs struct {
	byMetric *keyschema.Cutoffs
	oldestMs int64
}

// ms returns the oldest time that a metric keeps. A nil receiver hides nothing.
func (c *cutoffs) ms(metric string) int64 {
	if c == nil {
		return 0
	}
	return max(c.oldestMs, c.byMetric.Ms(metric))
}

// cutoffs returns the cutoffs of metrics with a shorter retention than the window, nil if there are none.
func (s *Selection) cutoffs(window column.TimeRange) *cutoffs {
	if s.unretained {
		return nil
	}
	byMetric := s.session.ages.Since(s.nowMs, window.MinMs)
	if byMetric == nil && window.MinMs >= s.oldestMs {
		return nil
	}
	return &cutoffs{byMetric, s.oldestMs}
}

// histogramCutoffs returns the cutoffs of native histograms as samples; nil if they are not hidden.
func (s *Selection) histogramCutoffs() *cutoffs {
	if s.unretained {
		return nil
	}
	return &cutoffs{s.session.ages.Tier(keyschema.NativeHistograms).At(s.nowMs), s.oldestMs}
}

// restrictToRetention omits hours that are older than the retention of their metric, and series without other hours.
func (s *Selection) restrictToRetention(series []index.Series) []index.Series {
	cutoffs := s.cutoffs(s.window)
	if cutoffs == nil {
		return series
	}
	hourly := s.hourlyCutoffs()
	retained := func(one index.Series) []index.HourSpan {
		metric := one.Metric()
		fromMs := cutoffs.ms(metric)
		if hourly != nil && s.hasHistograms(metric) {
			fromMs = min(fromMs, hourly.Ms(metric))
		}
		if first := keyschema.HourOf(fromMs); len(one.Hours) > 0 && one.Hours[0].First < first {
			return hours.Intersect(one.Hours, []index.HourSpan{{First: first, Last: math.MaxInt64}})
		}
		return one.Hours
	}
	out := series[:0:0]
	for _, one := range series {
		if parts := one.Parts(); parts != nil {
			one = withParts(one, retained)
		} else {
			one.Hours = retained(one)
		}
		if len(one.Hours) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// retiredMetric is a metric with histograms that are older than the retention of its histograms.
type retiredMetric struct {
	name     string
	sampleMs int64 // histograms are kept as samples from this time on
	hourlyMs int64 // hourly histograms are kept from this time on, which is not later
	floatsMs int64 // floats are kept as samples from this time on
}

// retiredHistograms lists the metrics that may have retired histograms in a range. After an error of the index it returns none,
// because the selection gets the same error.
func (r *Reader) retiredHistograms(
	ctx context.Context, within column.TimeRange, matchers []*labels.Matcher,
) (out []retiredMetric) {
	set, nowMs := r.opts.Histograms, r.opts.Now().UnixMilli()
	if set == nil || set.Len() == 0 {
		return nil
	}
	within.MinMs = max(0, within.MinMs) // there are no samples before 1970
	retention := r.opts.Retention.Snapshot()
	_, oldestMs := r.clip(within, retention)
	ages := retention.Tier(keyschema.NativeHistograms)
	if within.MinMs >= oldestMs && ages.Shortest().CutoffMs(nowMs) <= within.MinMs {
		return nil // the range is younger than each age
	}
	floats, samples := retention.At(nowMs), ages.At(nowMs)
	hourly := retention.Tier(keyschema.Hours).At(nowMs)
	for _, metric := range r.histogramMetrics(ctx, within, matchers) {
		m := retiredMetric{name: metric, floatsMs: max(oldestMs, floats.Ms(metric))}
		m.sampleMs = max(m.floatsMs, samples.Ms(metric))
		if m.hourlyMs = m.sampleMs; r.opts.HourlyHistograms != nil {
			m.hourlyMs = min(m.sampleMs, hourly.Ms(metric))
		}
		last := min(within.MaxMs, m.sampleMs-1)
		if within.MinMs <= last && set.Has(metric, keyschema.HourOf(within.MinMs), keyschema.HourOf(last)) {
			out = append(out, m)
		}
	}
	return out
}

// RetiredHistograms returns warnings about retired histograms in the range, one for each metric. A warning says that hourly
// histograms answer instead, or that the result lacks histograms. In the second case the result may still have floats of that
// time, as samples or from rollups.
func (r *Reader) RetiredHistograms(
	ctx context.Context, within column.TimeRange, matchers []*labels.Matcher,
) (warnings []error) {
	nowMs, hourly, lacking := r.opts.Now().UnixMilli(), false, false
	for _, m := range r.retiredHistograms(ctx, within, matchers) {
		_, name := keyschema.SplitTenant(m.name)
		has := func(fromMs, toMs int64) bool {
			fromMs, toMs = max(0, fromMs, within.MinMs), min(toMs, within.MaxMs)
			return fromMs <= toMs && r.opts.Histograms.Has(m.name, keyschema.HourOf(fromMs), keyschema.HourOf(toMs))
		}
		if !hourly && has(m.hourlyMs, m.sampleMs-1) {
			hourly = true
			warnings = append(warnings, fmt.Errorf("answered from hourly histograms of schema %d at most: native histograms of metric "+
				"%s before %s are retired", histograms.SchemaMax, name, time.UnixMilli(m.sampleMs).UTC().Format(time.RFC3339)))
		}
		// Without hourly histograms, histograms may end where floats end. Then the result itself does not show that the range is
		// older.
		ends := r.opts.HourlyHistograms == nil && m.sampleMs == m.floatsMs
		if !ends && !lacking && has(0, m.hourlyMs-1) {
			lacking = true
			age := model.Duration(time.Duration(nowMs-m.hourlyMs) * time.Millisecond)
			warnings = append(warnings, fmt.Errorf("native histograms of metric %s are kept for %s: the result lacks older ones",
				name, age))
		}
	}
	return warnings
}

// hourlyCutoffs returns the cutoffs of hourly histograms; nil if there are none, or if they are kept forever.
func (s *Selection) hourlyCutoffs() *keyschema.Cutoffs {
	if s.session.reader.opts.HourlyHistograms == nil {
		return nil
	}
	return s.session.ages.Tier(keyschema.Hours).At(s.nowMs)
}

// histogramMetrics lists the stored names of metrics with histograms in a range that match all matchers of the metric's name.
// Without such a matcher, the index finds the metrics whose series match the other matchers.
func (r *Reader) histogramMetrics(ctx context.Context, within column.TimeRange, matchers []*labels.Matcher) []string {
	who, named := principal.From(ctx), false
	for _, m := range matchers {
		if m.Name == labelMetric && m.Type == labels.MatchEqual {
			return r.Stored(ctx, m.Value)
		}
		named = named || m.Name == labelMetric
	}
	known := r.opts.Histograms.Metrics(keyschema.HourOf(within.MinMs), keyschema.HourOf(within.MaxMs))
	if len(known) == 0 {
		return nil
	}
	if named {
		selectors := who.Selectors(matchers)
		return slices.DeleteFunc(known, func(metric string) bool {
			return !slices.ContainsFunc(r.namesOf(metric), func(name string) bool {
				return slices.ContainsFunc(selectors, func(s principal.Selector) bool { return matchesName(s.Matchers, name) })
			})
		})
	}
	found, err := r.opts.Index.LabelValues(ctx, labelMetric, within.MinMs, within.MaxMs, 0, matchers...)
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range found {
		for _, metric := range r.Stored(ctx, name) {
			if slices.Contains(known, metric) {
				out = append(out, metric)
			}
		}
	}
	return out
}

// matchesName reports whether all matchers of the metric's name accept a stored name.
func matchesName(matchers []*labels.Matcher, metric string) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labelMetric && !m.Matches(metric) })
}

func metricOf(ls labels.Labels) string { return ls.Get(labelMetric) }
