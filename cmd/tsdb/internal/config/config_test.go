package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/api/senders"
	"halite/ingest"
	"halite/keyschema"
	"halite/query/limits"
	"halite/storage/aliases"
)

// faults are documents with the end of their error.
func faults() []struct{ src, want string } {
	return []struct{ src, want string }{
		{"shcema_rules: []", "line 1, column 1, field shcema_rules: unknown key; known are global, rule_files, "},
		{"schema_rules:\n  - pattern: a\n    sallts: 3", "line 3, column 5, field schema_rules[0].sallts: unknown key"},
		{"schema_rules:\n  - pattern: a\n    salts: x",
			`line 3, column 12, field schema_rules[0].salts: this is "x", want a whole number`},
		{"schema_rules: [{pattern: a, salts: 1.5}]", `field schema_rules[0].salts: this is "1.5", want a whole number`},
		{"schema_rules: [{pattern: a, salts: '5'}]", `field schema_rules[0].salts: this is "5", want a whole number`},
		{"schema_rules: [{pattern: a, salts: 99999999999999999999}]", "want a whole number"},
		{"schema_rules:\n  - {pattern: a, salts: 2000}", "line 2, column 25, field schema_rules[0].salts: 2000 is outside 1..1000"},
		{"schema_rules:\n  - {pattern: a, salts: 0}", "field schema_rules[0].salts: 0 is outside 1..1000"},
		{"schema_rules: [{pattern: a}, {pattern: a, basis: promoted}]",
			"line 1, column 50, field schema_rules[1].basis: basis \"promoted\" needs promoted tags"},
		{"schema_rules: [{pattern: a, basis: tag}]", "line 1, column 36, field schema_rules[0].basis: "},
		{"schema_rules: [{pattern: a}, {pattern: a}]", `field schema_rules[1].pattern: "a" has two rules without from_hour`},
		{"schema_rules: [{pattern: a, from_hour: 3}, {pattern: a, from_hour: 3}]", `"a" has two rules from hour 3`},
		{"schema_rules: [{pattern: a, from_hour: -1}]", "field schema_rules[0].from_hour: from_hour -1 is outside"},
		{"schema_rules: [{salts: 3}]", "line 1, column 16, field schema_rules[0].pattern: the pattern is empty"},
		{"schema_rules: [{pattern: a, promoted: [x, x]}]", `field schema_rules[0].promoted: tag "x" is listed twice`},
		{"schema_rules: [{pattern: a, promoted: x}]", `field schema_rules[0].promoted: this is "x", want a list`},
		{"schema_rules: [{pattern: a, promoted: [[x]]}]", "field schema_rules[0].promoted[0]: this is a list, want a text"},
		{"schema_rules: {pattern: a}", "line 1, column 15, field schema_rules: this is a mapping, want a list"},
		{"schema_rules:", "field schema_rules: the value is missing, want a list"},
		{"schema_rules: [a]", `field schema_rules[0]: this is "a", want a mapping with pattern, `},
		{"schema_rules: [{pattern: }]", "field schema_rules[0].pattern: the value is missing, want a text"},
		{"schema_rules: [{pattern: a, pattern: b}]", "line 1, column 29, field schema_rules[0].pattern: the key appears twice"},
		{"schema_rules: [{pattern: a, [x]: b}]", "line 1, column 29, field schema_rules[0].?: a key is not a string"},
		{"schema_rules: [{pattern: a, <<: {salts: 3}}]", "field schema_rules[0].<<: unknown key"},
		{"retention_rules: [{pattern: a, raw: 5h}]", "line 1, column 37, field retention_rules[0].raw: 5h is shorter than 1d"},
		{"retention_rules: [{pattern: a, raw: soon}]", "line 1, column 37, field retention_rules[0].raw: "},
		{"retention_rules: [{pattern: a, raw: 10d, hours: 5d}]",
			"line 1, column 49, field retention_rules[0].hours: retention.hours is 5d, shorter than retention.raw, which is 10d"},
		{"retention_rules: [{pattern: a, hours: 0, days: 5d}]", "field retention_rules[0].days: retention.days is 5d, shorter"},
		{"retention_rules: [{pattern: a, raw: 10d, days: 5d}]", "field retention_rules[0].days: retention.days is 5d, shorter"},
		{"retention_rules: [{pattern: a, raw: 10d, histograms: 11d}]", "field retention_rules[0].histograms: 11d is longer than raw"},
		{"retention_rules: [{pattern: a}]", "field retention_rules[0]: the rule needs at least one of raw, hours, days and histograms"},
		{"retention_rules: [{pattern: a, raw: 0}, {pattern: a, raw: 0}]", `field retention_rules[1].pattern: "a" has two rules`},
		{"limits: {series_per_metric: [{pattern: a}]}", "field limits.series_per_metric[0]: max is missing"},
		{"limits: {series_per_metric: [{pattern: a, max: -1}]}", "field limits.series_per_metric[0].max: -1 is negative"},
		{"limits: {series_per_metric: [{pattern: a, max: 1, warn: -1}]}", "field limits.series_per_metric[0].warn: -1 is negative"},
		{"limits: {series_per_metric: [{pattern: a, max: 1, warn: .nan}]}", `this is ".nan", want a number`},
		{"limits: {series_per_metric: [{pattern: a, max: 1, enforce: maybe}]}", "want true or false"},
		{"limits: {series_per_metric: [{pattern: a, max: 1}, {pattern: a, max: 1}]}", `"a" has two limits`},
		{"limits: {samples_per_second: 5}", "field limits.samples_per_second: this is \"5\", want a mapping with max, warn, enforce"},
		{"limits: {samples_per_second: {warn: 5}}", "field limits.samples_per_second: max is missing"},
		{"limits: {series: {max: -5}}", "line 1, column 24, field limits.series.max: -5 is negative"},
		{"limits: {query_concurrency: {max: 5, warn: -1}}", "field limits.query_concurrency.warn: -1 is negative"},
		{"limits: {query_time: {max: 5}}", "line 1, column 28, field limits.query_time.max: "},
		{"limits: {query_bytes: {max: 5TB}}", `field limits.query_bytes.max: "5TB" is not a size such as 64MiB`},
		{"limits: {query_bytes: {max: 9999999999GiB}}", `is not a size such as 64MiB`},
		{"query_rules: [{}]", "field query_rules[0].id: the id is empty"},
		{"query_rules: [{}]", "field query_rules[0]: the rule has 0 of the fields query, regexp and fingerprint, want one"},
		{"query_rules: [{}]", "field query_rules[0].action: the action is missing"},
		{"query_rules: [{}]", "field query_rules[0].reason: the reason is missing"},
		{"query_rules: [{regexp: (}]", "line 1, column 24, field query_rules[0].regexp: error parsing regexp"},
		{"query_rules:\n- {id: a,\n   query: 'sum('}",
			"line 3, column 11, field query_rules[0].query: it is not an expression of PromQL: 1:5: parse error: unclosed left paren"},
		{"query_rules: [{query: a, regexp: b}]", "the rule has 2 of the fields query, regexp and fingerprint"},
		{"query_rules: [{fingerprint: 0123456789ABCDEF}]", "is not a fingerprint: want 16 hexadecimal digits"},
		{"query_rules: [{action: drop}]", `field query_rules[0].action: "drop" is not an action: want refuse or slow_lane`},
		{"query_rules: [{id: a}, {id: a}]", `field query_rules[1].id: "a" has two rules`},
		{"- a", "line 1, column 1: this is a list, want a mapping with global, "},
		{"a: b: c", "line 1: mapping values are not allowed"},
		{"schema_rules:\n  - pattern: a\n   salts: 3", "line 1: did not find expected"},
		{"schema_rules: []\n---\n{}", "line 2, column 1: the file has more than one YAML document"},
		{"schema_rules: *x", "unknown anchor"},
		{"schema_rules: &x [*x]", "field schema_rules[0]: this is a list, want a mapping"},
		{strings.Repeat("#", BytesMax+1), ErrBytes.Error()},
	}
}

