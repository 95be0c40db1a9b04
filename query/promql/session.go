package promql

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index"
)

// Windows are the spans of time that a selector needs: for each of Steps ends, StepMs apart from FirstEndMs on, the
// samples with end − RangeMs < time ≤ end. RangeMs and Steps are positive; StepMs may be 0 for a single step.
type Windows struct {
	FirstEndMs, StepMs, RangeMs int64
	Steps                       int
	// Latest says that of a span little but the last sample is looked at.
	Latest bool
}

// hull is the window from the first sample needed to the last.
func (w Windows) hull() window {
	return window{w.FirstEndMs - w.RangeMs + 1, w.FirstEndMs + int64(w.Steps-1)*w.StepMs}
}

// sparse reports whether whole hours may lie between two neighbouring spans.
func (w Windows) sparse() bool { return w.Steps > 1 && w.StepMs-w.RangeMs >= keyschema.HourMs }

// hours are the hours that meet a span, ascending, none before the oldest time that can have samples.
func (w Windows) hours(clip window) []index.HourSpan {
	var out []index.HourSpan
	for i := range w.Steps {
		end := w.FirstEndMs + int64(i)*w.StepMs
		from, to := max(end-w.RangeMs+1, clip.mintMs), min(end, clip.maxtMs)
		if from > to {
			continue
		}
		first, last := keyschema.HourOf(from), keyschema.HourOf(to)
		if n := len(out); n > 0 && first <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, last)
			continue
		}
		out = append(out, index.HourSpan{First: first, Last: last})
	}
	return out
}

// Figures say what the selections of a session have read so far.
type Figures struct {
	Series int64 // selected
	// Ranges of rows were asked for; Scans tells of the first reads, the newest day first.
	Ranges int64
	Scans  []Scan
	// Rows came from the data table; RowsUsed of them had samples in the window.
	Rows, RowsUsed int64
	// RowsCached were found decoded and did not have to be read.
	RowsCached int64
	// Samples were decoded or copied from the head, and were in the window.
	Samples int64
	// BytesPeak is the most memory that was charged to the budget at once.
	BytesPeak int64
}

// Session is what the selections of one query share: a budget and figures. It may be used by several goroutines.
type Session struct {
	queryable *Queryable
	budget    *Budget
	figures   figures
	tierUses  tierUses
}

type figures struct {
	series, ranges, rows, rowsUsed, rowsCached, samples atomic.Int64
	scans                                               scanLog
}

// Session begins a query.
func (q *Queryable) Session() *Session {
	return &Session{queryable: q, budget: newBudget(&q.opts, q.pool)}
}

// Select finds the series that match and have samples in the hull of the windows. Rows of hours that meet no window
// are not read, where that saves whole hours; samples between windows may be returned nevertheless.
func (s *Session) Select(ctx context.Context, w Windows, matchers ...*labels.Matcher) (*Selection, error) {
	return s.selection(ctx, s.reader(w), w, matchers)
}

// SelectPartners is Select that may leave out series without a partner: [Selection.Left] is their number.
func (s *Session) SelectPartners(
	ctx context.Context, p *index.Partners, w Windows, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := s.reader(w)
	r.partners = p
	return s.selection(ctx, r, w, matchers)
}

// SelectPart is Select for those who need the metric's name and the labels of some names only: others may be missing.
func (s *Session) SelectPart(
	ctx context.Context, w Windows, names []string, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := s.reader(w)
	r.part, r.names = true, names
	return s.selection(ctx, r, w, matchers)
}

func (s *Session) reader(w Windows) *reader {
	r := s.queryable.newReaderOf(s.budget, w.hull().mintMs, w.hull().maxtMs)
	r.figures, r.steps = &s.figures, w.Steps
	r.lends, r.latest = true, w.Latest && w.Steps == 1
	return r
}

func (s *Session) selection(ctx context.Context, r *reader, w Windows, matchers []*labels.Matcher) (*Selection, error) {
	if w.sparse() {
		r.needed = w.hours(r.window)
	}
	sel, err := r.selection(ctx, nil, matchers)
	if err != nil {
		return nil, err
	}
	s.figures.series.Add(int64(sel.Len()))
	return sel, nil
}

// Metrics lists the metrics of the series that match and have samples in the hull of the windows, sorted.
func (s *Session) Metrics(ctx context.Context, w Windows, matchers ...*labels.Matcher) ([]string, error) {
	clip := s.queryable.clip(w.hull())
	if clip.empty() {
		return nil, nil
	}
	names, err := s.queryable.opts.Catalogue.LabelValues(ctx, labelMetric, clip.mintMs, clip.maxtMs, 0, matchers...)
	if err != nil {
		return nil, storageError("list metrics", err)
	}
	return names, nil
}

// Close ends the budget: what was selected and read may not be used any more.
func (s *Session) Close() { s.budget.End() }

// Budget is what all of the session counts against.
func (s *Session) Budget() *Budget { return s.budget }

// Take charges memory of an evaluation to the budget of the session, or fails with a *LimitError.
func (s *Session) Take(bytes int64) error { return s.budget.Take(bytes) }

// Release gives back what Take has charged.
func (s *Session) Release(bytes int64) { s.budget.Release(bytes) }

// Figures are those of all selections up to now.
func (s *Session) Figures() Figures {
	return Figures{
		Series: s.figures.series.Load(), Ranges: s.figures.ranges.Load(), Scans: s.figures.scans.list(),
		Rows: s.figures.rows.Load(), RowsUsed: s.figures.rowsUsed.Load(),
		RowsCached: s.figures.rowsCached.Load(), Samples: s.figures.samples.Load(),
		BytesPeak: s.budget.peak.Load(),
	}
}

// thin keeps of each series' hours those that are needed, and the series that have any.
func thin(series []index.Series, needed []index.HourSpan) []index.Series {
	out := series[:0:0]
	for _, s := range series {
		if s.Hours = intersect(s.Hours, needed); len(s.Hours) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// intersect gives the hours that both have; both ascend.
func intersect(a, b []index.HourSpan) []index.HourSpan {
	var out []index.HourSpan
	for len(a) > 0 && len(b) > 0 {
		if first, last := max(a[0].First, b[0].First), min(a[0].Last, b[0].Last); first <= last {
			out = append(out, index.HourSpan{First: first, Last: last})
		}
		if a[0].Last < b[0].Last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}
