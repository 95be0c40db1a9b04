package flush

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	flushedRows     prometheus.Counter
	lateRows        prometheus.Counter
	flushedBytes    prometheus.Counter
	flushFails      prometheus.Counter
	flushSeconds    prometheus.Histogram
	checkpoints     prometheus.Counter
	checkpointFails prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "tsdb_ingest_" + name, Help: help})
	}
	return metrics{
		flushedRows: counter("flushed_rows_total", "Rows written to the data table."),
		lateRows: counter("flushed_late_rows_total",
			"Rows written to the data table two hours or more after their hour: late samples, or rows written again."),
		flushedBytes: counter("flushed_bytes_total", "Bytes of the chunks written to the data table."),
		flushFails:   counter("flush_failures_total", "Failed flushes. Their rows stay in the head."),
		flushSeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "tsdb_ingest_flush_seconds", Help: "Duration of a flush that wrote rows.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}),
		checkpoints:     counter("checkpoints_total", "Truncations of the log."),
		checkpointFails: counter("checkpoint_failures_total", "Failed syncs of the tables or truncations of the log."),
	}
}
