package api

import (
	"net/http"

	"github.com/prometheus/prometheus/util/features"
)

// features answers /api/v1/features: what of Prometheus' API and language this server has, by category and name.
func (s *Server) features(*http.Request) (reply, *apiError) {
	list := features.NewRegistry()
	for name, has := range map[string]bool{
		"admin": s.opts.AdminAPI, "lifecycle": s.opts.Reload != nil, "remote_write_receiver": true,
		"otlp_write_receiver": false, "search": false, "openapi_3.1": false, "openapi_3.2": false,
		"exclude_alerts": true, "label_values_match": true, "query_stats": true, "query_warnings": true,
		"time_range_labels": true, "time_range_series": true,
	} {
		list.Set(features.API, name, has)
	}
	for name, has := range map[string]bool{
		"at_modifier": true, "negative_offset": true, "subqueries": true, "per_query_lookback_delta": true,
		"per_step_stats": true, "delayed_name_removal": false, "type_and_unit_labels": false,
	} {
		list.Set(features.PromQL, name, has)
	}
	s.opts.Engine.Parser().RegisterFeatures(list)
	return document(list.Get())
}
