package api

import (
	"net/http"

	"halite/ingest"
)

// SeriesLimitSource says how far limits of series are used; most bounds each list of metrics.
type SeriesLimitSource func(most int) ingest.SeriesLimitStatus

// limits answers /api/v1/status/limits: how far the limits of active series are used, which metrics are near theirs, and
// which metrics had samples refused. Prometheus has no such endpoint.
func (s *Server) limits(r *http.Request) (reply, *apiError) {
	most, fault := rankingLimit(r)
	if fault != nil {
		return reply{}, fault
	}
	var status ingest.SeriesLimitStatus
	if s.opts.SeriesLimits != nil {
		status = s.opts.SeriesLimits(most)
	}
	return document(status)
}
