package lookup

import (
	"github.com/prometheus/common/model"

	"halite/keyschema"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Metrics that are kept shorter than others are looked up in a window of their own, which begins with the hour that is
// still kept in part. All others are not asked for: only days that began before the latest of these hours concern it.

// firstRetainedHour is the first hour that the query asks of a metric.
func (q *query) firstRetainedHour(metric string) int64 {
	if q.cutoffs == nil {
		return q.from
	}
	return max(q.from, keyschema.HourOf(q.cutoffs.Ms(metric)))
}

// hasExpired reports whether a segment's partition began before all metrics are kept.
func (q *query) hasExpired(s *segment.Segment) bool {
	return q.cutoffs != nil && presence.FirstHour(s.Of.Of.FirstDay()) < keyschema.HourOf(q.cutoffs.LatestMs())
}

// visitRetained calls visit with the rows of each metric that is kept, in the window in which it is.
func (q *query) visitRetained(s *segment.Segment, b *segment.Block, rows []uint32,
	visit func(s *segment.Segment, b *segment.Block, rows []uint32) error) error {
	if !q.hasExpired(s) {
		return visit(s, b, rows)
	}
	metrics, err := s.Dict(q.ctx, model.MetricNameLabel)
	if err != nil {
		return err
	}
	whole := s.Window
	defer func() { s.Window = whole }()
	for i := range b.Metrics {
		n := 0
		for n < len(rows) && rows[n] < b.RowsEnd(i) {
			n++
		}
		of := rows[:n]
		rows = rows[n:]
		if n == 0 {
			continue
		}
		metric, err := metrics.Value(q.ctx, b.Metrics[i].Metric)
		if err != nil {
			return err
		}
		s.Window = whole.Since(s.Of.Of.FirstDay(), q.firstRetainedHour(metric))
		if s.Window == (presence.Window{}) {
			continue
		}
		if err := visit(s, b, of); err != nil {
			return err
		}
	}
	return nil
}
