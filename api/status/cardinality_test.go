package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/query/budget"
	"halite/query/lastread"
	"halite/storage"
	"halite/storage/index"
)

// today is the day of the tests.
const today = 20_000

// world holds the series of an Index.
type world struct {
	series []index.Series
	held   int // results in use
	err    error
}

// add adds a series with samples in some hours of a day, 0 being today and −1 yesterday.
func (w *world) add(text labels.Labels, day int64, from, to int64) {
	first := (today + day) * 24
	w.series = append(w.series, index.Series{Labels: text, Hours: []index.HourSpan{{First: first + from, Last: first + to}}})
}

// index finds series by metric and by hour.
func (w *world) index() Index {
	within := func(s *index.Series, minMs, maxMs int64) bool {
		return s.Hours[0].First*3_600_000 <= maxMs && s.Hours[0].Last*3_600_000 >= minMs-3_599_999
	}
	return Index{
		Select: func(ctx context.Context, minMs, maxMs int64, ms ...*labels.Matcher) (found []index.Series, done func(), err error) {
			if ms[0].Value == "bomb" {
				return nil, nil, &budget.LimitError{}
			}
			for i := range w.series {
				if within(&w.series[i], minMs, maxMs) && w.series[i].Labels.Get(ms[0].Name) == ms[0].Value {
					found = append(found, w.series[i])
				}
			}
			w.held++
			return found, func() { w.held-- }, errors.Join(w.err, ctx.Err())
		},
		LabelNames: func(context.Context, int64, int64, int, ...*labels.Matcher) ([]string, error) {
			return []string{"host", "job"}, nil
		},
		LabelValues: func(_ context.Context, name string, minMs, maxMs int64, limit int, _ ...*labels.Matcher) (out []string, _ error) {
			for i := range w.series {
				if v := w.series[i].Labels.Get(name); v != "" && within(&w.series[i], minMs, maxMs) {
					out = append(out, v)
				}
			}
			slices.Sort(out)
			out = slices.Compact(out)
			return out[:min(limit, len(out))], nil
		},
		MetricBytes: func(_ context.Context, metric string, day int64) (int64, error) { return day + int64(len(metric)), nil },
	}
}

func newWorld() *world {
	w := &world{}
	for n := range 3 {
		w.add(labels.FromStrings("__name__", "up", "host", fmt.Sprint("kept", n)), -1, 0, 47)
	}
	w.add(labels.FromStrings("__name__", "up", "host", "gone"), -1, 3, 5)
	w.add(labels.FromStrings("__name__", "load", "host", "<b>", "job", "x"), 0, 0, 1)
	w.add(labels.FromStrings("__name__", "load", "host", "b", "job", "x"), 0, 2, 2)
	w.add(labels.FromStrings("__name__", "old", "host", "gone"), -3, 2, 2)
	return w
}

func handlerOf(w *world, change func(o *Options)) *Handler {
	o := Options{Index: w.index(), Now: func() time.Time { return time.UnixMilli(today*storage.DayMs + 5) }}
	if change != nil {
		change(&o)
	}
	return New(o)
}

// cardinality sends parameters.
func cardinality(t *testing.T, h *Handler, params string) (*Cardinality, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/?"+params, nil)
	require.NoError(t, r.ParseForm())
	response, err := h.Cardinality(r)
	if err != nil {
		return nil, err
	}
	return response.(*Cardinality), nil
}

