package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/query/budget"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/index/presence"
)

// scan counts series metric by metric, so that only the series of one metric are in memory.
type scan struct {
	handler *Handler
	cardinalityRequest
	out    Cardinality
	all    []MetricCounts
	values map[string]*Counts
	// labelled has the values of each label of the requested metric, with the days on which they occur.
	labelled map[string]map[string]onDays
	cut      map[string]bool // labels with more values
	masks    []uint32        // the hours of a series by day; the first element is the day before the first day
}

// onDays says whether a value occurs on the day and on the day before.
type onDays struct{ day, before bool }

func newScan(h *Handler, q cardinalityRequest) *scan {
	s := &scan{
		handler: h, cardinalityRequest: q, values: map[string]*Counts{}, labelled: map[string]map[string]onDays{},
		cut: map[string]bool{}, masks: make([]uint32, q.days+1),
	}
	s.out = Cardinality{
		Day: dayText(q.day), Metric: q.metric, Label: q.label, Days: make([]DayCounts, q.days), Labels: []LabelCounts{},
		ReadsSinceMs: h.opts.Index.LastReads.SinceMs(),
	}
	for i := range s.out.Days {
		s.out.Days[i].Day = dayText(q.day - q.days + 1 + int64(i))
	}
	return s
}

// run counts until it is done or ctx ends.
func (s *scan) run(ctx context.Context) error {
	metrics := []string{s.metric}
	minMs, maxMs := s.window()
	if s.metric == "" {
		var err error
		most := s.handler.opts.Limits.CardinalityMetricsMax
		metrics, err = s.handler.opts.Index.LabelValues(ctx, model.MetricNameLabel, minMs, maxMs, most+1)
		if err != nil {
			return err
		}
		if len(metrics) > most {
			return fmt.Errorf("%w: there are more than %d metrics; name one with the parameter metric", ErrBadRequest, most)
		}
	}
	s.out.MetricsAll = len(metrics)
	for _, name := range metrics {
		if err := s.countMetric(ctx, name); err != nil {
			return err
		}
		s.out.MetricsRead++
	}
	if s.metric == "" {
		if err := s.countLabels(ctx); err != nil {
			return err
		}
	}
	return s.measure(ctx)
}

// countMetric counts the series of a metric.
func (s *scan) countMetric(ctx context.Context, name string) error {
	minMs, maxMs := s.window()
	is := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)
	found, done, err := s.handler.opts.Index.Select(ctx, minMs, maxMs, is)
	m := MetricCounts{Name: name, LastReadMs: s.handler.opts.Index.LastReads.Last(name)}
	if tooLarge := new(budget.LimitError); errors.As(err, &tooLarge) {
		m.TooLarge = true
		s.all = append(s.all, m)
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	for i := range found {
		s.countSeries(&m.Counts, &found[i])
	}
	s.out.Total.add(m.Counts)
	if m.Series+m.Gone > 0 && (!s.unread || m.LastReadMs == 0) {
		s.all = append(s.all, m)
	}
	return ctx.Err()
}

// countSeries counts a series at its metric, its value and its days.
func (s *scan) countSeries(metric *Counts, series *index.Series) {
	for i := range s.masks {
		s.masks[i] = presence.HoursOf(s.day-s.days+int64(i), series.Hours)
	}
	for i := range s.out.Days {
		s.out.Days[i].count(s.masks[i], s.masks[i+1])
	}
	before, day := s.masks[len(s.masks)-2], s.masks[len(s.masks)-1]
	if before|day == 0 {
		return
	}
	metric.count(before, day)
	if s.label != "" {
		if c := s.valueOf(series.Labels.Get(s.label)); c != nil {
			c.count(before, day)
		}
	}
	if s.metric != "" {
		series.Labels.Range(func(l labels.Label) { s.noteValue(l, before != 0, day != 0) })
	}
}

// valueOf returns the counts of a value; nil if there are too many values.
func (s *scan) valueOf(value string) *Counts {
	c := s.values[value]
	if c != nil {
		return c
	}
	if len(s.values) >= s.handler.opts.Limits.CardinalityValuesMax {
		s.out.ValuesCut = true
		return nil
	}
	c = &Counts{}
	s.values[strings.Clone(value)] = c
	return c
}

