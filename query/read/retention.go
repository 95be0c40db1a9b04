package read

import (
	"math"

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

func metricOf(ls labels.Labels) string { return ls.Get(labelMetric) }