// tenantFaults are sources of tenants with faults.
func tenantFaults() []struct{ src, want string } {
	return []struct{ src, want string }{
		{"tenants: [{name: a&b}]", "field tenants[0].name: bad name of a tenant"},
		{"tenants: [{name: a}, {name: a}]", `field tenants[1].name: "a" has two entries`},
		{"tenants: [{name: '*', series: {max: -1}}]", "line 1, column 37, field tenants[0].series.max: -1 is negative"},
		{"tenants: [{name: a, query_time: {}}]", "field tenants[0].query_time: max is missing"},
		{"tenants: [{name: a, retention: 3d}]", "field tenants[0].retention"},
		{
			"tenants: [{name: a, retention: {}}]",
			"field tenants[0].retention: the rule needs at least one of raw, hours, days and histograms",
		},
		{"tenants: [{name: a, retention: {raw: 1h}}]", "field tenants[0].retention.raw: 1h is shorter"},
		{"tenants: [{name: '*', retention: {raw: 3d}}]", `field tenants[0].retention: "*" cannot have rules of its own`},
		{"tenants: [{name: default, retention: {raw: 3d}}]", `field tenants[0].retention: "default" cannot have rules`},
		{"{tenants: [{name: a, retention: {raw: 3d}}], retention_rules: [{pattern: \"&a&*\", raw: 2d}]}",
			`field tenants[0].retention.pattern: "&a&*" has two rules`},
		{"tenants: [{name: default, series_per_metric: [{pattern: x, max: 1}]}]", "limits.series_per_metric is for all tenants"},
		{"tenants: [{name: a, series_per_metric: [{pattern: \"&b&x\", max: 1}]}]", "begins with the name of a tenant"},
		{"tenants: [{name: a, series_per_metric: [{pattern: x, max: 1}, {pattern: x, max: 1}]}]", `"x" has two limits`},
		{"{tenants: [{name: a, series_per_metric: [{pattern: x, max: 1}]}], limits: {series_per_metric: " +
			"[{pattern: \"&a&x\", max: 1}]}}", `field tenants[0].series_per_metric[0].pattern: "x" has two limits`},
	}
}

