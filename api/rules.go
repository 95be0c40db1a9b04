package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/features"

	"halite/api/rules"
	"halite/ingest"
	"halite/keyschema"
	"halite/storage/index"
	"halite/storage/principal"
)

// Halite scrapes no targets but itself. Grafana and other clients of Prometheus still ask for targets. So each of these
// endpoints checks its parameters and answers with empty lists. Only the metadata of other servers' targets is available.

// rules answers /api/v1/rules.
func (s *Server) rules(r *http.Request) (reply, *apiError) {
	if aerr := strictForm(r); aerr != nil {
		return reply{}, aerr
	}
	texts, aerr := s.selectorTexts(r)
	if aerr != nil {
		return reply{}, aerr
	}
	sets, err := matcherSets(s.opts.Engine.Parser(), texts)
	if err != nil {
		return reply{}, badData(err)
	}
	q, err := rules.ParseQuery(r.URL.Query(), r.Form)
	if err != nil {
		return reply{}, badRuleParam(err)
	}
	q.Matchers = sets
	list, err := rules.List(s.ruleGroups(r), q, s.opts.RuleManager)
	if err != nil {
		return reply{}, badRuleParam(err)
	}
	return document(list)
}

// badRuleParam names the faulty parameter of an error of rules.
func badRuleParam(err error) *apiError {
	if bad := new(rules.ParamError); errors.As(err, &bad) {
		return badParam(bad.Param, bad.Err)
	}
	return badData(err)
}

// ruleGroups returns the groups that a request may see: the groups of its tenants, or all groups if it has no tenant. Rules
// read all series of their tenant, so a restricted token sees none.
func (s *Server) ruleGroups(r *http.Request) []*promrules.Group {
	who, m := principal.From(r.Context()), s.opts.RuleManager
	if m == nil || who.Restricted() {
		return nil
	}
	groups := m.RuleGroups()
	if who == nil || len(who.Tenants) == 0 {
		return groups
	}
	return slices.DeleteFunc(groups, func(g *promrules.Group) bool {
		return !slices.Contains(who.Tenants, m.Tenant(g.File(), g.Name()))
	})
}

// alerts answers /api/v1/alerts.
func (s *Server) alerts(r *http.Request) (reply, *apiError) {
	return document(rules.ActiveAlerts(s.ruleGroups(r)))
}

// alertmanagers answers /api/v1/alertmanagers. They belong to the server, so other tenants than the default one see none.
func (s *Server) alertmanagers(r *http.Request) (reply, *apiError) {
	var active, dropped []*url.URL
	who, m := principal.From(r.Context()), s.opts.RuleManager
	if m != nil && !who.Restricted() &&
		(who == nil || len(who.Tenants) == 0 || slices.Contains(who.Tenants, keyschema.DefaultTenant)) {
		active, dropped = m.Alertmanagers(), m.DroppedAlertmanagers()
	}
	return document(rules.ListAlertmanagers(active, dropped))
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

// noPool returns the error that a scrape pool does not exist. No scrape pool exists.
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

// describedMetric is an element of /api/v1/targets/metadata.
type describedMetric struct {
	Target labels.Labels `json:"target"`
	Metric string        `json:"metric,omitempty"`
	Type   string        `json:"type"`
	Help   string        `json:"help"`
	Unit   string        `json:"unit"`
}

// targetMetadata answers /api/v1/targets/metadata. The targets are the recent series of the metric up, whose labels are those
// of the target. A target has the metrics whose series have its labels job and instance.
func (s *Server) targetMetadata(r *http.Request) (reply, *apiError) {
	limit := -1
	if r.FormValue("limit") != "" {
		var aerr *apiError
		if limit, aerr = numberParam(r, "limit"); aerr != nil {
			return reply{}, aerr
		}
	}
	set := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "up")}
	possible := s.opts.Metadata != nil
	if selector := r.FormValue("match_target"); selector != "" {
		matchers, err := s.opts.Engine.Parser().ParseMetricSelector(selector)
		if err != nil {
			return reply{}, badParam("match_target", err)
		}
		for _, m := range matchers {
			if m.Name != model.MetricNameLabel {
				set = append(set, m)
			} else if !m.Matches("") { // a target has no metric name
				possible = false
			}
		}
	}
	if !possible {
		return document([]describedMetric{})
	}
	budget := s.newBudget(r.Context())
	defer budget.end()
	list, aerr := s.describeTargets(r, limit, budget, set)
	if aerr != nil {
		return reply{}, aerr
	}
	return document(list)
}