func (s *scan) noteValue(l labels.Label, before, day bool) {
	values := s.labelled[l.Name]
	if values == nil {
		values = map[string]onDays{}
		s.labelled[strings.Clone(l.Name)] = values
	}
	d, known := values[l.Value]
	if !known {
		if len(values) >= s.handler.opts.Limits.CardinalityValuesMax {
			s.cut[l.Name] = true
			return
		}
		l.Value = strings.Clone(l.Value)
	}
	values[l.Value] = onDays{day: d.day || day, before: d.before || before}
}

// countLabels counts the values of each label of all series.
func (s *scan) countLabels(ctx context.Context) error {
	c, most := &s.handler.opts.Index, s.handler.opts.Limits.CardinalityValuesMax
	firstMs, afterMs := s.day*storage.DayMs, (s.day+1)*storage.DayMs
	names, err := c.LabelNames(ctx, firstMs-storage.DayMs, afterMs-1, most)
	if err != nil {
		return err
	}
	for _, name := range names {
		now, err := c.LabelValues(ctx, name, firstMs, afterMs-1, most+1)
		if err != nil {
			return err
		}
		before, err := c.LabelValues(ctx, name, firstMs-storage.DayMs, firstMs-1, most+1)
		if err != nil {
			return err
		}
		l := LabelCounts{Name: name, Values: min(len(now), most), Cut: len(now) > most || len(before) > most}
		if !l.Cut {
			common := commonOf(now, before)
			l.New, l.Gone = len(now)-common, len(before)-common
		}
		s.out.Labels = append(s.out.Labels, l)
	}
	return ctx.Err()
}

// commonOf counts the texts that are in both sorted lists.
func commonOf(a, b []string) (n int) {
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0], b[0]); {
		case c < 0:
			a = a[1:]
		case c > 0:
			b = b[1:]
		default:
			n++
			a, b = a[1:], b[1:]
		}
	}
	return n
}

// measure sets the sizes of the metrics that the response shows.
func (s *scan) measure(ctx context.Context) error {
	bytesOf := s.handler.opts.Index.MetricBytes
	s.all = s.ranked()
	for i := 0; i < len(s.all) && bytesOf != nil; i++ {
		switch size, err := bytesOf(ctx, s.all[i].Name, s.day); {
		case errors.Is(err, errors.ErrUnsupported):
			return nil
		case err != nil:
			return err
		default:
			s.all[i].Bytes = &size
		}
	}
	return nil
}

// ranked returns the metrics that the response shows. Those that were too large to count come first.
func (s *scan) ranked() []MetricCounts {
	order := func(a, b MetricCounts) int {
		if a.TooLarge != b.TooLarge {
			return map[bool]int{true: -1, false: 1}[a.TooLarge]
		}
		return cmp.Or(s.order(&a.Counts, &b.Counts), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(s.all, order)
	return s.all[:min(s.limit, len(s.all))]
}

// result returns the counts so far.
func (s *scan) result() *Cardinality {
	s.out.Metrics = append([]MetricCounts{}, s.ranked()...)
	s.out.Values = []ValueCounts{}
	for value, c := range s.values {
		s.out.Values = append(s.out.Values, ValueCounts{value, *c})
	}
	s.out.Values = rank(s.out.Values, s.limit, s.order, func(v *ValueCounts) (*Counts, string) { return &v.Counts, v.Value })
	for name, values := range s.labelled {
		l := LabelCounts{Name: name, Cut: s.cut[name]}
		for _, d := range values {
			switch {
			case d.day && d.before:
				l.Values++
			case d.day:
				l.Values++
				l.New++
			default:
				l.Gone++
			}
		}
		s.out.Labels = append(s.out.Labels, l)
	}
	slices.SortFunc(s.out.Labels, func(a, b LabelCounts) int {
		return cmp.Or(cmp.Compare(b.Values, a.Values), strings.Compare(a.Name, b.Name))
	})
	s.out.Labels = s.out.Labels[:min(s.limit, len(s.out.Labels))]
	return &s.out
}

// count counts a series by its hours on a day and on the day before.
func (c *Counts) count(before, day uint32) {
	switch {
	case day != 0 && before == 0:
		c.Series++
		c.New++
	case day != 0:
		c.Series++
	case before != 0:
		c.Gone++
	}
	c.Rows += int64(bits.OnesCount32(day))
}

func (c *Counts) add(o Counts) {
	c.Series += o.Series
	c.New += o.New
	c.Gone += o.Gone
	c.Rows += o.Rows
}