// writeFaults are faults of the sections about writes.
func writeFaults() []struct{ src, want string } {
	return []struct{ src, want string }{
		{"relabel_configs: [{regex: (}]", "line 1, column 27, field relabel_configs[0].regex: error parsing regexp"},
		{"relabel_configs: [{action: forget}]", `field relabel_configs[0].action: unknown relabel action "forget"`},
		{"relabel_configs: [{source_labels: [a]}]", "field relabel_configs[0]: relabel configuration for replace action requires"},
		{"relabel_configs: [{source_labels: ['']}]", `field relabel_configs[0].source_labels: "" is not a label name`},
		{"relabel_configs: [{modulus: -1}]", "field relabel_configs[0].modulus: -1 is negative"},
		{"relabel_configs: [{action: labeldrop, target_label: a}]", "requires only 'regex'"},
		{"influx: {db_label: __name__}", `field influx.db_label: "__name__" is not the name of a label`},
		{"influx: {separator: " + strings.Repeat("_", 65) + "}", `…" has more than 64 bytes`},
		{"influx: {skip_single_field: true, skip_measurement: true}", "field influx.skip_measurement: it cannot be combined"},
		{"otlp: {max_attributes: 4097}", "field otlp.max_attributes: 4097 is outside 0..4096"},
		{"otlp: {delta: keep}", `field otlp.delta: "keep" is neither drop nor store`},
		{"otlp: {translation_strategy: x}", `field otlp.translation_strategy: "x" is none of`},
		{"otlp: {promote_resource_attributes: [a, a]}", `field otlp: invalid 'promote_resource_attributes': duplicated promoted`},
		{"otlp: {ignore_resource_attributes: [a]}", "field otlp: 'ignore_resource_attributes' cannot be configured"},
		{"ha: {cluster_label: a}", "field ha.replica_label: the label is missing"},
		{"ha: {cluster_label: a, replica_label: a}", "field ha.replica_label: it is the same as cluster_label"},
		{"ha: {cluster_label: __name__, replica_label: a}", "field ha.cluster_label: the metric name cannot be a label"},
		{"ha: {cluster_label: a, replica_label: b, failover: 10ms}", "field ha.failover: 10ms is shorter than 1s"},
		{"ha: {cluster_label: a, replica_label: b, max_clusters: 0}", "field ha.max_clusters: 0 is not above 0"},
	}
}

