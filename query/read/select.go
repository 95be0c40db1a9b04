package read

import (
	"context"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/hours"
	"halite/storage/index"
	"halite/storage/principal"
)

// Select finds the series that match and have samples within the bounds of the windows. Batches lack whole hours between
// windows, but may have other samples between windows.
func (s *Session) Select(ctx context.Context, w Windows, matchers ...*labels.Matcher) (*Selection, error) {
	return newSelection(ctx, s, s.windowsRequest(ctx, w, matchers), matchers)
}

// SelectJoin is Select, but may omit series that no series in p matches. [Selection.Omitted] counts them.
func (s *Session) SelectJoin(
	ctx context.Context, p *index.JoinKeys, w Windows, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := s.windowsRequest(ctx, w, matchers)
	r.join = p
	return newSelection(ctx, s, r, matchers)
}

// SelectProjected is Select for operators that need only the metric's name and the labels with some names. The series may lack
// others.
func (s *Session) SelectProjected(
	ctx context.Context, w Windows, names []string, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := s.windowsRequest(ctx, w, matchers)
	r.projected, r.names = true, names
	return newSelection(ctx, s, r, matchers)
}

// Range is a range of time to read, with options of Prometheus's remote read.
type Range struct {
	column.TimeRange
	Limit                  int    // of series; 0 means all
	ShardIndex, ShardCount uint64 // shard by a stable hash of the labels; count 0 or 1 means all
	ValuesOnly             bool   // start timestamps are not needed
}

// SelectRange finds the series that match and have samples in a range.
func (s *Session) SelectRange(ctx context.Context, o Range, matchers ...*labels.Matcher) (*Selection, error) {
	r := s.rangeRequest(ctx, o.TimeRange, matchers)
	r.limit, r.shardIndex, r.shardCount = o.Limit, o.ShardIndex, o.ShardCount
	if s.reader.opts.StartTimes && !o.ValuesOnly {
		r.kinds.add(keyschema.StartTimes)
	}
	return newSelection(ctx, s, r, matchers)
}

// SelectExemplars finds the series that match and have samples or exemplars in a range. Only their exemplars are read.
func (s *Session) SelectExemplars(
	ctx context.Context, within column.TimeRange, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := s.newRequest(within)
	r.kinds = kindsOf(keyschema.Exemplars)
	return newSelection(ctx, s, r, matchers)
}

// SelectHours finds the series that match and have samples in some hours of a window. Retention does not bound the window,
// because rollup states may be older than samples. steps is the number of values that each series is evaluated to.
func (s *Session) SelectHours(
	ctx context.Context, window column.TimeRange, hours []index.HourSpan, steps int, matchers ...*labels.Matcher,
) (*Selection, error) {
	return newSelection(ctx, s, request{
		window: window, hours: hours, steps: steps, unretained: true, kinds: kindsOf(keyschema.Floats),
	}, matchers)
}

// windowsRequest returns the request for the samples of windows.
func (s *Session) windowsRequest(ctx context.Context, w Windows, matchers []*labels.Matcher) request {
	r := s.rangeRequest(ctx, w.Bounds(), matchers)
	r.steps, r.pin, r.latest, r.presence = w.Steps, true, w.Latest && w.Steps == 1, w.Presence && !r.retired
	if w.Sparse() {
		r.hours = w.Hours(r.window)
	}
	return r
}

// newRequest returns the request for the samples of a range within retention.
func (s *Session) newRequest(within column.TimeRange) request {
	r := request{nowMs: s.reader.opts.Now().UnixMilli(), kinds: kindsOf(keyschema.Floats)}
	r.window, r.oldestMs = s.reader.clip(within, s.ages)
	return r
}

// rangeRequest returns the request for a range that extends back to the hourly histograms of the metrics that the matchers may
// select.
func (s *Session) rangeRequest(ctx context.Context, within column.TimeRange, matchers []*labels.Matcher) request {
	r := s.newRequest(within)
	for _, retired := range s.reader.retiredHistograms(ctx, within, matchers) {
		r.window.MinMs, r.retired = min(r.window.MinMs, max(within.MinMs, retired.hourlyMs)), true
	}
	return r
}

// SplitLast divides the hours of each series. last reads the n latest hours, and before reads the others. The caller closes
// both, and also the Selection.
func (s *Selection) SplitLast(n int) (last, before *Selection, err error) {
	latest, older := make([]index.Series, 0, len(s.series)), make([]index.Series, 0, len(s.series))
	for _, series := range s.series {
		whole := series.Hours
		if len(whole) == 0 {
			continue
		}
		from := whole[len(whole)-1].Last - int64(n) + 1
		series.Hours = hours.Intersect(whole, []index.HourSpan{{First: from, Last: keyschema.HourMax}})
		latest = append(latest, series)
		if series.Hours = hours.Intersect(whole, []index.HourSpan{{First: 0, Last: from - 1}}); len(series.Hours) > 0 {
			older = append(older, series)
		}
	}
	if last, err = s.narrowed(latest); err != nil {
		return nil, nil, err
	}
	if before, err = s.narrowed(older); err != nil {
		last.Close()
		return nil, nil, err
	}
	return last, before, nil
}

// narrowed returns a selection of series with fewer hours.
func (s *Selection) narrowed(series []index.Series) (*Selection, error) {
	out := &Selection{request: s.request, session: s.session, version: s.version}
	out.hours, out.pin = []index.HourSpan{{First: 0, Last: keyschema.HourMax}}, false // rows are not merged
	return out, out.setSeries(series)
}

// noteReads records the metrics of the series that a query found. With a matcher for one metric, it skips the series.
func (r *Reader) noteReads(ctx context.Context, matchers []*labels.Matcher, found []index.Series) {
	if r.opts.LastReads == nil || len(found) == 0 {
		return
	}
	if who := principal.From(ctx); who == nil || len(who.Tenants) == 0 {
		for _, m := range matchers {
			if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
				r.opts.LastReads.Read("", m.Value)
				return
			}
		}
	}
	var lastPrefix, lastName string
	for i := range found {
		prefix, name := "", found[i].Labels.Get(model.MetricNameLabel)
		if t := found[i].Tenant; t != nil {
			prefix = t.Prefix
		}
		if i > 0 && prefix == lastPrefix && name == lastName {
			continue
		}
		r.opts.LastReads.Read(prefix, name)
		lastPrefix, lastName = prefix, name
	}
}
