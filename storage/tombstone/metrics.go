package tombstone

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	rows prometheus.Counter
}

func newMetrics(s *Set) (*metrics, error) {
	m := &metrics{rows: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tsdb_tombstones_rows_filtered_total",
		Help: "Rows of the data table from which reads removed deleted samples.",
	})}
	if s.opts.Registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.rows,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_tombstones", Help: "Deletions whose rows are not cleaned yet.",
		}, func() float64 { return float64(s.Len()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_tombstones_max", Help: "Limit of deletions whose rows are not cleaned yet.",
		}, func() float64 { return float64(s.opts.TombstonesMax) }),
	} {
		if err := s.opts.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of tombstones: %w", err)
		}
	}
	return m, nil
}
