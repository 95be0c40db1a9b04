package rowcache

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ hits, misses, stateHits, stateMisses prometheus.Counter }

func newMetrics() metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return metrics{
		hits: counter("tsdb_query_row_cache_hits_total",
			"Rows that queries found in the row cache."),
		misses: counter("tsdb_query_row_cache_misses_total",
			"Rows that queries did not find in the row cache."),
		stateHits: counter("tsdb_query_state_cache_hits_total",
			"Rollup states that queries found in the row cache."),
		stateMisses: counter("tsdb_query_state_cache_misses_total",
			"Rollup states that queries did not find in the row cache."),
	}
}

// count adds the hits and misses of a look-up.
func (m *metrics) count(found, tried int) {
	m.hits.Add(float64(found))
	m.misses.Add(float64(tried - found))
}
