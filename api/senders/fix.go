package senders

import (
	"slices"

	"halite/api/tenancy"
	"halite/ingest"
	"halite/keyschema"
)

// Reasons why a whole request was refused. Package ingest has the reasons for samples.
const (
	ReasonContentType = "content_type"
	ReasonEncoding    = "encoding"
	ReasonTooLarge    = "too_large"
	ReasonBody        = "body"
	ReasonOverload    = "overload"
	ReasonOrigin      = "cross_origin"
	ReasonHost        = "host"
	ReasonNotReady    = "not_ready"
	ReasonCrashLoop   = "repeated_panic"
	ReasonMalformed   = "malformed"
	ReasonUnavailable = "unavailable"
	ReasonInternal    = "internal"
	ReasonParameter   = "parameter"
	ReasonScope       = "scope"
	ReasonRestricted  = "restricted"

	// The reasons of package auth.
	ReasonNoCredentials  = "no_credentials"
	ReasonBadCredentials = "bad_credentials"
	ReasonBadCertificate = "bad_certificate"
	ReasonPasswordChecks = "password_checks"
)

// Places of the configuration that a Fix changes.
const (
	inRemoteWrite = "prometheus.yml, below remote_write"
	inVmagent     = "the command line of vmagent"
	inFlags       = "the command line of tsdb serve"
	inConfig      = "the file of --config.file"
	inLimits      = "the file of --config.file, below limits"
)

// Fix explains a refusal, and names the configuration that fixes it.
type Fix struct {
	// Words are sentences with the cause, such as "the label values are too long".
	Words string
	// Line is the line of configuration, and Where its place. Both are "" if no configuration fixes it.
	Line, Where string
}

// FixOf returns the fix for a reason. The configuration of a sender of remote write does not help other protocols.
func FixOf(reason, protocol string) Fix {
	f := fixOf(reason)
	if f.Where != inRemoteWrite && f.Where != inVmagent ||
		slices.Contains([]string{ProtocolV1, ProtocolV2, ProtocolUnknown}, protocol) {
		return f
	}
	if reason == ReasonEncoding {
		f.Words = "the server does not accept the encoding of the body"
	}
	return Fix{Words: f.Words}
}

func fixOf(reason string) Fix {
	if f, ok := requestFix(reason); ok {
		return f
	}
	if f, ok := labelFix(reason); ok {
		return f
	}
	return sampleFix(reason)
}

func requestFix(reason string) (f Fix, ok bool) {
	switch reason {
	case ReasonContentType:
		return Fix{"the server does not support this message or content type",
			"protobuf_message: io.prometheus.write.v2.Request", inRemoteWrite}, true
	case ReasonEncoding:
		return Fix{"the body is not compressed with snappy", "-remoteWrite.forcePromProto", inVmagent}, true
	case ReasonTooLarge:
		return Fix{"the body is too large", "--ingest.max-body-bytes=128MB", inFlags}, true
	case ReasonBody:
		return Fix{"the body ended early or came too slowly", "remote_timeout: 1m", inRemoteWrite}, true
	case ReasonOverload:
		return Fix{Words: "a resource was short. Prometheus sends the samples again"}, true
	case ReasonUnavailable, ReasonNotReady:
		return Fix{Words: "the server or its storage was not available. Prometheus sends the samples again"}, true
	case ReasonOrigin:
		return Fix{"a web page of another origin sent it", "--web.cors.origin=https://page.example", inFlags}, true
	case ReasonHost:
		return Fix{"the header Host names a host that is not allowed", "--web.allowed-hosts=localhost,halite.example", inFlags}, true
	case ReasonMalformed:
		return Fix{Words: "the body is not a valid message of the protocol. The sender has a fault"}, true
	case ReasonNoCredentials, ReasonBadCredentials:
		return Fix{"the sender has no credentials, or a wrong password or token",
			"authorization: {credentials_file: /etc/prometheus/halite.token}", inRemoteWrite}, true
	case ReasonBadCertificate:
		return Fix{Words: "the authorities of the web configuration no longer vouch for the sender's certificate"}, true
	case ReasonScope, ReasonRestricted:
		return Fix{"the user or token may not write", "scopes: [write]", "the entry in --web.access-file"}, true
	case tenancy.ReasonNone, tenancy.ReasonForbidden, tenancy.ReasonUnknown, tenancy.ReasonMany, tenancy.ReasonInvalid,
		tenancy.ReasonDropping:
		return Fix{"the user or token may not write for that tenant", "tenant: acme", "the entry in --web.access-file"}, true
	case ReasonPasswordChecks:
		return Fix{Words: "too many passwords waited for their check. Tokens need no such check"}, true
	case ReasonParameter:
		return Fix{Words: "a parameter or header of the request is invalid. The sender's configuration has a fault"}, true
	case ReasonCrashLoop, ReasonInternal:
		return Fix{Words: "the server has a fault. Its log has the details"}, true
	}
	return f, false
}

