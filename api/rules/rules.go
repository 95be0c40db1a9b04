package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promrules "github.com/prometheus/prometheus/rules"
)

// Manager evaluates rules and sends alerts.
type Manager interface {
	// RuleGroups returns all groups, sorted by file and name.
	RuleGroups() []*promrules.Group
	// Tenant returns the tenant of a group; empty if the server has no tenants.
	Tenant(file, group string) string
	// Alertmanagers and DroppedAlertmanagers return the addresses that alerts go to, and those that relabelling has dropped.
	Alertmanagers() []*url.URL
	DroppedAlertmanagers() []*url.URL
}

// Query selects rules. Empty fields select everything.
type Query struct {
	// Type is alert, record or "".
	Type string
	// Names, Groups and Files list the wanted rules, groups and files.
	Names, Groups, Files []string
	// Matchers select rules by their labels; one set has to match.
	Matchers [][]*labels.Matcher
	// ExcludeAlerts leaves the active alerts out.
	ExcludeAlerts bool
	// GroupLimit is the largest number of groups; 0 means no limit. NextToken comes from the previous response.
	GroupLimit int
	NextToken  string
}

// ParamError is a parameter that is wrong.
type ParamError struct {
	Param string
	Err   error
}

func (e *ParamError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *ParamError) Unwrap() error { return e.Err }

func paramError(param, format string, args ...any) error {
	return &ParamError{Param: param, Err: fmt.Errorf(format, args...)}
}

// ParseQuery reads the parameters of a request, besides match[]. inURL has the parameters of the URL. form has them and the
// parameters of the body. The error is a *ParamError.
func ParseQuery(inURL, form url.Values) (q Query, err error) {
	q.Names, q.Groups, q.Files = form["rule_name[]"], form["rule_group[]"], form["file[]"]
	switch q.Type = strings.ToLower(inURL.Get("type")); q.Type {
	case "", typeAlert, typeRecord:
	default:
		return q, paramError("type", "not supported value %q", q.Type)
	}
	if text := strings.ToLower(inURL.Get("exclude_alerts")); text != "" {
		if q.ExcludeAlerts, err = strconv.ParseBool(text); err != nil {
			return q, paramError("exclude_alerts", "error converting exclude_alerts: %w", err)
		}
	}
	limit := inURL.Get("group_limit")
	q.NextToken = inURL.Get("group_next_token")
	if limit == "" {
		if q.NextToken != "" {
			return q, paramError("group_next_token", "group_limit needs to be present in order to paginate over the groups")
		}
		return q, nil
	}
	n, err := strconv.ParseInt(limit, 10, 32)
	if err != nil {
		return q, paramError("group_limit", "group_limit needs to be a valid number: %w", err)
	}
	if n <= 0 {
		return q, paramError("group_limit", "group_limit needs to be greater than 0")
	}
	q.GroupLimit = int(n)
	return q, nil
}

// The types that a Query may ask for.
const (
	typeAlert  = "alert"
	typeRecord = "record"
)

// Groups is the document of /api/v1/rules.
type Groups struct {
	Groups    []Group `json:"groups"`
	NextToken string  `json:"groupNextToken,omitempty"`
}

// Group is a group with its rules, each an AlertingRule or a RecordingRule.
type Group struct {
	Name           string    `json:"name"`
	File           string    `json:"file"`
	Tenant         string    `json:"tenant,omitempty"`
	Rules          []any     `json:"rules"`
	Interval       float64   `json:"interval"`
	Limit          int       `json:"limit"`
	EvaluationTime float64   `json:"evaluationTime"`
	LastEvaluation time.Time `json:"lastEvaluation"`
}

// AlertingRule is an alerting rule. Durations are in seconds.
type AlertingRule struct {
	State          string               `json:"state"`
	Name           string               `json:"name"`
	Query          string               `json:"query"`
	Duration       float64              `json:"duration"`
	KeepFiringFor  float64              `json:"keepFiringFor"`
	Labels         labels.Labels        `json:"labels"`
	Annotations    labels.Labels        `json:"annotations"`
	Alerts         []Alert              `json:"alerts"`
	Health         promrules.RuleHealth `json:"health"`
	LastError      string               `json:"lastError,omitempty"`
	EvaluationTime float64              `json:"evaluationTime"`
	LastEvaluation time.Time            `json:"lastEvaluation"`
	Type           string               `json:"type"`
}

// RecordingRule is a recording rule. EvaluationTime is in seconds.
type RecordingRule struct {
	Name           string               `json:"name"`
	Query          string               `json:"query"`
	Labels         labels.Labels        `json:"labels"`
	Health         promrules.RuleHealth `json:"health"`
	LastError      string               `json:"lastError,omitempty"`
	EvaluationTime float64              `json:"evaluationTime"`
	LastEvaluation time.Time            `json:"lastEvaluation"`
	Type           string               `json:"type"`
}

// Alert is an active alert.
type Alert struct {
	Labels          labels.Labels `json:"labels"`
	Annotations     labels.Labels `json:"annotations"`
	State           string        `json:"state"`
	ActiveAt        *time.Time    `json:"activeAt,omitempty"`
	KeepFiringSince *time.Time    `json:"keepFiringSince,omitempty"`
	Value           string        `json:"value"`
}

