package read

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	series, rows, samples prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		series:  counter("tsdb_query_series_selected_total", "Series that selectors of queries matched."),
		rows:    counter("tsdb_query_rows_read_total", "Rows of the data table that queries read."),
		samples: counter("tsdb_query_samples_read_total", "Samples that queries read from the head and the data table."),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.series, m.rows, m.samples,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register read metrics: %w", err)
		}
	}
	return m, nil
}
