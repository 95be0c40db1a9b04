package promql

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index"
)

// cutoffs are those of metrics that are kept shorter than others, as far as they concern a window; mostly nil.
func (r *reader) cutoffs(w window) *keyschema.Cutoffs { return r.opts.Ages.Since(r.nowMs, w.mintMs) }

// kept leaves out the hours of each series that are older than its metric is kept, and series that have no others.
func (r *reader) kept(w window, series []index.Series) []index.Series {
	cutoffs := r.cutoffs(w)
	if cutoffs == nil {
		return series
	}
	out := series[:0:0]
	for _, s := range series {
		if first := keyschema.HourOf(cutoffs.Ms(metricOf(s.Labels))); len(s.Hours) > 0 && s.Hours[0].First < first {
			s.Hours = intersect(s.Hours, []index.HourSpan{{First: first, Last: math.MaxInt64}})
		}
		if len(s.Hours) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func metricOf(ls labels.Labels) string { return ls.Get(labelMetric) }

// hideOld leaves out the samples of the first hour that is kept that are too old.
func (p *piece) hideOld(b *Batch) {
	cutoffs := p.cutoffs(p.window)
	if cutoffs == nil {
		return
	}
	for i := range b.Columns {
		c := &b.Columns[i]
		if len(c.TsMs) == 0 {
			continue
		}
		_, rest := columns{c.TsMs, c.Values}.cut(cutoffs.Ms(metricOf(c.Labels)))
		c.TsMs, c.Values = rest.tsMs, rest.values
	}
}

// keptHour is the first hour of which all that a series has was selected, in every block that begins there or later.
func (p *piece) keptHour(series int) int64 {
	cutoffs := p.cutoffs(p.window)
	if cutoffs == nil {
		return 0
	}
	return keyschema.HourOf(cutoffs.Ms(metricOf(p.series[series].Labels)))
}
