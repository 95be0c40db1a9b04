package translation

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/request"
)

// Translation is a sub-query in PromQL, or the reason why there is none.
type Translation struct {
	// Name describes the sub-query: aggregator, downsampling and metric.
	Name string `json:"opentsdb"`
	// PromQL is the text of a range query; "" without a translation.
	PromQL string `json:"promql,omitempty"`
	// Range is the range of the range query. It is nil if the request has no times.
	Range *Range `json:"range,omitempty"`
	// StepSeconds is the step of the range query. The start must be a multiple of it.
	StepSeconds float64 `json:"stepSeconds,omitempty"`
	// Notes describe differences between the results.
	Notes []string `json:"notes,omitempty"`
	// Reason is the reason why no translation exists.
	Reason string `json:"reason,omitempty"`
}

// Range is a range of times, both ends inclusive.
type Range struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Texts of Translation.Notes.
const (
	noteRounding = "PromQL compensates rounding errors, so sums, averages and deviations of fractions may differ in the last digits"
	noteNaN      = "OpenTSDB also returns NaN or null for intervals without samples"
	noteZero     = "OpenTSDB also returns 0 for intervals in which no series has samples"
	noteLabels   = "OpenTSDB also returns the tags that all series of a group share"
	noteFirst    = "OpenTSDB may omit the first rate, because it may not read the interval before it"
)

// reason is the error of a sub-query without a translation.
type reason string

func (r reason) Error() string { return string(r) }

// Translate translates a sub-query. It sets Translation.Range only if times is set.
func Translate(q *request.Query, s *request.SubQuery, times bool) Translation {
	t := &translator{query: q, sub: s, times: times}
	t.out.Name = nameOf(s)
	if err := t.translate(); err != nil {
		return Translation{Name: t.out.Name, Reason: err.Error()}
	}
	return t.out
}

func nameOf(s *request.SubQuery) string {
	parts := []string{s.Aggregator.Name()}
	if s.Rate != nil {
		parts = append(parts, "rate")
	}
	if s.Downsample != "" {
		parts = append(parts, s.Downsample)
	}
	if s.Metric == "" {
		return strings.Join(append(parts, strings.Join(s.TSUIDs, ",")), ":")
	}
	return strings.Join(append(parts, s.Metric), ":")
}

type translator struct {
	query *request.Query
	sub   *request.SubQuery
	times bool
	out   Translation
}

func (t *translator) translate() error {
	if err := t.check(); err != nil {
		return err
	}
	function, err := t.function()
	if err != nil {
		return err
	}
	aggregator, err := t.aggregator()
	if err != nil {
		return err
	}
	lengthMs, err := t.window()
	if err != nil {
		return err
	}
	value := func(laterMs int64) string {
		offset := "offset " + duration(-laterMs)
		if laterMs > 0 {
			offset = "offset -" + duration(laterMs)
		}
		return fmt.Sprintf("%s(%s[%s] %s)", function, t.selector(), duration(lengthMs), offset)
	}
	text := value(lengthMs - 1)
	if t.sub.Rate != nil {
		text = fmt.Sprintf("(%s - %s) / %v", text, value(-1), float64(lengthMs)/1000)
	}
	if aggregator != "" {
		text = fmt.Sprintf("%s%s (%s)", aggregator, t.by(), text)
	}
	t.out.PromQL = text
	return nil
}

func duration(ms int64) string { return model.Duration(time.Duration(ms) * time.Millisecond).String() }

// check refuses sub-queries that PromQL cannot express.
func (t *translator) check() error {
	s := t.sub
	switch {
	case !validNames(s):
		return reason("a metric or a tag is not UTF-8")
	case t.query.Delete:
		return reason("PromQL does not delete")
	case s.Histograms():
		return reason("OpenTSDB estimates percentiles of histograms by the middle of a bucket, and PromQL interpolates in it")
	case len(s.TSUIDs) > 0:
		return reason("a selector of PromQL cannot name series by tsuids")
	case s.ExplicitTags:
		return reason("a selector of PromQL cannot exclude series with further tags (explicitTags)")
	case s.RollupUsage != request.RollupRaw:
		return reason("PromQL has no choice of stored rollups (rollupUsage)")
	case s.OffsetMs != 0:
		return reason("timeOffset belongs to /api/query/exp")
	case s.Down == nil:
		return reason("without downsampling OpenTSDB answers at the times of the samples, and PromQL at evenly spaced times")
	case s.Down.Calendar:
		return reason("PromQL has no calendar windows; use a downsampling without c")
	case s.Down.Fill == aggregation.FillScalar:
		return reason("the fill policy scalar belongs to /api/query/exp")
	case s.Rate != nil && s.Rate.Counter:
		return reason("OpenTSDB adds the maximum of a counter when it falls, and PromQL starts from 0")
	case s.Rate != nil && s.Down.All:
		return reason("one value has no rate")
	case s.Rate != nil && s.Down.Fill != aggregation.FillNaN && s.Down.Fill != aggregation.FillNull:
		return reason("OpenTSDB computes rates across intervals without samples, and PromQL does not; use the fill policy nan")
	}
	return nil
}

