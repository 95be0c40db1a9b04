package query

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	duration *prometheus.HistogramVec
	active   prometheus.Gauge
	queued   prometheus.Gauge
	samples  prometheus.Counter
	errors   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tsdb_query_duration_seconds",
			Help:    "Time from request to result of a query, with its wait for a slot.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"kind"}),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_query_active", Help: "Queries being evaluated.",
		}),
		queued: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_query_queued", Help: "Queries waiting for a slot.",
		}),
		samples: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_query_samples_total", Help: "Samples that queries evaluated.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_query_errors_total", Help: "Queries that failed, by the type of error.",
		}, []string{"type"}),
	}
	for _, t := range []ErrorType{
		ErrorBadData, ErrorTimeout, ErrorCanceled, ErrorExecution, ErrorInternal, ErrorUnavailable,
	} {
		m.errors.WithLabelValues(string(t))
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.duration, m.active, m.queued, m.samples, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register query metrics: %w", err)
		}
	}
	return m, nil
}
