package index

import "halite/keyschema"

// Metrics that are kept shorter than others are looked up in a window of their own, which begins with the hour that is
// still kept in part. All others are not asked for: only days that began before the latest of these hours concern it.

// firstHourOf is the first hour that the query asks of a metric.
func (q *query) firstHourOf(metric string) int64 {
	if q.cutoffs == nil {
		return q.from
	}
	return max(q.from, keyschema.HourOf(q.cutoffs.Ms(metric)))
}

// lapsed reports whether a segment's period began before all metrics are kept.
func (q *query) lapsed(s *segment) bool {
	return q.cutoffs != nil && firstHour(s.of.of.firstDay()) < keyschema.HourOf(q.cutoffs.LatestMs())
}

// visitKept calls visit with the rows of each metric that is kept, in the window in which it is.
func (q *query) visitKept(s *segment, b *block, rows []uint32, visit func(s *segment, b *block, rows []uint32) error) error {
	if !q.lapsed(s) {
		return visit(s, b, rows)
	}
	metrics, err := s.dict(q.ctx, metricName)
	if err != nil {
		return err
	}
	whole := s.window
	defer func() { s.window = whole }()
	for i := range b.metrics {
		n := 0
		for n < len(rows) && rows[n] < b.rowsEnd(i) {
			n++
		}
		of := rows[:n]
		rows = rows[n:]
		if n == 0 {
			continue
		}
		metric, err := metrics.value(q.ctx, b.metrics[i].metric)
		if err != nil {
			return err
		}
		s.window = whole.since(s.of.of.firstDay(), q.firstHourOf(metric))
		if s.window == (window{}) {
			continue
		}
		if err := visit(s, b, of); err != nil {
			return err
		}
	}
	return nil
}

// since leaves out the hours before one; firstDay is that of the period.
func (w window) since(firstDay, hour int64) window {
	for i := range w {
		w[i] &= hoursWithin(firstDay+int64(i), hour, keyschema.HourMax)
	}
	return w
}
