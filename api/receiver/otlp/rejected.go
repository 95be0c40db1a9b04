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

// untranslated counts the data points that the translation leaves out. temporality counts the points of metrics with a
// temporality that the server does not accept. scale is the sum of pointsFromBadScale.
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

// textBytesMax bounds the name of a metric, and the key and value of an attribute. Prometheus's labels corrupt strings of 16 MiB
// or more, and the text of a nested value has up to six bytes for one.
const textBytesMax = 2 << 20

// tally counts data points that are removed for one reason.
type tally struct {
	reason, first string
	count         int
}

func (t *tally) add(points int, detail string) {
	t.count += points
	t.first = cmp.Or(t.first, detail)
}

// pointCheck removes data points with too many attributes before the translation, because the translation compares the
// attributes of a series in pairs. It also removes data points whose attributes have no key or are too long for labels. It
// removes metrics without a name, and data points without a time or a value. The translation drops some of these too, but
// does not count them, and it makes 0 of a missing value.
type pointCheck struct {
	attributesMax                           int
	large                                   bool // only then can an attribute be too long
	wide, long, unnamed, untimed, exemplars tally
	nameless                                tally             // data points of metrics without a name
	empty                                   tally             // data points and exemplars without a value
	oldest, newest                          pcommon.Timestamp // of the data points that stay
}

// targetInfoMax bounds the samples of target_info for each resource. The translation repeats them from the oldest to the newest
// data point, so two data points far apart would yield millions.
const targetInfoMax = 1000

// rejectInvalid removes resources, scopes and data points with too many or too long attributes, and data points without a time.
// It counts the data points. The body had bodyBytes.
func (x *request) rejectInvalid(all pmetric.Metrics, bodyBytes int, b *batch.Batch) {
	c := pointCheck{
		attributesMax: x.attributesMax, large: bodyBytes > textBytesMax, oldest: math.MaxInt64,
		wide: tally{reason: ingest.ReasonTooManyLabels}, long: tally{reason: ingest.ReasonLabelSetTooLong},
		unnamed: tally{reason: ingest.ReasonEmptyLabelName}, nameless: tally{reason: ingest.ReasonNoMetricName},
		untimed: tally{reason: ingest.ReasonBeforeRetention}, exemplars: tally{reason: ingest.ReasonExemplarTooLong},
		empty: tally{reason: ingest.ReasonNotNumeric},
	}
	all.ResourceMetrics().RemoveIf(func(r pmetric.ResourceMetrics) bool {
		points := 0
		for _, s := range r.ScopeMetrics().All() {
			points += pointsOf(s)
		}
		if c.refuses(r.Resource().Attributes(), "a resource", points) {
			return true
		}
		r.ScopeMetrics().RemoveIf(func(s pmetric.ScopeMetrics) bool {
			if c.refuses(s.Scope().Attributes(), "a scope", pointsOf(s)) {
				return true
			}
			s.Metrics().RemoveIf(c.checkMetric)
			return false
		})
		return false
	})
	for _, t := range []tally{c.wide, c.long, c.unnamed, c.nameless, c.untimed, c.exemplars, c.empty} {
		if t.count > 0 {
			b.Reject(batch.Rejection{Count: t.count, Reason: t.reason, Detail: t.first})
		}
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

// refuses reports whether there are too many attributes or one is too long. It counts the data points that have them.
func (c *pointCheck) refuses(attributes pcommon.Map, what string, points int) bool {
	if attributes.Len() > c.attributesMax {
		c.wide.add(points, fmt.Sprintf("%s has %d attributes, more than the limit of %d (otlp.max_attributes)", what,
			attributes.Len(), c.attributesMax))
		return true
	}
	if c.large && hasLong(attributes) {
		c.long.add(points, fmt.Sprintf("%s has an attribute of more than %d bytes", what, textBytesMax))
		return true
	}
	return false
}

// hasLong reports whether an attribute is too long for a label.
func hasLong(attributes pcommon.Map) bool {
	for key, value := range attributes.All() {
		if len(key)+textBytes(value) > textBytesMax {
			return true
		}
	}
	return false
}

// textBytes returns the size of the text of a value, without the escapes of JSON.
func textBytes(v pcommon.Value) (sizeBytes int) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return len(v.Str())
	case pcommon.ValueTypeBytes:
		return v.Bytes().Len()
	case pcommon.ValueTypeSlice:
		for _, element := range v.Slice().All() {
			sizeBytes += textBytes(element)
		}
	case pcommon.ValueTypeMap:
		for key, element := range v.Map().All() {
			sizeBytes += len(key) + textBytes(element)
		}
	}
	return sizeBytes + 8 // of a number, and of what separates elements
}

// checkMetric removes data points of a metric. It reports whether to remove the metric.
func (c *pointCheck) checkMetric(m pmetric.Metric) bool {
	if m.Name() == "" {
		c.nameless.add(pointsOfMetric(m), "a metric has no name")
		return true
	}
	if n := len(m.Name()) + len(m.Unit()); c.large && n > textBytesMax {
		c.long.add(pointsOfMetric(m), fmt.Sprintf("the name and unit of a metric have %d bytes, more than the limit of %d", n,
			textBytesMax))
		return true
	}
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
	return false
}

// point is a data point of any type.
type point interface {
	Attributes() pcommon.Map
	Timestamp() pcommon.Timestamp
}

func removeInvalid[P point](c *pointCheck, points interface{ RemoveIf(func(P) bool) }, what string) {
	points.RemoveIf(func(p P) bool {
		if c.refuses(p.Attributes(), what, 1) {
			return true
		}
		if _, unnamed := p.Attributes().Get(""); unnamed {
			c.unnamed.add(1, what+" has an attribute without a key")
			return true
		}
		at := p.Timestamp()
		if at == 0 {
			c.untimed.add(1, what+" has no time")
			return true
		}
		if number, ok := any(p).(pmetric.NumberDataPoint); ok && number.ValueType() == pmetric.NumberDataPointValueTypeEmpty &&
			!number.Flags().NoRecordedValue() {
			c.empty.add(1, what+" has no value")
			return true
		}
		c.oldest, c.newest = min(c.oldest, at), max(c.newest, at)
		c.removeExemplars(p, what)
		return false
	})
}

// removeExemplars removes the exemplars of a data point that have no value, or an attribute too long for a label.
func (c *pointCheck) removeExemplars(p any, what string) {
	with, ok := p.(interface{ Exemplars() pmetric.ExemplarSlice })
	if !ok {
		return // a summary has none
	}
	with.Exemplars().RemoveIf(func(e pmetric.Exemplar) bool {
		if e.ValueType() == pmetric.ExemplarValueTypeEmpty {
			c.empty.add(1, "an exemplar of "+what+" has no value")
			return true
		}
		if !c.large || !hasLong(e.FilteredAttributes()) {
			return false
		}
		c.exemplars.add(1, fmt.Sprintf("an exemplar of %s has an attribute of more than %d bytes", what, textBytesMax))
		return true
	})
}

// pointsOf returns the number of data points of a scope.
func pointsOf(s pmetric.ScopeMetrics) (points int) {
	for _, m := range s.Metrics().All() {
		points += pointsOfMetric(m)
	}
	return points
}

func pointsOfMetric(m pmetric.Metric) int {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints().Len()
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		return m.ExponentialHistogram().DataPoints().Len()
	case pmetric.MetricTypeSummary:
		return m.Summary().DataPoints().Len()
	}
	return 0
}
