package job

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"halite/rollup/store"
)

// Kinds of passes in addition to the kinds of work.
const (
	passDeletions = "deletions"
	passMonth     = "month"
)

// metrics are the counters of the job.
type metrics struct {
	series, samples, bytes, failures, unreadable, busySeconds prometheus.Counter
	passes                                                    *prometheus.CounterVec
	passSeries                                                prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_rollup_" + name, Help: help})
	}
	m := &metrics{
		series:      counter("series_total", "Series-days whose states the job computed."),
		samples:     counter("samples_total", "Samples from which the job computed states."),
		bytes:       counter("bytes_total", "Bytes of cells and keys that the job wrote."),
		failures:    counter("failures_total", "Failed passes of the job. The next run repeats them."),
		unreadable:  counter("unreadable_rows_total", "Damaged rows of samples. Their hours have no states."),
		busySeconds: counter("busy_seconds_total", "Time during which the job worked."),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_rollup_passes_total",
			Help: "Successful passes of the job, by kind: whole or part of a day, deletions, or month.",
		}, []string{"kind"}),
		passSeries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_rollup_pass_series", Help: "Series that the current pass has computed; 0 without a pass.",
		}),
	}
	for _, kind := range []string{string(store.WorkWhole), string(store.WorkPart), passDeletions, passMonth} {
		m.passes.WithLabelValues(kind) // exists before its first event, so that the event shows as an increase
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.series, m.samples, m.bytes, m.failures, m.unreadable, m.busySeconds, m.passes, m.passSeries,
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("rollup metrics: %w", err)
	}
	return m, nil
}