func TestCardinality(t *testing.T) {
	w := newWorld()
	reads, err := lastread.New(lastread.Options{Now: func() time.Time { return time.UnixMilli(77) }})
	require.NoError(t, err)
	reads.Read("", "up")
	h := handlerOf(w, func(o *Options) { o.Index.LastReads = reads })
	c, err := cardinality(t, h, "")
	require.NoError(t, err)
	upBytes, loadBytes := int64(today+2), int64(today+4)
	total := Counts{Series: 5, New: 2, Gone: 1, Rows: 3*24 + 3}
	require.Equal(t, &Cardinality{
		Day: "2024-10-04", Total: total, Days: []DayCounts{{"2024-10-04", total}},
		Metrics: []MetricCounts{
			{Name: "up", Counts: Counts{Series: 3, Gone: 1, Rows: 72}, Bytes: &upBytes, LastReadMs: 77},
			{Name: "load", Counts: Counts{Series: 2, New: 2, Rows: 3}, Bytes: &loadBytes},
		},
		Labels: []LabelCounts{{Name: "host", Values: 5, New: 2, Gone: 1}, {Name: "job", Values: 1, New: 1}},
		Values: []ValueCounts{}, MetricsAll: 2, MetricsRead: 2, Complete: true, ReadsSinceMs: 77,
	}, c)
	require.Zero(t, w.held)

	c, err = cardinality(t, h, "unread=true&by=new&limit=1")
	require.NoError(t, err)
	require.Len(t, c.Metrics, 1)
	require.Equal(t, "load", c.Metrics[0].Name)
	require.Equal(t, total, c.Total, "of all metrics")

	c, err = cardinality(t, h, "metric=up&label=host&day=2024-10-03")
	require.NoError(t, err)
	require.Len(t, c.Days, 7)
	require.Equal(t, DayCounts{"2024-10-03", Counts{Series: 4, New: 4, Rows: 75}}, c.Days[6])
	require.Equal(t, []LabelCounts{{Name: "host", Values: 4, New: 4}, {Name: "__name__", Values: 1, New: 1}}, c.Labels)
	require.Equal(t, ValueCounts{"gone", Counts{Series: 1, New: 1, Rows: 3}}, c.Values[0])
	require.Len(t, c.Values, 4)

	c, err = cardinality(t, h, "label=job&by=gone")
	require.NoError(t, err)
	require.Equal(t, []ValueCounts{{"", Counts{Series: 3, Gone: 1, Rows: 72}}, {"x", Counts{Series: 2, New: 2, Rows: 3}}}, c.Values)
}

// TestCardinalityLimits: each limit cuts the response and says so.
func TestCardinalityLimits(t *testing.T) {
	w := newWorld()
	h := handlerOf(w, func(o *Options) { o.Limits.CardinalityValuesMax = 2 })
	c, err := cardinality(t, h, "label=host&metric=up")
	require.NoError(t, err)
	require.True(t, c.ValuesCut)
	require.Len(t, c.Values, 2)
	require.True(t, c.Labels[slices.IndexFunc(c.Labels, func(l LabelCounts) bool { return l.Name == "host" })].Cut)
	c, err = cardinality(t, h, "")
	require.NoError(t, err)
	require.Equal(t, LabelCounts{Name: "host", Values: 2, Cut: true}, c.Labels[0])

	_, err = cardinality(t, handlerOf(w, func(o *Options) { o.Limits.CardinalityMetricsMax = 1 }), "")
	require.ErrorIs(t, err, ErrBadRequest)
	require.ErrorContains(t, err, "more than 1 metrics")

	c, err = cardinality(t, handlerOf(w, func(o *Options) { o.Limits.CardinalityTimeMax = time.Nanosecond }), "")
	require.NoError(t, err)
	require.False(t, c.Complete)
	require.Equal(t, 2, c.MetricsAll)

	w.add(labels.FromStrings("__name__", "bomb"), 0, 0, 0)
	c, err = cardinality(t, handlerOf(w, nil), "")
	require.NoError(t, err)
	require.True(t, c.Metrics[0].TooLarge)
	require.Equal(t, "bomb", c.Metrics[0].Name)

	w.err = errors.New("disk on fire")
	_, err = cardinality(t, handlerOf(w, nil), "")
	require.ErrorContains(t, err, "disk on fire")
}

func TestCardinalityRequests(t *testing.T) {
	h := handlerOf(newWorld(), nil)
	for params, text := range map[string]string{
		"day=today": "YYYY-MM-DD", "day=1970-01-01": "later than", "days=0": "from 1 to 31", "days=x": "from 1 to 31",
		"label=%ff": "label",
		"by=size":   "unknown", "unread=perhaps": "true or false", "limit=0": "limit", "what=1": "is unknown",
	} {
		_, err := cardinality(t, h, params)
		require.ErrorIs(t, err, ErrBadRequest, params)
		require.ErrorContains(t, err, text, params)
	}
	// The bounds are options.
	small := New(Options{Index: h.opts.Index, Limits: Limits{ListMax: 5, DaysMax: 2}})
	_, err := cardinality(t, small, "limit=6")
	require.ErrorContains(t, err, "from 1 to 5")
	_, err = cardinality(t, small, "days=3")
	require.ErrorContains(t, err, "from 1 to 2")
	_, err = cardinality(t, New(Options{}), "")
	require.ErrorIs(t, err, ErrOff)
	c, err := cardinality(t, h, "day=1970-01-02")
	require.NoError(t, err)
	require.Len(t, c.Days, 1)
}