func validNames(s *request.SubQuery) bool {
	valid := utf8.ValidString(s.Metric)
	for _, f := range s.Filters {
		valid = valid && utf8.ValidString(f.Key) && utf8.ValidString(f.Text)
	}
	return valid
}

// function returns the PromQL function that replaces the downsampling function.
func (t *translator) function() (string, error) {
	name := t.sub.Down.Function.Name()
	switch name {
	case "sum", "zimsum", "pfsum":
		t.note(noteRounding)
		return "sum_over_time", nil
	case "avg":
		t.note(noteRounding)
		return "avg_over_time", nil
	case "dev":
		t.note(noteRounding)
		return "stddev_over_time", nil
	case "min", "mimmin":
		return "min_over_time", nil
	case "max", "mimmax":
		return "max_over_time", nil
	case "count", "last":
		return name + "_over_time", nil
	case "first":
		return "", reason("first_over_time is experimental in PromQL")
	}
	return "", reason("PromQL has no function over time that computes " + name + " as OpenTSDB does")
}

// aggregator returns the PromQL aggregation; "" for none.
func (t *translator) aggregator() (string, error) {
	down, name := t.sub.Down, t.sub.Aggregator.Name()
	even := down.All || down.Fill == aggregation.FillNaN || down.Fill == aggregation.FillNull
	if even && !down.All {
		t.note(map[bool]string{false: noteNaN, true: noteZero}[name == "count"])
	}
	if name == "none" {
		if down.Fill == aggregation.FillZero {
			return "", reason("the fill policy zero has a value for each interval of each series; use none or nan")
		}
		return "", nil
	}
	own, known := map[string]string{
		"sum": "sum", "zimsum": "sum", "pfsum": "sum", "min": "min", "mimmin": "min", "max": "max", "mimmax": "max", "avg": "avg",
		"count": "count", "dev": "stddev",
	}[name]
	if !known {
		return "", reason("PromQL has no aggregation that computes " + name + " as OpenTSDB does")
	}
	t.note(noteLabels)
	if slices.Contains([]string{"sum", "avg", "stddev"}, own) {
		t.note(noteRounding)
	}
	switch {
	case even:
	case down.Fill == aggregation.FillZero && own == "sum":
		t.note(noteZero)
	case down.Fill == aggregation.FillZero:
		return "", reason("the fill policy zero counts series without samples as 0; use nan")
	case !slices.Contains([]string{"zimsum", "mimmin", "mimmax"}, name):
		return "", reason("for " + name + " OpenTSDB interpolates series without a sample in an interval" +
			"; use the fill policy nan, or zimsum, mimmin or mimmax")
	}
	return own, nil
}

// window sets the range and the step, and returns the length of an interval in ms.
func (t *translator) window() (lengthMs int64, err error) {
	startMs, endMs := t.query.StartMs, t.query.EndMs
	if t.sub.Down.All {
		if !t.times {
			return 0, reason("0all depends on the range of the panel; PromQL needs a window of fixed length")
		}
		if lengthMs = endMs - startMs; lengthMs == 0 {
			return 0, reason("the range of time is empty")
		}
		t.setRange(startMs, startMs)
		t.out.StepSeconds = float64(lengthMs) / 1000
		return lengthMs, nil
	}
	if lengthMs = t.sub.Down.IntervalMs(); lengthMs%1000 != 0 {
		return 0, reason("OpenTSDB reads whole seconds, so intervals with milliseconds are cut at both ends")
	}
	t.out.StepSeconds = float64(lengthMs) / 1000
	if !t.times {
		if t.sub.Rate != nil {
			t.note(noteFirst)
		}
		return lengthMs, nil
	}
	first := (startMs + lengthMs - 1) / lengthMs * lengthMs
	if t.sub.Rate != nil {
		// OpenTSDB has no rate at the first interval that it reads.
		read := aggregation.RangeOf(startMs, endMs, t.sub.Down).ReadFromMs
		whole := (read + lengthMs - 1) / lengthMs * lengthMs
		first = max(first, whole+lengthMs)
	}
	last := endMs - endMs%lengthMs
	if first > last {
		return 0, reason("no interval begins between the start and the end")
	}
	t.setRange(first, last)
	return lengthMs, nil
}

func (t *translator) setRange(fromMs, toMs int64) {
	t.out.Range = &Range{time.UnixMilli(fromMs).UTC(), time.UnixMilli(toMs).UTC()}
}

// selector returns the selector of the series.
func (t *translator) selector() string {
	var texts []string
	for _, m := range t.sub.Matchers() {
		texts = append(texts, m.String())
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// by returns the by clause; "" without group-by tags.
func (t *translator) by() string {
	keys := t.sub.GroupBy()
	if len(keys) == 0 {
		return ""
	}
	slices.Sort(keys)
	for i, key := range keys {
		if !model.LegacyValidation.IsValidLabelName(key) {
			keys[i] = fmt.Sprintf("%q", key)
		}
	}
	return " by (" + strings.Join(keys, ", ") + ")"
}

// note adds a note once.
func (t *translator) note(text string) {
	if !slices.Contains(t.out.Notes, text) {
		t.out.Notes = append(t.out.Notes, text)
	}
}