// alertFaults are faults of the sections about rules and alerts.
func alertFaults() []struct{ src, want string } {
	return []struct{ src, want string }{
		{"global: {evaluation_interval: 0s}", "line 1, column 31, field global.evaluation_interval: it must be above 0"},
		{"global: {evaluation_interval: 1}", "field global.evaluation_interval: not a valid duration string"},
		{
			`global: {external_labels: {a: "x${HALITE_TEST_UNSET}"}}`,
			`field global.external_labels.a: environment variable "HALITE_TEST_UNSET" is not set; write $$ for a dollar`,
		},
		{"global: {scrape_interval: 0s}", "field global.scrape_interval: it must be above 0"},
		{"global: {scrape_timeout: 1m}", "field global.scrape_timeout: unknown key; known are evaluation_interval"},
		{"global:\n  external_labels:\n    __name__: a", `line 3, column 15, field global.external_labels.__name__: "__name__" is no`},
		{"global: {external_labels: {a: b, a: c}}", "line 1, column 34, field global.external_labels.a: the key appears twice"},
		{"global: {external_labels: {a: [b]}}", "field global.external_labels.a: this is a list, want a text"},
		{"global: {external_labels: a}", `field global.external_labels: this is "a", want a mapping of texts`},
		{"global: {external_labels: {[a]: b}}", "field global.external_labels.: a key is not a string"},
		{"rule_files: [a, '[']", `line 1, column 17, field rule_files[1]: "[" is not a pattern of files`},
		{"rule_files: a", "field rule_files: this is"},
		{"alerting: {alertmanagers: [{}]}", "field alerting.alertmanagers[0]: no Alertmanager is named; want static_configs"},
		{"alerting: {alertmanagers: [{scheme: ftp}]}", `field alerting.alertmanagers[0].scheme: "ftp" is neither http nor https`},
		{"alerting: {alertmanagers: [{timeout: 0s}]}", "field alerting.alertmanagers[0].timeout: it must be above 0"},
		{"alerting: {alertmanagers: [{basic_auth: {password: x}}]}", "alerting.alertmanagers[0].basic_auth.password: unknown key"},
		{"alerting: {alertmanagers: [{ec2_sd_configs: []}]}", "field alerting.alertmanagers[0].ec2_sd_configs: unknown key"},
		{
			"alerting: {alertmanagers: [{static_configs: [{targets: ['http://a']}]}]}",
			`line 1, column 28, field alerting.alertmanagers[0]: "http://a" is not a valid hostname`,
		},
		{
			"alerting: {alertmanagers: [{api_version: v1, static_configs: [{targets: [a]}]}]}",
			"field alerting.alertmanagers[0]: expected Alertmanager api version to be one of [v2] but got v1",
		},
		{
			"alerting: {alertmanagers: [{http_sd_configs: [{url: 'a b'}]}]}",
			"field alerting.alertmanagers[0]: URL scheme must be 'http' or 'https'",
		},
		{"alerting: {alert_relabel_configs: [{regex: (}]}", "field alerting.alert_relabel_configs[0].regex: error parsing regexp"},
		{
			"alerting: {alertmanagers: [{relabel_configs: [{action: x}], static_configs: [{targets: [a]}]}]}",
			`field alerting.alertmanagers[0].relabel_configs[0].action: unknown relabel action "x"`,
		},
	}
}

