package retention

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
)

// metrics are the counters of sweeps and the ages in force.
type metrics struct {
	rows, bytes, ranges *prometheus.CounterVec
	ages                *prometheus.GaugeVec
	failures            prometheus.Counter
	lastSweep           prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, ages *keyschema.RetentionByMetric) (*metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tsdb_retention_" + name, Help: help}, []string{"tier"})
	}
	m := &metrics{
		rows:   counter("freed_rows_total", "Rows with cells dropped because they are older than the retention of their metric."),
		bytes:  counter("freed_bytes_total", "Estimated bytes freed in the files; 0 if the engine has no estimate."),
		ranges: counter("freed_ranges_total", "Range deletions; each drops one metric for one day."),
		ages: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tsdb_retention_age_seconds",
			Help: "Retention of the metrics of a rule; 0 keeps them forever."}, []string{"tier", "pattern"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_retention_failures_total",
			Help: "Failed sweeps; the next sweep continues."}),
		lastSweep: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tsdb_retention_last_sweep_timestamp_seconds",
			Help: "End of the last complete sweep; 0 if there was none since the start."}),
	}
	for tier := keyschema.Raw; tier < keyschema.TierCount; tier++ {
		m.note(tier, Freed{}) // the series exist before the first event, which then shows as an increase
	}
	m.setAges(ages)
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.rows, m.bytes, m.ranges, m.ages, m.failures, m.lastSweep} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of retention: %w", err)
	}
	return m, nil
}

func (m *metrics) setAges(ages *keyschema.RetentionByMetric) {
	m.ages.Reset()
	for _, rule := range ages.Rules() {
		for tier, age := range rule.Retention {
			m.ages.WithLabelValues(keyschema.Tier(tier).String(), rule.Pattern).Set(float64(age) / 1e9)
		}
	}
}

func (m *metrics) note(t keyschema.Tier, f Freed) {
	m.rows.WithLabelValues(t.String()).Add(float64(f.Rows))
	m.bytes.WithLabelValues(t.String()).Add(float64(f.Bytes))
	m.ranges.WithLabelValues(t.String()).Add(float64(f.Ranges))
}
