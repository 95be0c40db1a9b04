package ingest

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"halite/ingest/deletion"
	"halite/ingest/hatracker"
)

// Resources whose shortage makes the server refuse a write. They are the values of the label resource of
// tsdb_ingest_overload_total.
const (
	resourceBytes       = "in_flight_bytes"
	resourceConcurrency = "concurrency"
	resourceHead        = "head_memory"
	// resourceRate: the limit of samples per second is reached.
	resourceRate = "samples_per_second"
	// resourceSeries: active series use all memory, because they have samples of many days.
	resourceSeries = "series_memory"
	resourceSpace  = "disk_space"
	resourceTenant = "tenant"
	resourceLog    = "log_buffer"
	resourceSize   = "log_size"
	// resourceFailed: the log refuses all frames until the server restarts.
	resourceFailed = "log_failed"
	// ResourceTables: the storage refused a write or did not answer.
	ResourceTables = "storage"
)

// Reasons why a sample is not stored. They are the values of the label reason of tsdb_ingest_rejected_total.
const (
	ReasonTooManyLabels       = "too_many_labels"
	ReasonLabelNameTooLong    = "label_name_too_long"
	ReasonLabelValueTooLong   = "label_value_too_long"
	ReasonMetricNameTooLong   = "metric_name_too_long"
	ReasonLabelSetTooLong     = "label_set_too_long"
	ReasonNoMetricName        = "missing_metric_name"
	ReasonEmptyLabelName      = "empty_label_name"
	ReasonInvalidUTF8         = "invalid_utf8"
	ReasonDuplicateLabel      = "duplicate_label"
	ReasonReservedName        = "reserved_name"
	ReasonSeriesLimit         = "series_limit"
	ReasonMetricSeriesLimit   = "metric_series_limit"
	ReasonTenantSeriesLimit   = "tenant_series_limit"
	ReasonSeriesMemory        = "series_memory"
	ReasonBefore1970          = "timestamp_before_1970"
	ReasonBeforeRetention     = "before_retention"
	ReasonTooFarAhead         = "too_far_ahead"
	ReasonUnsupportedHist     = "unsupported_histogram"
	ReasonUnsupportedExemplar = "unsupported_exemplar"
	ReasonUnsupportedStart    = "unsupported_start_timestamp"
	ReasonInvalidReference    = "invalid_reference"
	ReasonEmptySeries         = "empty_series"
	ReasonHistogramInvalid    = "histogram_invalid"
	ReasonHistogramTooLarge   = "histogram_too_large"
	ReasonExemplarTooLong     = "exemplar_labels_too_long"
	ReasonMetadataInvalid     = "metadata_invalid"
	ReasonMetadataLimit       = "metadata_limit"
	// Reasons of protocols other than remote write. They are for lines that do not parse, and values that are not numbers.
	// ReasonMerged is for a sample that a later one of the same request, series and millisecond replaces.
	ReasonMalformedLine = "malformed_line"
	ReasonNotNumeric    = "not_numeric"
	ReasonMerged        = "same_millisecond"
	// ReasonRounded counts whole numbers that are stored rounded, because a float64 cannot hold them exactly.
	ReasonRounded = "integer_rounded"
	// ReasonTemporality counts data points of OTLP whose metric has an aggregation temporality that is not stored.
	ReasonTemporality = "temporality"
	// Reasons of HA pairs.
	ReasonHAClusters = "ha_cluster_limit"
	ReasonHAReplicas = "ha_replica_limit"
)

// Reasons returns all reasons.
func Reasons() []string {
	return []string{
		ReasonTooManyLabels, ReasonLabelNameTooLong, ReasonLabelValueTooLong, ReasonMetricNameTooLong, ReasonLabelSetTooLong,
		ReasonNoMetricName, ReasonEmptyLabelName, ReasonInvalidUTF8, ReasonDuplicateLabel, ReasonReservedName, ReasonSeriesLimit,
		ReasonMetricSeriesLimit, ReasonTenantSeriesLimit, ReasonSeriesMemory,
		ReasonBefore1970, ReasonBeforeRetention, ReasonTooFarAhead, ReasonUnsupportedHist,
		ReasonUnsupportedExemplar, ReasonUnsupportedStart, ReasonInvalidReference, ReasonEmptySeries, ReasonHistogramInvalid,
		ReasonHistogramTooLarge, ReasonExemplarTooLong, ReasonMetadataInvalid, ReasonMetadataLimit,
		ReasonMalformedLine, ReasonNotNumeric, ReasonMerged, ReasonRounded, ReasonTemporality,
		ReasonHAClusters, ReasonHAReplicas,
	}
}

type metrics struct {
	accepted     prometheus.Counter
	histograms   prometheus.Counter
	exemplars    prometheus.Counter
	rejected     *prometheus.CounterVec
	dropped      *prometheus.CounterVec
	deduplicated prometheus.Counter
	ha           *hatracker.Metrics
	seriesDryRun *prometheus.CounterVec
	rateDryRun   prometheus.Counter
	requests     prometheus.Counter
	badRequests  prometheus.Counter
	overloads    *prometheus.CounterVec
	newSeries    prometheus.Counter
	replayed     prometheus.Counter
	orphans      prometheus.Counter
	maintFails   prometheus.Counter
	retired      prometheus.Counter
	deletions    deletion.Metrics
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "tsdb_ingest_" + name, Help: help})
	}
	m := &metrics{
		accepted:   counter("samples_total", "Float samples acknowledged."),
		histograms: counter("histograms_total", "Native histograms acknowledged."),
		exemplars:  counter("exemplars_total", "Exemplars acknowledged."),
		rejected: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_ingest_rejected_total", Help: "Samples, histograms, exemplars and metadata not stored, by reason.",
		}, []string{"reason"}),
		dropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_ingest_relabel_dropped_total",
			Help: "Samples, histograms and exemplars that a relabelling rule dropped, by the rule's index in relabel_configs.",
		}, []string{"rule"}),
		deduplicated: counter("ha_deduplicated_total",
			"Samples, histograms and exemplars not stored because another replica of their cluster is elected."),
		ha: hatracker.NewMetrics(reg),
		seriesDryRun: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_ingest_series_limit_dry_run_total",
			Help: "New series accepted beyond a limit that is a dry run, by limit.",
		}, []string{"limit"}),
		rateDryRun: counter("rate_limit_dry_run_samples_total",
			"Samples accepted beyond the limit of samples per second, because the limit is a dry run."),
		requests:    counter("requests_total", "Write requests received."),
		badRequests: counter("bad_requests_total", "Write requests that were malformed or too large."),
		overloads: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_ingest_overload_total", Help: "Write requests refused for lack of a resource, by resource.",
		}, []string{"resource"}),
		newSeries:  counter("series_created_total", "New series written to the log."),
		replayed:   counter("replayed_samples_total", "Samples read back from the log at start."),
		orphans:    counter("replayed_orphans_total", "Samples in the log without a series, skipped at start."),
		maintFails: counter("maintenance_failures_total", "Failed maintenance runs of the index."),
		retired:    counter("series_removed_total", "Idle series removed from memory."),
		deletions:  deletion.NewMetrics(reg),
	}
	// Create all counters at the start. A counter that exists before its first event shows the event as an increase.
	for _, resource := range []string{resourceBytes, resourceConcurrency, resourceRate, resourceHead, resourceSeries, resourceSpace,
		resourceTenant,
		resourceLog, resourceSize, resourceFailed, ResourceTables} {
		m.overloads.WithLabelValues(resource)
	}
	for _, reason := range Reasons() {
		m.rejected.WithLabelValues(reason)
	}
	return m
}