// errToken means that no group has the token of a request.
var errToken = errors.New("were rule groups changed?")

// List returns those groups of a Manager that a Query selects. The error is a *ParamError.
func List(groups []*promrules.Group, q Query, m Manager) (Groups, error) {
	out := Groups{Groups: []Group{}}
	found := q.NextToken == ""
	for _, g := range groups {
		if found = found || q.NextToken == tokenOf(g); !found {
			continue
		}
		if !selected(q.Groups, g.Name()) || !selected(q.Files, g.File()) {
			continue
		}
		list := q.rules(g)
		if len(list) == 0 {
			continue
		}
		if q.GroupLimit > 0 && len(out.Groups) == q.GroupLimit {
			out.NextToken = tokenOf(g)
			break
		}
		out.Groups = append(out.Groups, Group{
			Name: g.Name(), File: g.File(), Tenant: m.Tenant(g.File(), g.Name()), Rules: list,
			Interval: g.Interval().Seconds(), Limit: g.Limit(),
			EvaluationTime: g.GetEvaluationTime().Seconds(), LastEvaluation: g.GetLastEvaluation(),
		})
	}
	if !found {
		return out, paramError("group_next_token", "invalid group_next_token '%s'. %w", q.NextToken, errToken)
	}
	return out, nil
}

// selected reports whether a list has a name. An empty list has every name.
func selected(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// tokenOf is the token of a response that begins with a group.
func tokenOf(g *promrules.Group) string {
	sum := sha256.Sum256([]byte(promrules.GroupKey(g.File(), g.Name())))
	return hex.EncodeToString(sum[:])
}

// rules returns the rules of a group that the Query selects.
func (q *Query) rules(g *promrules.Group) (out []any) {
	for _, rule := range g.Rules(q.Matchers...) {
		if !selected(q.Names, rule.Name()) {
			continue
		}
		lastError := ""
		if err := rule.LastError(); err != nil {
			lastError = err.Error()
		}
		switch r := rule.(type) {
		case *promrules.AlertingRule:
			if q.Type != typeRecord {
				out = append(out, q.alerting(r, lastError))
			}
		case *promrules.RecordingRule:
			if q.Type != typeAlert {
				out = append(out, RecordingRule{
					Name: r.Name(), Query: r.Query().String(), Labels: r.Labels(), Health: r.Health(), LastError: lastError,
					EvaluationTime: r.GetEvaluationDuration().Seconds(), LastEvaluation: r.GetEvaluationTimestamp(),
					Type: promrules.KindRecording,
				})
			}
		}
	}
	return out
}

func (q *Query) alerting(r *promrules.AlertingRule, lastError string) AlertingRule {
	var alerts []Alert
	if !q.ExcludeAlerts {
		alerts = alertsOf(r)
	}
	return AlertingRule{
		State: r.State().String(), Name: r.Name(), Query: r.Query().String(), Duration: r.HoldDuration().Seconds(),
		KeepFiringFor: r.KeepFiringFor().Seconds(), Labels: r.Labels(), Annotations: r.Annotations(), Alerts: alerts,
		Health: r.Health(), LastError: lastError, EvaluationTime: r.GetEvaluationDuration().Seconds(),
		LastEvaluation: r.GetEvaluationTimestamp(), Type: promrules.KindAlerting,
	}
}

// alertsOf returns the active alerts of a rule.
func alertsOf(r *promrules.AlertingRule) []Alert {
	out := []Alert{}
	for _, a := range r.ActiveAlerts() {
		alert := Alert{
			Labels: a.Labels, Annotations: a.Annotations, State: a.State.String(), ActiveAt: &a.ActiveAt,
			Value: strconv.FormatFloat(a.Value, 'e', -1, 64),
		}
		if !a.KeepFiringSince.IsZero() {
			alert.KeepFiringSince = &a.KeepFiringSince
		}
		out = append(out, alert)
	}
	return out
}

// Alerts is the document of /api/v1/alerts.
type Alerts struct {
	Alerts []Alert `json:"alerts"`
}

// ActiveAlerts returns the active alerts of groups.
func ActiveAlerts(groups []*promrules.Group) Alerts {
	out := Alerts{Alerts: []Alert{}}
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			out.Alerts = append(out.Alerts, alertsOf(r)...)
		}
	}
	return out
}

// Alertmanagers is the document of /api/v1/alertmanagers.
type Alertmanagers struct {
	Active  []Target `json:"activeAlertmanagers"`
	Dropped []Target `json:"droppedAlertmanagers"`
}

// Target is an Alertmanager.
type Target struct {
	URL string `json:"url"`
}

// ListAlertmanagers returns Alertmanagers by their addresses.
func ListAlertmanagers(active, dropped []*url.URL) Alertmanagers {
	return Alertmanagers{Active: targets(active), Dropped: targets(dropped)}
}

func targets(urls []*url.URL) []Target {
	out := []Target{}
	for _, u := range urls {
		out = append(out, Target{URL: u.String()})
	}
	return out
}