// TestAlerting: the configuration becomes Prometheus's, with its defaults. Paths of files begin at the directory of the
// configuration.
func TestAlerting(t *testing.T) {
	t.Setenv("HALITE_TEST_A", "1")
	t.Setenv("HALITE_TEST_EMPTY", "")
	c, err := Parse("f", []byte(`
global:
  evaluation_interval: 15s
  rule_query_offset: 1m
  external_labels: {cluster: "a-$HALITE_TEST_A${HALITE_TEST_EMPTY}", zone: b, cost: 5$$, none: "$HALITE_TEST_EMPTY"}
rule_files: [rules/*.yml, /etc/rules.yml]
alerting:
  alert_relabel_configs: [{regex: replica, action: labeldrop}]
  alertmanagers:
  - scheme: https
    path_prefix: /am
    timeout: 3s
    static_configs: [{targets: ["a:1", "b:1"], labels: {x: y}}]
    file_sd_configs: [{files: [am/*.json], refresh_interval: 1m}]
    dns_sd_configs: [{names: [_am._tcp.example.org]}, {names: [am.example.org], type: A, port: 9093}]
    http_sd_configs: [{url: "http://sd", basic_auth: {username: u, password_file: p}}]
    relabel_configs: [{source_labels: [x], regex: z, action: drop}]
    authorization: {credentials_file: token}
    tls_config: {ca_file: ca.pem, server_name: am}
`))
	require.NoError(t, err)
	require.Equal(t, 15*time.Second, c.Global.Interval())
	require.Equal(t, time.Minute, c.Global.QueryOffset())
	require.Equal(t, time.Minute, (*Global)(nil).Interval())
	require.Equal(t, []string{"/etc/halite/rules/*.yml", "/etc/rules.yml"}, c.RulePatterns("/etc/halite"))
	theirs, err := c.AlertingConfig("/etc/halite")
	require.NoError(t, err)
	require.Equal(t, `{cluster="a-1", cost="5$", none="", zone="b"}`, theirs.GlobalConfig.ExternalLabels.String())
	require.Len(t, theirs.AlertingConfig.AlertRelabelConfigs, 1)
	am := theirs.AlertingConfig.AlertmanagerConfigs[0]
	require.Equal(t, "https", am.Scheme)
	require.Equal(t, 3*time.Second, time.Duration(am.Timeout))
	require.Equal(t, "v2", string(am.APIVersion))
	require.Len(t, am.ServiceDiscoveryConfigs, 5)
	require.Equal(t, "/etc/halite/token", am.HTTPClientConfig.Authorization.CredentialsFile)
	require.Equal(t, "/etc/halite/ca.pem", am.HTTPClientConfig.TLSConfig.CAFile)
	require.True(t, am.HTTPClientConfig.FollowRedirects, "Prometheus's default")
	again, err := Parse("text", []byte(c.Text()))
	require.NoError(t, err, c.Text())
	require.Equal(t, c, again)
}

