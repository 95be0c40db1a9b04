package otlp

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"halite/ingest"
	"halite/ingest/batch"
)

// messagesMax bounds the errors that a summary names.
const messagesMax = 8

// summaryOf returns the first messages of an error that errors.Join has made step by step, and the number of the others. The
// text of the error itself takes time that grows with the square of their number.
func summaryOf(err error) string {
	var list []string // the last one first
	for err != nil {
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			list = append(list, err.Error())
			break
		}
		parts := joined.Unwrap()
		for i := len(parts) - 1; i > 0; i-- {
			list = append(list, parts[i].Error())
		}
		err = parts[0]
	}
	var b strings.Builder
	for n := range min(len(list), messagesMax) {
		if n > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(list[len(list)-1-n])
	}
	if more := len(list) - messagesMax; more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// rejectUntranslated counts the data points that the translation leaves out with an error.
func (x *request) rejectUntranslated(all pmetric.Metrics, err error, b *batch.Batch) {
	summary := summaryOf(err)
	temporality, scale := x.untranslated(all)
	if temporality > 0 {
		b.Reject(batch.Rejection{Count: temporality, Reason: ingest.ReasonTemporality, Detail: summary})
	}
	if scale > 0 {
		b.Reject(batch.Rejection{Count: scale, Reason: ingest.ReasonHistogramInvalid, Detail: summary})
	}
	if temporality+scale == 0 {
		x.dropped = summary
	}
}

// untranslated returns the numbers of data points that the translation leaves out because of the temporality of their metric,
// and because of the scale of an exponential histogram.
func (x *request) untranslated(all pmetric.Metrics) (temporality, scale int) {
	add := func(t pmetric.AggregationTemporality, n int) bool {
		delta := t == pmetric.AggregationTemporalityDelta && x.settings.AllowDeltaTemporality
		if t == pmetric.AggregationTemporalityCumulative || delta {
			return false
		}
		temporality += n
		return true
	}
	for _, resource := range all.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, m := range scope.Metrics().All() {
				switch m.Type() {
				case pmetric.MetricTypeSum:
					add(m.Sum().AggregationTemporality(), m.Sum().DataPoints().Len())
				case pmetric.MetricTypeHistogram:
					add(m.Histogram().AggregationTemporality(), m.Histogram().DataPoints().Len())
				case pmetric.MetricTypeExponentialHistogram:
					h := m.ExponentialHistogram()
					if !add(h.AggregationTemporality(), h.DataPoints().Len()) {
						scale += pointsFromBadScale(h.DataPoints())
					}
				}
			}
		}
	}
	return temporality, scale
}

// pointsFromBadScale returns the number of data points from the first one whose scale no native histogram has. The translation
// leaves all of them out.
func pointsFromBadScale(points pmetric.ExponentialHistogramDataPointSlice) int {
	for n := range points.Len() {
		if points.At(n).Scale() < histogram.ExponentialSchemaMin {
			return points.Len() - n
		}
	}
	return 0
}

// pointCheck removes what has too many attributes before the translation, which compares the attributes of a series in pairs.
// It also removes data points without a time, as OTLP requires one.
type pointCheck struct {
	max     int
	removed int // data points with too many attributes
	first   string

	untimed        int // data points without a time
	firstUntimed   string
	oldest, newest pcommon.Timestamp // of the other data points
}

// targetInfoMax bounds the samples of target_info for each resource. The translation repeats them from the oldest to the newest
// data point, so two data points far apart would yield millions.
const targetInfoMax = 1000

