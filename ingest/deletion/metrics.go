package deletion

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count deletions and cleaned rows.
type Metrics struct{ Deletions, CleanedRows, CleanedBytes prometheus.Counter }

// NewMetrics registers the metrics, or returns unregistered ones if reg is nil.
func NewMetrics(reg prometheus.Registerer) Metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "tsdb_tombstones_" + name, Help: help})
	}
	return Metrics{
		Deletions:    counter("created_total", "Deletions executed."),
		CleanedRows:  counter("cleaned_rows_total", "Rows rewritten or removed because samples in them were deleted."),
		CleanedBytes: counter("cleaned_bytes_total", "Bytes of chunks that cleaning has removed from rows."),
	}
}
