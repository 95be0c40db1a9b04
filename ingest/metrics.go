package ingest

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	accepted     prometheus.Counter
	rejected     *prometheus.CounterVec
	seriesDryRun *prometheus.CounterVec
	requests     prometheus.Counter
	badRequests  prometheus.Counter
	overloads    *prometheus.CounterVec
	newSeries    prometheus.Counter
	replayed     prometheus.Counter
	orphans      prometheus.Counter
	maintFails   prometheus.Counter
	retired      prometheus.Counter
	deletions    prometheus.Counter
	cleanedRows  prometheus.Counter
	cleanedBytes prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "tsdb_ingest_" + name, Help: help})
	}
	m := &metrics{
		accepted: counter("samples_total", "Samples acknowledged."),
		rejected: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_ingest_rejected_total", Help: "Samples, exemplars and metadata not stored, by reason.",
		}, []string{"reason"}),
		seriesDryRun: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_ingest_series_limit_dry_run_total",
			Help: "New series taken although a limit with a dry run was reached, by limit.",
		}, []string{"limit"}),
		requests:    counter("requests_total", "Write requests taken up."),
		badRequests: counter("bad_requests_total", "Write requests that could not be understood or were too large."),
		overloads: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_ingest_overload_total", Help: "Write requests refused for lack of a resource, by resource.",
		}, []string{"resource"}),
		newSeries:  counter("series_created_total", "Series taken into the log for the first time."),
		replayed:   counter("replayed_samples_total", "Samples read back from the log at start."),
		orphans:    counter("replayed_orphans_total", "Samples in the log without a series, left out at start."),
		maintFails: counter("maintenance_failures_total", "Failed maintenance runs of the catalogue."),
		retired:    counter("series_retired_total", "Idle series forgotten."),
		deletions: f.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_tombstones_created_total", Help: "Deletions carried out.",
		}),
		cleanedRows: f.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_tombstones_cleaned_rows_total", Help: "Rows written anew or removed because samples in them were deleted.",
		}),
		cleanedBytes: f.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_tombstones_cleaned_bytes_total", Help: "Bytes of runs that cleaning has taken out of rows.",
		}),
	}
	// A counter that is there before its first event shows that event as an increase.
	for _, resource := range []string{resourceBytes, resourceTurns, resourceHead, resourceSeries, resourceSpace, resourceLog,
		resourceSize, resourceFailed, ResourceTables} {
		m.overloads.WithLabelValues(resource)
	}
	// Their first event may come when no new series are taken, those of this server's own metrics included.
	for _, reason := range []string{ReasonSeriesLimit, ReasonMetricSeriesLimit, ReasonSeriesMemory} {
		m.rejected.WithLabelValues(reason)
	}
	return m
}

// watch registers the gauges that read the ingester's state.
func (i *Ingester) watch(reg prometheus.Registerer) {
	f := promauto.With(reg)
	gauge := func(name, help string, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_ingest_" + name, Help: help}, value)
	}
	gauge("series", "Active series.", func() float64 { return float64(i.series.Load()) })
	gauge("head_rows", "Unflushed rows.", func() float64 { return float64(i.head.Rows()) })
	gauge("head_samples", "Unflushed samples.", func() float64 { return float64(i.head.Samples()) })
	gauge("head_bytes", "Memory of unflushed rows.", func() float64 { return float64(i.head.Bytes()) })
	gauge("in_flight_bytes", "Decoded bytes of requests being served.", func() float64 {
		return float64(i.admission.inFlight.Load())
	})
	gauge("refusing_for_space", "1 while writes are refused for lack of disk space.", func() float64 {
		if i.admission.lowSpace.Load() {
			return 1
		}
		return 0
	})
}
