package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/query/lastread"
	"halite/storage"
	"halite/storage/index"
)

// Index looks up series and labels. Times are inclusive unix milliseconds.
type Index struct {
	// Select returns the series that match. The caller calls done when it does not need them any more.
	Select func(ctx context.Context, minMs, maxMs int64, matchers ...*labels.Matcher) (found []index.Series, done func(), err error)
	// LabelNames and LabelValues return at most limit sorted texts.
	LabelNames  func(ctx context.Context, minMs, maxMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues func(ctx context.Context, name string, minMs, maxMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	// MetricBytes estimates the space of the samples of a metric on a day since 1970; nil means that there is no such figure.
	MetricBytes func(ctx context.Context, metric string, day int64) (sizeBytes int64, err error)
	// LastReads knows when queries last read a metric; nil knows nothing.
	LastReads *lastread.Tracker
}

// daysOfMetric is the parameter days of a request that names a metric but no days.
const daysOfMetric = 7

// Counts are series at one day. New ones had no sample on the day before. Gone ones had samples on the day before and
// have none on this day.
type Counts struct {
	Series int64 `json:"series"`
	New    int64 `json:"new"`
	Gone   int64 `json:"gone"`
	// Rows are the rows of these series: one for each hour with samples.
	Rows int64 `json:"rows"`
}

// DayCounts are the counts of a day.
type DayCounts struct {
	Day string `json:"day"`
	Counts
}

// MetricCounts are the counts of a metric.
type MetricCounts struct {
	Name string `json:"name"`
	Counts
	// Bytes is the space of its samples of the day in the data table; nil if nothing measures it.
	Bytes *int64 `json:"bytes,omitempty"`
	// LastReadMs is when a query last read the metric; 0 means not since Cardinality.ReadsSinceMs.
	LastReadMs int64 `json:"lastReadMs,omitempty"`
	// TooLarge is set if the metric has more series than the memory of a query holds. Its counts are 0.
	TooLarge bool `json:"tooLarge,omitempty"`
}

// LabelCounts counts the values of a label on the day, and those that differ from the day before.
type LabelCounts struct {
	Name   string `json:"name"`
	Values int    `json:"values"`
	New    int    `json:"new"`
	Gone   int    `json:"gone"`
	// Cut is set if there are more values than the server compares.
	Cut bool `json:"cut,omitempty"`
}

// ValueCounts are the counts of the series with a value of the label.
type ValueCounts struct {
	Value string `json:"value"`
	Counts
}

// Cardinality is the response to /api/v1/status/cardinality.
type Cardinality struct {
	Day    string `json:"day"`
	Metric string `json:"metric,omitempty"`
	Label  string `json:"label,omitempty"`
	// Total counts all series that were read. Days counts them by day.
	Total   Counts         `json:"total"`
	Days    []DayCounts    `json:"days"`
	Metrics []MetricCounts `json:"metrics"`
	Labels  []LabelCounts  `json:"labels"`
	// Values are the values of Label; empty without one. ValuesCut is set if some values were not counted.
	Values    []ValueCounts `json:"values"`
	ValuesCut bool          `json:"valuesCut,omitempty"`
	// MetricsAll is the number of metrics, MetricsRead the number that was counted within the time. They are equal if Complete.
	MetricsAll  int  `json:"metricsAll"`
	MetricsRead int  `json:"metricsRead"`
	Complete    bool `json:"complete"`
	// ReadsSinceMs is the time since which the server remembers which metrics queries read; 0 if it does not.
	ReadsSinceMs int64 `json:"readsSinceMs,omitempty"`
}

// cardinalityRequest has the parameters of a request.
type cardinalityRequest struct {
	day, days     int64
	metric, label string
	limit         int
	order         func(a, b *Counts) int
	unread        bool
}

// window returns the range of the days, and of the day before them.
func (q *cardinalityRequest) window() (minMs, maxMs int64) {
	return (q.day - q.days) * storage.DayMs, (q.day+1)*storage.DayMs - 1
}

func dayText(day int64) string {
	return time.UnixMilli(day * storage.DayMs).UTC().Format(time.DateOnly)
}

func (h *Handler) cardinalityRequest(r *http.Request) (q cardinalityRequest, err error) {
	if err := onlyParams(r, "day", "days", "metric", "label", "limit", "by", "unread"); err != nil {
		return q, err
	}
	q = cardinalityRequest{
		day: h.opts.Now().UnixMilli() / storage.DayMs, days: 1, metric: r.FormValue("metric"), label: r.FormValue("label"),
	}
	if text := r.FormValue("day"); text != "" {
		t, err := time.Parse(time.DateOnly, text)
		if err != nil || t.UnixMilli() < storage.DayMs {
			return q, badParam("day", fmt.Errorf("%q is not a day: want YYYY-MM-DD, later than 1970-01-01", text))
		}
		q.day = t.UnixMilli() / storage.DayMs
	}
	if q.metric != "" {
		q.days = daysOfMetric
	}
	if text := r.FormValue("days"); text != "" {
		most := h.opts.Limits.DaysMax
		if q.days, err = strconv.ParseInt(text, 10, 64); err != nil || q.days < 1 || q.days > most {
			return q, badParam("days", fmt.Errorf("must be a number from 1 to %d", most))
		}
	}
	q.days = min(q.days, q.day)
	if q.label != "" && !model.UTF8Validation.IsValidLabelName(q.label) {
		return q, badParam("label", fmt.Errorf("%q is not the name of a label", q.label))
	}
	if text := r.FormValue("unread"); text != "" {
		if q.unread, err = strconv.ParseBool(text); err != nil {
			return q, badParam("unread", errors.New("must be true or false"))
		}
	}
	if q.order, err = orderOf(r.FormValue("by")); err != nil {
		return q, err
	}
	q.limit, err = h.limitOf(r)
	return q, err
}

// orderOf returns the order of a ranking.
func orderOf(by string) (func(a, b *Counts) int, error) {
	count := map[string]func(c *Counts) int64{
		"": func(c *Counts) int64 { return c.Series }, "series": func(c *Counts) int64 { return c.Series },
		"new": func(c *Counts) int64 { return c.New }, "gone": func(c *Counts) int64 { return c.Gone },
		"rows": func(c *Counts) int64 { return c.Rows },
	}[by]
	if count == nil {
		return nil, badParam("by", fmt.Errorf("%q is unknown: use series, new, gone or rows", by))
	}
	return func(a, b *Counts) int { return cmp.Compare(count(b), count(a)) }, nil
}

// Cardinality answers /api/v1/status/cardinality: how many series metrics and labels have on a day, and which are new or gone.
func (h *Handler) Cardinality(r *http.Request) (any, error) {
	q, err := h.cardinalityRequest(r)
	if err != nil {
		return nil, err
	}
	if h.opts.Index.Select == nil {
		return nil, fmt.Errorf("%w: an index of series", ErrOff)
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.opts.Limits.CardinalityTimeMax)
	defer cancel()
	s := newScan(h, q)
	err = s.run(ctx)
	if err != nil && (r.Context().Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return nil, err
	}
	out := s.result()
	out.Complete = err == nil
	return out, nil
}

// rank sorts by an order, then by name, and returns the first entries.
func rank[T any](all []T, limit int, order func(a, b *Counts) int, counts func(t *T) (*Counts, string)) []T {
	slices.SortFunc(all, func(a, b T) int {
		ca, na := counts(&a)
		cb, nb := counts(&b)
		return cmp.Or(order(ca, cb), strings.Compare(na, nb))
	})
	return all[:min(limit, len(all))]
}
