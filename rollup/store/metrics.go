package store

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of writers and readers.
type metrics struct {
	marks, corrupt prometheus.Counter
}

func newMetrics(r prometheus.Registerer, s *Store) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_rollup_" + name, Help: help})
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_rollup_" + name, Help: help}, value)
	}
	m := &metrics{
		marks:   counter("marks_total", "Series-days whose states late or changed samples marked dirty."),
		corrupt: counter("corrupt_cells_total", "Damaged rollup cells. Queries read raw samples instead."),
	}
	if r == nil {
		return m, nil
	}
	view := s.Manifest.View
	var errs []error
	for _, c := range []prometheus.Collector{
		m.marks, m.corrupt,
		gauge("pending_day_passes", "Days whose states are to be computed.", func() float64 { return float64(len(view().Days)) }),
		gauge("pending_months", "Months whose states are to be computed, including the open one.", func() float64 {
			return float64(len(view().Months))
		}),
		gauge("pending_deletions", "Deletions that rollup states do not reflect yet.", func() float64 {
			return float64(len(s.PendingDeletions()))
		}),
		gauge("lag_seconds", "Time since the end of the oldest day without valid states; 0 if that day is still open.", s.lagSeconds),
		gauge("lease", "1 if this server computes rollups. Of servers that share tables, only the lease holder does.", func() float64 {
			if s.opts.Shared == nil || s.opts.Shared.HoldsLease() {
				return 1
			}
			return 0
		}),
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("rollup metrics: %w", err)
	}
	return m, nil
}

// lagSeconds is the time since the end of the oldest day without valid states.
func (s *Store) lagSeconds() float64 {
	view := s.Manifest.View()
	oldest := view.Closed + 1
	for day := range view.Days {
		oldest = min(oldest, day)
	}
	return max(0, float64(s.opts.Now().UnixMilli()-(oldest+1)*dayMs)/1000)
}