// TestFaults: each fault names file, line, column and field.
func TestFaults(t *testing.T) {
	for _, c := range slices.Concat(faults(), tenantFaults(), writeFaults(), alertFaults()) {
		_, err := Parse("halite.yml", []byte(c.src))
		require.ErrorContains(t, err, c.want, c.src)
		require.ErrorContains(t, err, "halite.yml: ", c.src)
	}
	_, err := Parse("f", []byte("schema_rules: [{pattern: a, salts: 0}, {pattern: '', salts: 1}]\nlimits: {}\n"))
	require.ErrorContains(t, err, "field schema_rules[0].salts")
	require.ErrorContains(t, err, "field schema_rules[1].pattern", "all faults are listed")
	_, err = Parse("f", []byte("limits: {series: {max: x}}\nquery_rules: [{id: 'a', action: drop}, {id: a}]\nschema_rule: []\n"))
	require.ErrorContains(t, err, "field limits.series.max", "a value of another type")
	require.ErrorContains(t, err, "field query_rules[0].action")
	require.ErrorContains(t, err, "field query_rules[1].reason", "faults of other entries are listed too")
	require.ErrorContains(t, err, "field schema_rule: unknown key")
	require.NotContains(t, err.Error(), "query_rules[0].reason")
	_, err = Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestAliases: an alias counts as often as it is used, so a short file cannot become a long configuration.
func TestAliases(t *testing.T) {
	c, err := Parse("f", []byte("schema_rules: [{pattern: a, promoted: &p [x, y]}, {pattern: b, promoted: *p}]"))
	require.NoError(t, err)
	require.Equal(t, []string{"x", "y"}, c.SchemaRules[1].Promoted)
	bomb := "schema_rules: [{pattern: a, promoted: &p [" + strings.Repeat("x,", 1000) + "]}" +
		strings.Repeat(", {pattern: b, promoted: *p}", 1000) + "]"
	_, err = Parse("f", []byte(bomb))
	require.ErrorIs(t, err, ErrNodes)
	var fault *Fault
	require.True(t, errors.As(err, &fault))
	require.Equal(t, 1, fault.Line)
}

// TestLimits: limits and query rules become the types of the packages that apply them.
func TestLimits(t *testing.T) {
	c, err := Parse("f", []byte(`
limits:
  samples_per_second: {max: 100, warn: 80, enforce: false}
  query_time: {max: 1m30s, warn: 20}
  query_bytes: {max: 64MB}
tenants:
- {name: acme, samples_per_second: {max: 7, enforce: false}, query_time: {max: 2s}, retention: {raw: 3d},
  series_per_metric: [{pattern: x*, max: 9}]}
- {name: "*", series: {max: 3}}
query_rules: [{id: a, regexp: x.*, action: slow_lane, reason: b}, {id: t, token: x, action: refuse, reason: c}]
`))
	require.NoError(t, err)
	require.Equal(t, ingest.Limit{Max: 100, Warn: 80, DryRun: true}, c.SamplesPerSecond())
	require.Nil(t, c.Series())
	q := c.Queries()
	require.Equal(t, limits.Limit{Max: 90_000, Warn: 20_000}, q.TimeMs)
	require.Equal(t, limits.Limit{Max: 64 << 20}, q.Bytes)
	require.Zero(t, q.Concurrency)
	require.Len(t, q.Rules, 2)
	require.Equal(t, limits.Rule{ID: "t", Token: "x", Action: limits.Refuse, Reason: "c"}, q.Rules[1])
	require.Equal(t, map[string]*limits.Options{"acme": {TimeMs: limits.Limit{Max: 2000}}, "*": {}}, q.Tenants)
	require.Equal(t, map[string]ingest.TenantLimits{
		"acme": {SamplesPerSecond: ingest.Limit{Max: 7, DryRun: true}}, "*": {Series: ingest.Limit{Max: 3}},
	}, c.TenantWrites())
	age, most := keyschema.Age(72*time.Hour), 9
	require.Equal(t, []keyschema.Rule{
		{Pattern: "&acme&*", Retention: &keyschema.RuleRetention{Raw: &age}}, {Pattern: "&acme&x*", MaxSeries: &most},
	}, c.Rules())
	require.Equal(t, limits.SlowLane, q.Rules[0].Action)
	require.True(t, q.Rules[0].Regexp.MatchString("xyz\n"))
	require.False(t, q.Rules[0].Regexp.MatchString("axyz"), "the whole text matches")
}

func TestEmptyFiles(t *testing.T) {
	for _, src := range []string{"", "# nothing\n", "---\n", "null", "{}", "limits: {}"} {
		c, err := Parse("f", []byte(src))
		require.NoError(t, err, src)
		require.Empty(t, c.Rules())
		require.Empty(t, c.Text())
	}
}

// TestExample: the example of docs/configuration.md is complete, and says what this test expects.
func TestExample(t *testing.T) {
	doc, err := os.ReadFile("../../../../docs/configuration.md")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(doc), "```yaml\n")
	require.True(t, ok)
	example, _, ok = strings.Cut(example, "```\n")
	require.True(t, ok)
	c, err := Parse("docs/configuration.md", []byte(example))
	require.NoError(t, err)
	for _, section := range names(reflect.TypeFor[Config]()) {
		require.Contains(t, example, "\n"+section+":", "the example shows each section")
	}
	for _, limit := range names(reflect.TypeFor[Limits]()) {
		require.Contains(t, example, "\n  "+limit+":", "the example shows each limit")
	}
	again, err := Parse("text", []byte(c.Text()))
	require.NoError(t, err, c.Text())
	require.Equal(t, c, again)
	_, err = keyschema.NewSchema(keyschema.DefaultSchema().Begin(c.Rules(), 500_000))
	require.NoError(t, err)
}

