package querylog

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ lines, failed, unfinished, damaged prometheus.Counter }

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		lines: counter("tsdb_query_log_lines_total", "Lines written to the query log."),
		failed: counter("tsdb_query_log_failures_total",
			"Records of queries that were lost because a write failed or the queue was full."),
		unfinished: counter("tsdb_query_log_unfinished_total",
			"Queries that ran when the server last died, found at the start."),
		damaged: counter("tsdb_query_log_damaged_slots_total", "Damaged slots in the file of active queries."),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lines, m.failed, m.unfinished, m.damaged} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the query log: %w", err)
		}
	}
	return m, nil
}
