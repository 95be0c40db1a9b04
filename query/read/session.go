package read

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/budget"
	"halite/query/column"
	"halite/storage/index"
)

// Windows are the windows that a selector needs. There are Steps ends, from FirstEndMs on, StepMs apart. For each end it needs
// the samples with end − RangeMs < time ≤ end. RangeMs and Steps are positive; StepMs may be 0 for a single step.
type Windows struct {
	FirstEndMs, StepMs, RangeMs int64
	Steps                       int
	// Latest means that the selector needs the last sample of each window, and rarely any other sample.
	Latest bool
	// Presence means that only the times of samples matter. A column then has a float at the time of each histogram, unless
	// histograms are retired.
	Presence bool
}

// Bounds returns the range from the first sample needed to the last.
func (w Windows) Bounds() column.TimeRange {
	return column.TimeRange{MinMs: w.FirstEndMs - w.RangeMs + 1, MaxMs: w.FirstEndMs + int64(w.Steps-1)*w.StepMs}
}

// Sparse reports whether whole hours may lie between two neighbouring windows.
func (w Windows) Sparse() bool { return w.Steps > 1 && w.StepMs-w.RangeMs >= keyschema.HourMs }

// Hours returns the hours of the windows within a range, ascending.
func (w Windows) Hours(within column.TimeRange) []index.HourSpan {
	var out []index.HourSpan
	for i := range w.Steps {
		end := w.FirstEndMs + int64(i)*w.StepMs
		from, to := max(end-w.RangeMs+1, within.MinMs), min(end, within.MaxMs)
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

// Figures count the reads of a session's selections so far.
type Figures struct {
	Series int64 // selected series
	// Ranges counts the row ranges requested. Scans are the first reads of the table, newest day first.
	Ranges int64
	Scans  []Scan
	// Rows counts the rows read from the data table, RowsUsed the rows among them with samples in the window.
	Rows, RowsUsed int64
	// RowsCached counts the rows found in the row cache.
	RowsCached int64
	// Samples counts the samples in the window that were decoded, found in the row cache, or copied from the head.
	Samples int64
	// BytesPeak is the peak memory of the budget.
	BytesPeak int64
}

// Session is the reads of one query. Its selections share a budget and figures. It is safe for concurrent use.
type Session struct {
	reader  *Reader
	ages    *keyschema.TierRetention // at the beginning of the query
	budget  *budget.Budget
	figures figures
	single  bool
	yield   func(ctx context.Context) error // nil if the query shares no CPU
}

type figures struct {
	series, ranges, rows, rowsUsed, rowsCached, samples atomic.Int64
	scans                                               scanLog
}

// Session begins a query with its own budget.
func (r *Reader) Session() *Session { return r.SessionWith(r.Budget()) }

// SessionWith begins a query with a budget.
func (r *Reader) SessionWith(b *budget.Budget) *Session {
	return &Session{reader: r, ages: r.opts.Retention.Snapshot(), budget: b}
}

// Retention returns the ages of all tiers at the beginning of the query.
func (s *Session) Retention() *keyschema.RetentionByMetric { return s.ages.Load() }

// UseOneCPU makes the query read with one goroutine, and call yield before each batch of series. Call it before the first read.
func (s *Session) UseOneCPU(yield func(ctx context.Context) error) { s.single, s.yield = true, yield }

// Concurrency returns the number of goroutines that may read for the query at once, at most most.
func (s *Session) Concurrency(most int) int {
	if s.single {
		return 1
	}
	return most
}

// Metrics lists the metrics of the series that match and have samples within the bounds of the windows, sorted.
func (s *Session) Metrics(ctx context.Context, w Windows, matchers ...*labels.Matcher) ([]string, error) {
	return s.reader.LabelValues(ctx, labelMetric, w.Bounds(), 0, matchers...)
}

// Close closes the budget. The caller must not use selections and batches of the session afterwards.
func (s *Session) Close() { s.budget.Close() }

// Budget returns the budget of the session.
func (s *Session) Budget() *budget.Budget { return s.budget }

// Figures returns the figures of all selections so far.
func (s *Session) Figures() Figures {
	return Figures{
		Series: s.figures.series.Load(), Ranges: s.figures.ranges.Load(), Scans: s.figures.scans.list(),
		Rows: s.figures.rows.Load(), RowsUsed: s.figures.rowsUsed.Load(),
		RowsCached: s.figures.rowsCached.Load(), Samples: s.figures.samples.Load(),
		BytesPeak: s.budget.Peak(),
	}
}

// countScan adds a read of the table and its samples to the figures and metrics.
func (s *Session) countScan(scan Scan, samples int) {
	s.figures.scans.add(scan)
	s.figures.ranges.Add(int64(scan.Ranges))
	s.figures.rows.Add(int64(scan.Rows))
	s.figures.rowsUsed.Add(int64(scan.Used))
	s.figures.samples.Add(int64(samples))
	s.reader.metrics.rows.Add(float64(scan.Rows))
	s.reader.metrics.samples.Add(float64(samples))
}