// FuzzParse: a document is a configuration, whose text is the same configuration, or an error with a place.
func FuzzParse(f *testing.F) {
	doc, err := os.ReadFile("../../../../docs/configuration.md")
	require.NoError(f, err)
	_, example, _ := strings.Cut(string(doc), "```yaml\n")
	example, _, _ = strings.Cut(example, "```\n")
	f.Add([]byte(example))
	for _, src := range []string{
		"", "a: b: c", "schema_rules: &x [*x]", "schema_rules: [{pattern: a, <<: {salts: 3}}]", "- ? [", "%YAML 1.1",
		"schema_rules: [{pattern: \"\\u0000\", salts: 0x10, from_hour: 1_000}]", "retention_rules: [{pattern: a, raw: 0}]",
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := Parse("f", src)
		if err != nil {
			require.Contains(t, err.Error(), "f: ")
			return
		}
		again, err := Parse("text", []byte(c.Text()))
		require.NoError(t, err, c.Text())
		require.Equal(t, c.Text(), again.Text())
		_, err = keyschema.NewSchema(keyschema.DefaultSchema().Begin(c.Rules(), 500_000))
		require.NoError(t, err, c.Text())
	})
}

// TestNameAliases reads aliases, and names what is wrong with them.
func TestNameAliases(t *testing.T) {
	c, err := Parse("f", []byte("aliases:\n- {kind: label_name, old: host, new: instance, from: 2026-01-31T15:00:00Z}\n"))
	require.NoError(t, err)
	require.Equal(t, []aliases.Alias{
		{Kind: aliases.LabelName, Old: "host", New: "instance", FromMs: 1769871600000},
	}, c.QueryAliases())
	_, err = Parse("f", []byte("aliases:\n- {kind: tag, old: a, new: a}\n- {kind: metric, old: a, new: b, from: now}\n"))
	require.ErrorContains(t, err, `line 2`)
	require.ErrorContains(t, err, `kind "tag" is unknown`)
	require.ErrorContains(t, err, `field aliases[1].from: "now" is not a time`)
	_, err = Parse("f", []byte("aliases:\n- {kind: metric, old: a, new: b}\n- {kind: metric, old: b, new: a}\n"))
	require.ErrorIs(t, err, aliases.ErrLoop)
}

// TestFixesOfSenders: the lines that the server shows a sender are valid at the place that it names.
func TestFixesOfSenders(t *testing.T) {
	const file = "the file of --config.file"
	inFile := 0
	for _, reason := range ingest.Reasons() {
		fix := senders.FixOf(reason, senders.ProtocolV2)
		section, ok := strings.CutPrefix(fix.Where, file)
		if !ok {
			continue
		}
		inFile++
		text := fix.Line
		if section = strings.TrimPrefix(section, ", below "); section != "" {
			text = section + ":\n  " + text
		}
		_, err := Parse("f", []byte(text))
		require.NoError(t, err, reason)
	}
	require.Equal(t, 2, inFile)
}
