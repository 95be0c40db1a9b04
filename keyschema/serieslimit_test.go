package keyschema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func parsedRules(t testing.TB, src string) []Rule {
	t.Helper()
	var rules []Rule
	if err := json.Unmarshal([]byte(src), &rules); err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestSeriesLimitOfMetrics(t *testing.T) {
	s := mustSchema(t, parsedRules(t, `[
		{"pattern": "*", "max_series": 1000},
		{"pattern": "kube_*", "max_series": 200, "max_series_warn": 0.5},
		{"pattern": "kube_pod_*", "max_series": 300, "max_series_warn": 250, "max_series_dry_run": true},
		{"pattern": "up", "max_series": 0},
		{"pattern": "http_*", "salts": 4, "max_series": 7, "max_series_warn": 100}
	]`)...)
	for metric, want := range map[string]SeriesLimit{
		"node_load1":    {Pattern: "*", Max: 1000, Warn: 800},
		"kube_node":     {Pattern: "kube_*", Max: 200, Warn: 100},
		"kube_pod_info": {Pattern: "kube_pod_*", Max: 300, Warn: 250, DryRun: true},
		"up":            {Pattern: "up"},
		"http_requests": {Pattern: "http_*", Max: 7, Warn: 7},
	} {
		if got := s.SeriesLimit(metric); got != want {
			t.Errorf("limit of %s is %+v, want %+v", metric, got, want)
		}
	}
	if got := s.SeriesWarnMin(); got != 7 {
		t.Errorf("least warning at %d series, want 7", got)
	}
	if got := DefaultSchema().SeriesLimit("up"); got != (SeriesLimit{}) || DefaultSchema().SeriesWarnMin() != 0 {
		t.Errorf("limit without rules: %+v", got)
	}
	if r := s.RuleAt("kube_node", 5); r.Salts != DefaultSalts {
		t.Errorf("a rule without salts lays out keys: %+v", r)
	}
	*s.Rules()[0].MaxSeries = 1
	if got := s.SeriesLimit("other").Max; got != 1000 {
		t.Errorf("a copy of the rules changed the schema: %d", got)
	}
}

func TestSeriesLimitMayChange(t *testing.T) {
	s := mustSchema(t, parsedRules(t, `[{"pattern": "a", "salts": 4, "max_series": 5}, {"pattern": "b", "max_series": 5}]`)...)
	next := mustSchema(t, parsedRules(t, `[{"pattern": "a", "salts": 4, "max_series": 6}, {"pattern": "c", "max_series": 7}]`)...)
	if err := s.Replace(next, 100); err != nil {
		t.Fatal(err)
	}
	if a, b, c := s.SeriesLimit("a").Max, s.SeriesLimit("b").Max, s.SeriesLimit("c").Max; a != 6 || b != 0 || c != 7 {
		t.Errorf("limits %d, %d and %d after the change", a, b, c)
	}
}

func TestSeriesLimitFaultsNameTheRule(t *testing.T) {
	for src, want := range map[string]string{
		`[{"pattern": "a", "max_series": -1}]`:                                   "max_series is -1",
		`[{"pattern": "a", "max_series": 5, "max_series_warn": -0.5}]`:           "max_series_warn is -0.5",
		`[{"pattern": "a", "salts": 4, "max_series_warn": 0.5}]`:                 "need max_series",
		`[{"pattern": "a", "salts": 4, "max_series_dry_run": true}]`:             "need max_series",
		`[{"pattern": "a", "max_series": 5, "from_hour": 3}]`:                    "omit from_hour",
		`[{"pattern": "a", "max_series": 5}, {"pattern": "a", "max_series": 6}]`: `two rules for "a" have max_series`,
	} {
		_, err := NewSchema(parsedRules(t, src))
		if !errors.Is(err, ErrBadRules) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%s: error %v, want %q", src, err, want)
		}
	}
}

func TestSeriesWarn(t *testing.T) {
	for _, c := range []struct {
		limit int
		warn  float64
		want  int
	}{{100, 0, 80}, {100, 0.5, 50}, {100, 1, 100}, {100, 30, 30}, {100, 1e300, 100}, {0, 0.8, 0}, {3, 0.5, 2}, {1, 0.5, 1}} {
		if got := SeriesWarn(c.limit, c.warn); got != c.want {
			t.Errorf("SeriesWarn(%d, %g) = %d, want %d", c.limit, c.warn, got, c.want)
		}
	}
}
