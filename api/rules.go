package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/features"
)

// Halite evaluates no rules, sends no alerts and scrapes no targets but itself. Grafana and other clients of Prometheus
// ask for them all the same, so each of these endpoints checks its parameters and answers with empty lists.

// rules answers /api/v1/rules.
func (s *Server) rules(r *http.Request) (reply, *apiError) {
	if aerr := strictForm(r); aerr != nil {
		return reply{}, aerr
	}
	texts, aerr := s.selectorTexts(r)
	if aerr != nil {
		return reply{}, aerr
	}
	if _, err := matcherSets(s.opts.Engine.Parser(), texts); err != nil {
		return reply{}, badData(err)
	}
	query := r.URL.Query()
	switch typ := strings.ToLower(query.Get("type")); typ {
	case "", "alert", "record":
	default:
		return reply{}, badParam("type", fmt.Errorf("not supported value %q", typ))
	}
	if text := strings.ToLower(query.Get("exclude_alerts")); text != "" {
		if _, err := strconv.ParseBool(text); err != nil {
			return reply{}, badParam("exclude_alerts", fmt.Errorf("error converting exclude_alerts: %w", err))
		}
	}
	if aerr := checkGroupPage(query.Get("group_limit"), query.Get("group_next_token")); aerr != nil {
		return reply{}, aerr
	}
	return document(map[string]any{"groups": []any{}})
}

// checkGroupPage checks the paging parameters of rules. As there are no groups, no token can be valid.
func checkGroupPage(limit, token string) *apiError {
	if limit == "" {
		if token != "" {
			return badParam("group_next_token",
				errors.New("group_limit needs to be present in order to paginate over the groups"))
		}
		return nil
	}
	n, err := strconv.ParseInt(limit, 10, 32)
	if err != nil {
		return badParam("group_limit", fmt.Errorf("group_limit needs to be a valid number: %w", err))
	}
	if n <= 0 {
		return badParam("group_limit", errors.New("group_limit needs to be greater than 0"))
	}
	if token != "" {
		return badParam("group_next_token",
			fmt.Errorf("invalid group_next_token '%v'. were rule groups changed?", token))
	}
	return nil
}

// alerts answers /api/v1/alerts.
func (s *Server) alerts(*http.Request) (reply, *apiError) {
	return document(map[string]any{"alerts": []any{}})
}

// alertmanagers answers /api/v1/alertmanagers.
func (s *Server) alertmanagers(*http.Request) (reply, *apiError) {
	return document(map[string]any{"activeAlertmanagers": []any{}, "droppedAlertmanagers": []any{}})
}

// scrapePools answers /api/v1/scrape_pools.
func (s *Server) scrapePools(*http.Request) (reply, *apiError) {
	return document(map[string]any{"scrapePools": []any{}})
}

// scrapePoolConfig answers /api/v1/scrape_pools/config.
func (s *Server) scrapePoolConfig(r *http.Request) (reply, *apiError) {
	pool := r.FormValue("scrapePool")
	if pool == "" {
		return reply{}, badData(errors.New("no scrapePool parameter provided"))
	}
	return reply{}, noPool(pool)
}

// noPool says that there is no such scrape pool, as there are none.
func noPool(name string) *apiError {
	return badData(fmt.Errorf("error retrieving scrape config: scrape pool %q not found", name))
}

// relabelSteps answers /api/v1/targets/relabel_steps.
func (s *Server) relabelSteps(r *http.Request) (reply, *apiError) {
	pool, text := r.FormValue("scrapePool"), r.FormValue("labels")
	if pool == "" {
		return reply{}, badData(errors.New("no scrapePool parameter provided"))
	}
	if text == "" {
		return reply{}, badData(errors.New("no labels parameter provided"))
	}
	var ls labels.Labels
	if err := json.Unmarshal([]byte(text), &ls); err != nil {
		return reply{}, badData(fmt.Errorf("error parsing labels: %w", err))
	}
	return reply{}, noPool(pool)
}

// targets answers /api/v1/targets.
func (s *Server) targets(*http.Request) (reply, *apiError) {
	return document(struct {
		Active  []any          `json:"activeTargets"`
		Dropped []any          `json:"droppedTargets"`
		Counts  map[string]int `json:"droppedTargetCounts"`
	}{[]any{}, []any{}, map[string]int{}})
}

// targetMetadata answers /api/v1/targets/metadata.
func (s *Server) targetMetadata(r *http.Request) (reply, *apiError) {
	if _, aerr := numberParam(r, "limit"); aerr != nil {
		return reply{}, aerr
	}
	if selector := r.FormValue("match_target"); selector != "" {
		if _, err := s.opts.Engine.Parser().ParseMetricSelector(selector); err != nil {
			return reply{}, badParam("match_target", err)
		}
	}
	return document([]any{})
}

// notifications answers /api/v1/notifications.
func (s *Server) notifications(*http.Request) (reply, *apiError) { return document([]any{}) }

// features answers /api/v1/features: the parts of Prometheus's API and language that this server
// supports, by category and name.
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
		"per_step_stats": true, "delayed_name_removal": s.opts.DelayedNames, "type_and_unit_labels": false,
	} {
		list.Set(features.PromQL, name, has)
	}
	for _, name := range []string{"native_histograms", "exemplar_storage", "st_storage"} {
		list.Set(features.TSDB, name, s.opts.AllKinds)
	}
	s.opts.Engine.Parser().RegisterFeatures(list)
	return document(list.Get())
}
