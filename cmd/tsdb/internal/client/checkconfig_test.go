package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/config"
)

// TestValueChanges: only what differs is listed.
func TestValueChanges(t *testing.T) {
	parse := func(src string) *config.Config {
		c, err := config.Parse("f", []byte(src))
		require.NoError(t, err)
		return c
	}
	const rules = "query_rules: [{id: a, query: x, action: refuse, reason: r}, {id: b, query: up, action: slow_lane, reason: r}]\n"
	const relabelling = "relabel_configs: [{regex: 'pod|uid', action: labeldrop}]\n"
	const unchanged = "limits: {series: {max: 5}, query_time: {max: 1m}}\n" + rules
	before := parse(unchanged)
	for after, want := range map[string][]string{
		"limits: {series: {max: 5}, query_time: {max: 1m}}\n" + rules: nil,
		"limits: {series: {max: 6}, query_time: {max: 60s}}\n" + rules: {
			"- limits.series: {max: 5}, at once", "+ limits.series: {max: 6}, at once"},
		"limits: {series: {max: 5}, query_time: {max: 1m}}\n" + rules + relabelling: {
			"+ relabel_configs: {regex: pod|uid, action: labeldrop}, at once"},
		"limits: {series: {max: 5}, query_time: {max: 1m}}": {
			"- query_rules: {id: a, query: x, action: refuse, reason: r}, at once",
			"- query_rules: {id: b, query: up, action: slow_lane, reason: r}, at once"},
		"limits: {series: {max: 5}, query_time: {max: 1m}}\nquery_rules:\n" +
			"- {id: b, query: up, action: slow_lane, reason: r}\n- {id: a, query: x, action: refuse, reason: r}": {
			"the order of rules changes, at once"},
		// A change in any section counts.
		unchanged + "tenants: [{name: acme, series: {max: 9}}]": {"+ tenants: {name: acme, series: {max: 9}}, at once"},
		unchanged + "aliases: [{kind: metric, old: a, new: b}]": {"+ aliases: {kind: metric, old: a, new: b}, at once"},
		unchanged + "influx: {separator: .}":                    {"+ influx: {separator: .}, at once"},
		unchanged + "otlp: {delta: store}":                      {"+ otlp: {delta: store}, at once"},
		unchanged + "ha: {cluster_label: c, replica_label: r}":  {"+ ha: {cluster_label: c, replica_label: r}, at once"},
		unchanged + "global: {evaluation_interval: 5m}":         {"+ global: {evaluation_interval: 5m}, at once"},
		unchanged + "rule_files: [a.yml]":                       {"+ rule_files: a.yml, at once"},
	} {
		changes, err := valueChanges(before, parse(after))
		require.NoError(t, err)
		require.Equal(t, want, changes, after)
	}
}

// TestCheckRuleFiles: the check covers the rule files in the directory of the configuration file.
func TestCheckRuleFiles(t *testing.T) {
	dir := t.TempDir()
	file, rules := filepath.Join(dir, "halite.yml"), filepath.Join(dir, "r.yml")
	require.NoError(t, os.WriteFile(file, []byte("rule_files: [r.yml]"), 0o600))
	require.NoError(t, os.WriteFile(rules, []byte("groups: [{name: g, rules: [{record: x, expr: up}]}]"), 0o600))
	c := &checkConfig{file: file, now: time.Now}
	var out strings.Builder
	require.NoError(t, c.run(t.Context(), &out))
	require.Contains(t, out.String(), "1 rule files with 1 groups, 1 recording rules")
	require.NoError(t, os.WriteFile(rules, []byte("groups: [{name: g, rules: [{record: x, expr: 'limitk(1, up)'}]}]"), 0o600))
	err := c.run(t.Context(), &out)
	require.ErrorContains(t, err, file+": rule_files: "+rules+`: 1:46: group "g", rule 1, "x": could not parse expression`)
	c.experimental = true
	require.NoError(t, c.run(t.Context(), &out))
}
