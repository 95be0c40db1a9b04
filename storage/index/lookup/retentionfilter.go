package lookup

import (
	"github.com/prometheus/common/model"

	"halite/keyschema"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// A metric with a shorter retention than others has its own window. It begins with the first hour that retention does not
// drop completely. Only days that began before the latest of these hours need the check.

// firstRetainedHour is the first hour of a metric that the query needs.
func (q *query) firstRetainedHour(metric string) int64 {
	if q.cutoffs == nil {
		return q.from
	}
	return max(q.from, keyschema.HourOf(q.cutoffs.Ms(metric)))
}

// hasExpired reports whether retention may hide hours at the beginning of a segment's partition for some metric.
func (q *query) hasExpired(s *segment.Segment) bool {
	return q.cutoffs != nil && presence.FirstHour(s.Handle.Partition.FirstDay()) < keyschema.HourOf(q.cutoffs.LatestMs())
}

// visitRetained calls visit with the rows of each retained metric and its window.
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
		batch := rows[:n]
		rows = rows[n:]
		if n == 0 {
			continue
		}
		metric, err := metrics.Value(q.ctx, b.Metrics[i].Metric)
		if err != nil {
			return err
		}
		s.Window = whole.Since(s.Handle.Partition.FirstDay(), q.firstRetainedHour(metric))
		if s.Window == (presence.Window{}) {
			continue
		}
		if err := visit(s, b, batch); err != nil {
			return err
		}
	}
	return nil
}
