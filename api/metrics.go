package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"halite/api/auth"
	"halite/api/senders"
)

// Reasons of tsdb_http_rejected_total.
const (
	rejectNotReady    = senders.ReasonNotReady
	rejectContentType = senders.ReasonContentType
	rejectEncoding    = senders.ReasonEncoding
	rejectTooLarge    = senders.ReasonTooLarge
	rejectBody        = senders.ReasonBody
	rejectOverload    = senders.ReasonOverload
	rejectOrigin      = senders.ReasonOrigin
	rejectCrashLoop   = senders.ReasonCrashLoop
	rejectScope       = senders.ReasonScope
	rejectRestricted  = senders.ReasonRestricted
)

type metrics struct {
	requests      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	requestBytes  *prometheus.CounterVec
	responseBytes *prometheus.CounterVec
	rejected      *prometheus.CounterVec
	inFlight      prometheus.Gauge
	panics        prometheus.Counter
	readQueries   prometheus.Gauge
}

// endpointMetrics are the metrics of one endpoint, found once. Requests with another code than 200 are counted apart.
type endpointMetrics struct {
	ok, requestBytes, responseBytes prometheus.Counter
	duration                        prometheus.Observer
}

func (m *metrics) endpoint(name string) endpointMetrics {
	return endpointMetrics{
		ok:           m.requests.WithLabelValues(name, strconv.Itoa(http.StatusOK)),
		requestBytes: m.requestBytes.WithLabelValues(name), responseBytes: m.responseBytes.WithLabelValues(name),
		duration: m.duration.WithLabelValues(name),
	}
}

// initRejected creates the counters of refusals of a write path. A counter that exists before its first event shows that event as
// an increase.
func (m *metrics) initRejected(path string) {
	for _, reason := range []string{rejectNotReady, rejectContentType, rejectEncoding, rejectTooLarge, rejectBody, rejectOverload,
		rejectOrigin, rejectCrashLoop, rejectScope, auth.ReasonNoCredentials, auth.ReasonBadCredentials,
		auth.ReasonBadCertificate, auth.ReasonBusy} {
		m.rejected.WithLabelValues(path, reason)
	}
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, names ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, names)
	}
	m := &metrics{
		requests: counter("tsdb_http_requests_total", "HTTP requests by endpoint and status code.", "handler", "code"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tsdb_http_request_duration_seconds", Help: "Time from the header of a request to the end of its response.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60, 120},
		}, []string{"handler"}),
		requestBytes: counter("tsdb_http_request_bytes_total", "Bytes of request bodies read, as sent.", "handler"),
		responseBytes: counter("tsdb_http_response_bytes_total",
			"Bytes of responses' bodies, after compression.", "handler"),
		rejected: counter("tsdb_http_rejected_total", "Requests refused before their work began.", "handler", "reason"),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_http_requests_in_flight", Help: "HTTP requests being answered.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_http_panics_total", Help: "Panics caught while answering HTTP requests. Each is a fault to report.",
		}),
		readQueries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_http_remote_reads", Help: "Remote-read requests that run or wait for a slot.",
		}),
	}
	m.initRejected(WritePath)
	if reg == nil {
		return m, nil
	}
	var faults []error
	for _, c := range []prometheus.Collector{
		m.requests, m.duration, m.requestBytes, m.responseBytes, m.rejected, m.inFlight, m.panics, m.readQueries,
	} {
		faults = append(faults, reg.Register(c))
	}
	return m, errors.Join(faults...)
}
