package read

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/storage/index"
)

// Select finds the series that match and have samples within the bounds of the windows. Rows of hours outside the windows are
// not read where that saves whole hours; other samples between windows may be returned.
func (s *Session) Select(ctx context.Context, w Windows, matchers ...*labels.Matcher) (*Selection, error) {
	return s.selection(ctx, s.ofWindows(w), matchers)
}

// SelectJoin is Select, but may omit series that no series in p matches. [Selection.Omitted] counts them.
func (s *Session) SelectJoin(
	ctx context.Context, p *index.JoinKeys, w Windows, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := s.ofWindows(w)
	r.join = p
	return s.selection(ctx, r, matchers)
}

// SelectProjected is Select for operators that need only the metric's name and the labels with some names. The series may lack
// others.
func (s *Session) SelectProjected(
	ctx context.Context, w Windows, names []string, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := s.ofWindows(w)
	r.projected, r.names = true, names
	return s.selection(ctx, r, matchers)
}

// Range is a range of time to read, with options of Prometheus's remote read.
type Range struct {
	column.TimeRange
	Limit                  int    // of series; 0 means all
	ShardIndex, ShardCount uint64 // of a stable hash of the labels; count 0 or 1 means all
	ValuesOnly             bool   // start timestamps are not needed
}

// SelectRange finds the series that match and have samples in a range.
func (s *Session) SelectRange(ctx context.Context, o Range, matchers ...*labels.Matcher) (*Selection, error) {
	r := s.request(o.TimeRange)
	r.limit, r.shardIndex, r.shardCount = o.Limit, o.ShardIndex, o.ShardCount
	if s.reader.opts.StartTimes && !o.ValuesOnly {
		r.kinds.add(keyschema.StartTimes)
	}
	return s.selection(ctx, r, matchers)
}

// SelectExemplars finds the series that match and have samples or exemplars in a range. Only their exemplars are read.
func (s *Session) SelectExemplars(
	ctx context.Context, within column.TimeRange, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := s.request(within)
	r.kinds = kindsOf(keyschema.Exemplars)
	return s.selection(ctx, r, matchers)
}

// SelectHours finds the series that match and have samples in some hours of a window, which retention does not bound: rollup
// states may be older than samples. steps is the number of values that each series is evaluated to.
func (s *Session) SelectHours(
	ctx context.Context, window column.TimeRange, hours []index.HourSpan, steps int, matchers ...*labels.Matcher,
) (*Selection, error) {
	return s.selection(ctx, request{
		window: window, hours: hours, steps: steps, unretained: true, kinds: kindsOf(keyschema.Floats),
	}, matchers)
}

// ofWindows is the request for the samples of windows.
func (s *Session) ofWindows(w Windows) request {
	r := s.request(w.Bounds())
	r.steps, r.pin, r.latest = w.Steps, true, w.Latest && w.Steps == 1
	if w.Sparse() {
		r.hours = w.Hours(r.window)
	}
	return r
}

// request is the request for the samples of a range that retention leaves.
func (s *Session) request(within column.TimeRange) request {
	return request{
		window: s.reader.clip(within), nowMs: s.reader.opts.Now().UnixMilli(), kinds: kindsOf(keyschema.Floats),
	}
}

// selection runs a request.
func (s *Session) selection(ctx context.Context, r request, matchers []*labels.Matcher) (*Selection, error) {
	sel, err := newSelection(ctx, s, r, matchers)
	if err != nil {
		return nil, err
	}
	s.figures.series.Add(int64(sel.Len()))
	return sel, nil
}