// rejectInvalid removes resources, scopes and data points with more attributes than the limit, and data points without a time.
// It counts the data points.
func (x *request) rejectInvalid(all pmetric.Metrics, b *batch.Batch) {
	c := pointCheck{max: x.attributesMax, oldest: math.MaxInt64}
	all.ResourceMetrics().RemoveIf(func(r pmetric.ResourceMetrics) bool {
		if c.wide(r.Resource().Attributes(), "a resource") {
			for _, s := range r.ScopeMetrics().All() {
				c.removed += pointsOf(s)
			}
			return true
		}
		r.ScopeMetrics().RemoveIf(func(s pmetric.ScopeMetrics) bool {
			if c.wide(s.Scope().Attributes(), "a scope") {
				c.removed += pointsOf(s)
				return true
			}
			for _, m := range s.Metrics().All() {
				c.checkPoints(m)
			}
			return false
		})
		return false
	})
	if c.removed > 0 {
		b.Reject(batch.Rejection{Count: c.removed, Reason: ingest.ReasonTooManyLabels, Detail: c.first})
	}
	if c.untimed > 0 {
		b.Reject(batch.Rejection{Count: c.untimed, Reason: ingest.ReasonBeforeRetention, Detail: c.firstUntimed})
	}
	if c.newest > c.oldest {
		interval := time.Duration(min(c.newest, math.MaxInt64)-c.oldest) / targetInfoMax
		if lookback := 2 * interval; lookback > max(x.settings.LookbackDelta, lookbackMin) {
			x.settings.LookbackDelta = lookback // nothing else uses it
		}
	}
}

// lookbackMin is a look-back that yields few samples of target_info for usual requests. It is Prometheus's default.
const lookbackMin = 5 * time.Minute

func (c *pointCheck) wide(attributes pcommon.Map, what string) bool {
	if attributes.Len() <= c.max {
		return false
	}
	if c.first == "" {
		c.first = fmt.Sprintf("%s has %d attributes, more than the limit of %d (otlp.max_attributes)", what, attributes.Len(), c.max)
	}
	return true
}

func (c *pointCheck) checkPoints(m pmetric.Metric) {
	what := "a data point of metric " + m.Name()
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		removeInvalid[pmetric.NumberDataPoint](c, m.Gauge().DataPoints(), what)
	case pmetric.MetricTypeSum:
		removeInvalid[pmetric.NumberDataPoint](c, m.Sum().DataPoints(), what)
	case pmetric.MetricTypeHistogram:
		removeInvalid[pmetric.HistogramDataPoint](c, m.Histogram().DataPoints(), what)
	case pmetric.MetricTypeExponentialHistogram:
		removeInvalid[pmetric.ExponentialHistogramDataPoint](c, m.ExponentialHistogram().DataPoints(), what)
	case pmetric.MetricTypeSummary:
		removeInvalid[pmetric.SummaryDataPoint](c, m.Summary().DataPoints(), what)
	}
}

// point is a data point of any type.
type point interface {
	Attributes() pcommon.Map
	Timestamp() pcommon.Timestamp
}

func removeInvalid[P point](c *pointCheck, points interface{ RemoveIf(func(P) bool) }, what string) {
	points.RemoveIf(func(p P) bool {
		at := p.Timestamp()
		switch {
		case c.wide(p.Attributes(), what):
			c.removed++
			return true
		case at == 0:
			c.untimed++
			c.firstUntimed = cmp.Or(c.firstUntimed, what+" has no time")
			return true
		}
		c.oldest, c.newest = min(c.oldest, at), max(c.newest, at)
		return false
	})
}

// pointsOf returns the number of data points of a scope.
func pointsOf(s pmetric.ScopeMetrics) (points int) {
	for _, m := range s.Metrics().All() {
		switch m.Type() {
		case pmetric.MetricTypeGauge:
			points += m.Gauge().DataPoints().Len()
		case pmetric.MetricTypeSum:
			points += m.Sum().DataPoints().Len()
		case pmetric.MetricTypeHistogram:
			points += m.Histogram().DataPoints().Len()
		case pmetric.MetricTypeExponentialHistogram:
			points += m.ExponentialHistogram().DataPoints().Len()
		case pmetric.MetricTypeSummary:
			points += m.Summary().DataPoints().Len()
		}
	}
	return points
}