func (s *Server) describeTargets(
	r *http.Request, limit int, budget responseBudget, set []*labels.Matcher,
) (list []describedMetric, aerr *apiError) {
	ctx, leave, aerr := s.admit(r)
	if aerr != nil {
		return nil, aerr
	}
	defer leave()
	list = []describedMetric{}
	nowMs := s.opts.Now().UnixMilli()
	l := lookup{mintMs: nowMs - s.opts.Lookback.Milliseconds(), maxtMs: nowMs}
	targets, err := s.opts.Index.Select(ctx, budget.forLookup(), l.mintMs, l.maxtMs, set...)
	if err != nil {
		return nil, evalError(err)
	}
	slices.SortFunc(targets, func(a, b index.Series) int { return labels.Compare(a.Labels, b.Labels) })
	for _, target := range targets {
		if limit >= 0 && len(list) >= limit {
			break
		}
		size := len(list)
		if list, err = s.appendDescribed(ctx, list, l, target.Labels, r.FormValue("metric")); err == nil {
			err = budget.reserve((len(list) - size) * describedBytes)
		}
		if err != nil {
			return nil, evalError(err)
		}
	}
	return list, nil
}

// describedBytes estimates the memory of a describedMetric, whose texts the metadata of all metrics shares.
const describedBytes = 100

// appendDescribed appends the descriptions of a target's metrics, or of one metric unless it is "".
func (s *Server) appendDescribed(
	ctx context.Context, list []describedMetric, l lookup, up labels.Labels, metric string,
) ([]describedMetric, error) {
	job, instance := up.Get(model.JobLabel), up.Get(model.InstanceLabel)
	set := []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, model.JobLabel, job),
		labels.MustNewMatcher(labels.MatchEqual, model.InstanceLabel, instance),
	}
	if metric != "" {
		pattern, err := labels.NewMatcher(labels.MatchRegexp, model.MetricNameLabel,
			regexp.QuoteMeta(metric)+"("+strings.Join(familySuffixes(), "|")+")?")
		if err != nil {
			return nil, err
		}
		set = append(set, pattern)
	}
	names, err := s.opts.Index.LabelValues(ctx, model.MetricNameLabel, l.mintMs, l.maxtMs, 0, set...)
	if err != nil {
		return nil, err
	}
	target := up.DropReserved(func(name string) bool { return name == model.MetricNameLabel })
	seen := map[string]struct{}{}
	for _, name := range names {
		family, m, known := s.familyOf(ctx, name, job, instance)
		if _, again := seen[family]; !known || again || metric != "" && metric != family {
			continue
		}
		seen[family] = struct{}{}
		d := describedMetric{Target: target, Type: m.Type, Help: m.Help, Unit: m.Unit}
		if metric == "" {
			d.Metric = family
		}
		list = append(list, d)
	}
	return list, nil
}

// familySuffixes are the suffixes that names of metrics have and names of their families lack.
func familySuffixes() []string {
	return []string{"_bucket", "_count", "_sum", "_gcount", "_gsum", "_total", "_info", "_created"}
}

// familyOf returns the metric family of a metric, with the description by a target.
func (s *Server) familyOf(ctx context.Context, metric, job, instance string) (family string, m ingest.Metadata, known bool) {
	if m, known = s.targetMetadataOf(ctx, metric, job, instance); known {
		return metric, m, true
	}
	for _, suffix := range familySuffixes() {
		if base, cut := strings.CutSuffix(metric, suffix); cut {
			m, known = s.targetMetadataOf(ctx, base, job, instance)
			return base, m, known
		}
	}
	return metric, m, false
}

// targetMetadataOf returns the metadata of a target's metric for a principal: the entry of its first tenant that describes the
// metric.
func (s *Server) targetMetadataOf(ctx context.Context, metric, job, instance string) (m ingest.Metadata, known bool) {
	for _, stored := range describedNames(principal.From(ctx), metric) {
		if m, known = s.opts.Metadata.TargetMetadata(stored, job, instance); known {
			return m, true
		}
	}
	return m, false
}

// notifications answers /api/v1/notifications.
func (s *Server) notifications(*http.Request) (reply, *apiError) { return document([]any{}) }

// features answers /api/v1/features: the parts of Prometheus's API and language that this server
// supports, by category and name.
func (s *Server) features(*http.Request) (reply, *apiError) {
	list := features.NewRegistry()
	for name, has := range map[string]bool{
		"admin": s.opts.AdminAPI, "lifecycle": s.opts.Reload != nil, "remote_write_receiver": true,
		"otlp_write_receiver": true, "search": false, "openapi_3.1": false, "openapi_3.2": false,
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
	list.Disable(features.OTLPReceiver, "delta_conversion")
	list.Set(features.OTLPReceiver, "native_delta_ingestion", s.opts.OTLP().StoreDelta)
	if s.opts.RuleManager != nil {
		template.RegisterFeatures(list)
		list.Disable(features.Rules, "concurrent_rule_eval")
		list.Enable(features.Rules, "query_offset")
		list.Enable(features.Rules, "keep_firing_for")
	}
	s.opts.Engine.Parser().RegisterFeatures(list)
	return document(list.Get())
}