func labelFix(reason string) (f Fix, ok bool) {
	switch reason {
	case ingest.ReasonTooManyLabels:
		return Fix{"the series have too many labels", "--ingest.max-labels=1000", inFlags}, true
	case ingest.ReasonLabelNameTooLong:
		return Fix{"the label names are too long", "--ingest.max-label-name-bytes=1024", inFlags}, true
	case ingest.ReasonLabelValueTooLong:
		return Fix{"the label values are too long", "--ingest.max-label-value-bytes=1048576", inFlags}, true
	case ingest.ReasonMetricNameTooLong:
		return Fix{"the metric names are too long", "--ingest.max-metric-name-bytes=1024", inFlags}, true
	case ingest.ReasonLabelSetTooLong:
		return Fix{"the labels of a series are too long together", "--ingest.max-label-set-bytes=1048576", inFlags}, true
	case ingest.ReasonNoMetricName:
		return Fix{Words: "the series have no metric name. The sender has a fault"}, true
	case ingest.ReasonEmptyLabelName, ingest.ReasonDuplicateLabel, ingest.ReasonInvalidUTF8:
		return Fix{Words: "the labels are invalid. The sender has a fault"}, true
	case ingest.ReasonReservedName:
		return Fix{
			Words: "a metric's name begins with '&', which is reserved for tenants, or a label is " + keyschema.TenantLabel,
		}, true
	case ingest.ReasonSeriesLimit:
		return Fix{"the limit of active series is reached", "--ingest.max-series=0", inFlags}, true
	case ingest.ReasonTenantSeriesLimit:
		return Fix{"the tenant has reached its limit of active series", "tenants: [{name: the_tenant, series: {max: 2000000}}]",
			inConfig}, true
	case ingest.ReasonMetricSeriesLimit:
		return Fix{"the metric has reached its limit of active series", "series_per_metric: [{pattern: the_metric, max: 0}]",
			inLimits}, true
	case ingest.ReasonSeriesMemory:
		return Fix{"the memory of active series is used up", "--storage.head-total-bytes=8GB", inFlags}, true
	}
	return f, false
}

func sampleFix(reason string) Fix {
	switch reason {
	case ingest.ReasonTooFarAhead:
		return Fix{"the times lie in the future. Check the clocks, or allow it", "--ingest.max-ahead=1h", inFlags}
	case ingest.ReasonBeforeRetention:
		return Fix{"the samples are older than the retention", "--storage.retention.raw=1y", inFlags}
	case ingest.ReasonBefore1970:
		return Fix{Words: "the times lie before 1970. The sender has a fault"}
	case ingest.ReasonUnsupportedHist:
		return Fix{"mode direct does not store native histograms", "send_native_histograms: false", inRemoteWrite}
	case ingest.ReasonUnsupportedExemplar:
		return Fix{"mode direct does not store exemplars", "send_exemplars: false", inRemoteWrite}
	case ingest.ReasonUnsupportedStart:
		return Fix{Words: "mode direct does not store start timestamps. It stores the samples"}
	case ingest.ReasonHistogramTooLarge:
		return Fix{"the native histograms have too many buckets", "--ingest.max-histogram-bytes=1048576", inFlags}
	case ingest.ReasonExemplarTooLong:
		return Fix{Words: "the labels of exemplars have more than 128 characters. Shorten them in the program that is scraped"}
	case ingest.ReasonMetadataInvalid, ingest.ReasonMetadataLimit:
		return Fix{Words: "the metadata is invalid or describes too many metrics"}
	case ingest.ReasonMalformedLine:
		return Fix{Words: "the lines break the rules of the format. The sender has a fault"}
	case ingest.ReasonNotNumeric:
		return Fix{Words: "the fields are strings. Only numbers and booleans are stored"}
	case ingest.ReasonMerged:
		return Fix{Words: "several samples of a series lie in one millisecond. The last one is stored"}
	case ingest.ReasonHAClusters:
		return Fix{Words: "HA pairs have too many clusters. Set ha.max_clusters in the configuration file"}
	case ingest.ReasonHAReplicas:
		return Fix{Words: "a cluster of HA pairs has more than 100 replicas. ha.replica_label names the wrong label"}
	case ingest.ReasonRounded:
		return Fix{Words: "whole numbers above 9007199254740992 are stored rounded, as float64 values"}
	case ingest.ReasonTemporality:
		return Fix{Words: "the metrics have delta temporality. Convert them with the Collector's processor deltatocumulative, or set " +
			"otlp.delta in the configuration file"}
	case ingest.ReasonHistogramInvalid, ingest.ReasonInvalidReference, ingest.ReasonEmptySeries:
		return Fix{Words: "the samples are invalid. The sender has a fault"}
	}
	return Fix{Words: "the reason is " + reason}
}
