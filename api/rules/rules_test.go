package rules

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"
)

// manager gives all groups the same tenant.
type manager struct {
	Manager
	tenant string
}

func (m manager) Tenant(file, group string) string { return m.tenant }

// groups are two groups of one file and one of another. Their alert A is pending.
func groups(t *testing.T) (list []*promrules.Group) {
	up, err := parser.NewParser(parser.Options{}).ParseExpr("up == 0")
	require.NoError(t, err)
	empty := labels.EmptyLabels()
	for _, g := range []struct{ file, name string }{{"a.yml", "one"}, {"a.yml", "two"}, {"b.yml", "one"}} {
		alert := promrules.NewAlertingRule("A", up, time.Minute, 0, labels.FromStrings("team", g.name), empty, empty, "", true, nil)
		at := time.Unix(1e9, 0).UTC()
		_, err := alert.Eval(context.Background(), 0, at, func(context.Context, string, time.Time) (promql.Vector, error) {
			return promql.Vector{{Metric: labels.FromStrings("job", "x"), F: 5}}, nil
		}, nil, 0)
		require.NoError(t, err)
		list = append(list, promrules.NewGroup(promrules.GroupOptions{
			Name: g.name, File: g.file, Interval: time.Minute, Opts: &promrules.ManagerOptions{},
			Rules: []promrules.Rule{alert, promrules.NewRecordingRule("r:"+g.name, up, empty)},
		}))
	}
	return list
}

// list returns file, group and number of rules of a response.
func list(t *testing.T, all []*promrules.Group, query string) (out []string, next string) {
	form, err := url.ParseQuery(query)
	require.NoError(t, err)
	q, err := ParseQuery(form, form)
	require.NoError(t, err)
	got, err := List(all, q, manager{})
	require.NoError(t, err)
	for _, g := range got.Groups {
		for _, r := range g.Rules {
			switch r := r.(type) {
			case AlertingRule:
				out = append(out, g.File+" "+g.Name+" "+r.Name)
			case RecordingRule:
				out = append(out, g.File+" "+g.Name+" "+r.Name)
			}
		}
	}
	return out, got.NextToken
}

func TestList(t *testing.T) {
	all := groups(t)
	for query, want := range map[string][]string{
		"type=alert&rule_group[]=two":        {"a.yml two A"},
		"type=RECORD&file[]=b.yml":           {"b.yml one r:one"},
		"rule_name[]=r:two&rule_name[]=x":    {"a.yml two r:two"},
		"rule_name[]=x":                      nil,
		"rule_group[]=two&file[]=b.yml":      nil,
		"file[]=b.yml":                       {"b.yml one A", "b.yml one r:one"},
		"type=alert&group_limit=10":          {"a.yml one A", "a.yml two A", "b.yml one A"},
		"rule_group[]=one&type=record&x=one": {"a.yml one r:one", "b.yml one r:one"},
	} {
		got, next := list(t, all, query)
		require.Equal(t, want, got, query)
		require.Empty(t, next)
	}
	first, next := list(t, all, "type=alert&group_limit=2")
	require.Equal(t, []string{"a.yml one A", "a.yml two A"}, first)
	second, next := list(t, all, "type=alert&group_limit=2&group_next_token="+next)
	require.Equal(t, []string{"b.yml one A"}, second)
	require.Empty(t, next)
	_, err := List(all, Query{GroupLimit: 1, NextToken: "x"}, manager{})
	var bad *ParamError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "group_next_token", bad.Param)
	require.EqualError(t, err, "invalid group_next_token 'x'. were rule groups changed?")
	matchers := [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, "team", "two")}}
	got, err := List(all, Query{Matchers: matchers}, manager{})
	require.NoError(t, err)
	require.Len(t, got.Groups, 1)
	require.Len(t, got.Groups[0].Rules, 1)
}

func TestParseQuery(t *testing.T) {
	for query, want := range map[string]string{
		"type=x": `not supported value "x"`, "exclude_alerts=x": "error converting exclude_alerts",
		"group_limit=x": "group_limit needs to be a valid number", "group_limit=0": "group_limit needs to be greater than 0",
		"group_next_token=x": "group_limit needs to be present",
	} {
		form, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = ParseQuery(form, form)
		require.ErrorContains(t, err, want, query)
	}
}

// TestJSON: the documents are Prometheus's.
func TestJSON(t *testing.T) {
	all := groups(t)[:1]
	alert := `{"labels":{"alertname":"A","job":"x","team":"one"},"annotations":{},"state":"pending",` +
		`"activeAt":"2001-09-09T01:46:40Z","value":"5e+00"}`
	requireJSON := func(want string, v any) {
		t.Helper()
		got, err := json.Marshal(v)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
	requireJSON(`{"alerts":[`+alert+`]}`, ActiveAlerts(all))
	group := func(alerts string) string {
		return `{"groups":[{"name":"one","file":"a.yml","tenant":"acme","interval":60,"limit":0,"evaluationTime":0,
			"lastEvaluation":"0001-01-01T00:00:00Z","rules":[
			{"state":"unknown","name":"A","query":"up == 0","duration":60,"keepFiringFor":0,"labels":{"team":"one"},
			"annotations":{},"alerts":` + alerts + `,"health":"unknown","evaluationTime":0,
			"lastEvaluation":"0001-01-01T00:00:00Z","type":"alerting"},
			{"name":"r:one","query":"up == 0","labels":{},"health":"unknown","evaluationTime":0,
			"lastEvaluation":"0001-01-01T00:00:00Z","type":"recording"}]}]}`
	}
	got, err := List(all, Query{}, manager{tenant: "acme"})
	require.NoError(t, err)
	requireJSON(group(`[`+alert+`]`), got)
	got, err = List(all, Query{ExcludeAlerts: true}, manager{tenant: "acme"})
	require.NoError(t, err)
	requireJSON(group(`null`), got)
	requireJSON(`{"alerts":[]}`, ActiveAlerts(nil))
	u, err := url.Parse("http://am/api/v2/alerts")
	require.NoError(t, err)
	requireJSON(`{"activeAlertmanagers":[{"url":"http://am/api/v2/alerts"}],"droppedAlertmanagers":[]}`,
		ListAlertmanagers([]*url.URL{u}, nil))
}
