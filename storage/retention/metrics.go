package retention

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
)

// metrics are the counters of sweeps, and the ages in force.
type metrics struct {
	rows, bytes, ranges *prometheus.CounterVec
	ages                *prometheus.GaugeVec
	failures            prometheus.Counter
	lastSweep           prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, ages *keyschema.Retention) (*metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tsdb_retention_" + name, Help: help}, []string{"tier"})
	}
	m := &metrics{
		rows:   counter("freed_rows_total", "Rows whose cells were dropped because their metric is not kept that long."),
		bytes:  counter("freed_bytes_total", "About how many bytes they took in the files; 0 where the engine cannot tell."),
		ranges: counter("freed_ranges_total", "Metrics and days that were dropped, by one range deletion each."),
		ages: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tsdb_retention_age_seconds",
			Help: "How long the metrics of a rule are kept; 0 is for ever."}, []string{"tier", "pattern"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_retention_failures_total",
			Help: "Sweeps that failed; the next one goes on."}),
		lastSweep: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tsdb_retention_last_sweep_timestamp_seconds",
			Help: "When everything that is too old was last known to be dropped; 0 if not since the start."}),
	}
	for tier := keyschema.Raw; tier < keyschema.TierCount; tier++ {
		m.note(tier, Freed{}) // there before the first event, which then shows as an increase
		for _, rule := range ages.Rules() {
			m.ages.WithLabelValues(tier.String(), rule.Pattern).Set(float64(rule.Ages[tier]) / 1e9)
		}
	}
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

func (m *metrics) note(t keyschema.Tier, f Freed) {
	m.rows.WithLabelValues(t.String()).Add(float64(f.Rows))
	m.bytes.WithLabelValues(t.String()).Add(float64(f.Bytes))
	m.ranges.WithLabelValues(t.String()).Add(float64(f.Ranges))
}
