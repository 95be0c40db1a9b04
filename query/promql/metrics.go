package promql

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	series, rows, samples prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, p *pool) (*metrics, error) {
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
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_memory_bytes", Help: "Memory that queries and answers hold until they are written.",
		}, func() float64 { return float64(p.bytes.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_memory_bytes_max", Help: "Memory that queries and answers may hold.",
		}, func() float64 { return float64(p.bytesMax) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tsdb_query_answers_ended_total",
			Help: "Answers that were broken off because their client was slow and other queries needed the memory.",
		}, func() float64 { return float64(p.ended.Load()) }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register read metrics: %w", err)
		}
	}
	return m, nil
}
