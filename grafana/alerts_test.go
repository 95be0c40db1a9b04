package grafana_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"
)

// healthy are the metrics of a server about which no alert fires.
const healthy = `
	up{job="halite",instance="a"} 1x120
	process_start_time_seconds{job="halite",instance="a"} 5x120
	tsdb_config_last_reload_successful{job="halite",instance="a"} 1x120
	tsdb_ingest_refusing_for_space{job="halite",instance="a"} 0x120
	tsdb_pebble_writable{job="halite",instance="a"} 1x120
	tsdb_wal_commit_age_seconds{job="halite",instance="a"} 0 0.2 0 0.1x117
	tsdb_ingest_overload_total{job="halite",instance="a",resource="disk"} 7x120
	tsdb_ingest_rejected_total{job="halite",instance="a",reason="too_old"} 7x120
	tsdb_ingest_series_limit_warnings{job="halite",instance="a",kind="metric"} 0x120
	tsdb_ingest_flush_failures_total{job="halite",instance="a"} 3x120
	tsdb_ingest_checkpoint_failures_total{job="halite",instance="a"} 3x120
	tsdb_pebble_corruptions_total{job="halite",instance="a"} 0x120
	tsdb_rollup_corrupt_cells_total{job="halite",instance="a"} 0x120
	tsdb_index_damaged_day_segments{job="halite",instance="a"} 0x120
	tsdb_table_wide_rows_total{job="halite",instance="a"} 2x120
	tsdb_rollup_failures_total{job="halite",instance="a"} 1x120
	tsdb_retention_failures_total{job="halite",instance="a"} 1x120
	tsdb_index_compaction_failures_total{job="halite",instance="a"} 1x120
	tsdb_pebble_background_errors_total{job="halite",instance="a"} 1x120
	tsdb_query_errors_total{job="halite",instance="a",type="internal"} 0+1x120
	tsdb_query_errors_total{job="halite",instance="a",type="bad_data"} 0+600x120
	tsdb_query_memory_bytes{job="halite",instance="a"} 10x120
	tsdb_query_memory_bytes_max{job="halite",instance="a"} 100x120
	prometheus_rule_evaluation_failures_total{job="halite",instance="a",rule_group="g"} 3x120
	prometheus_rule_group_iterations_missed_total{job="halite",instance="a",rule_group="g"} 3x120
	prometheus_notifications_errors_total{job="halite",instance="a",alertmanager="m"} 3x120
	prometheus_notifications_dropped_total{job="halite",instance="a",alertmanager="m"} 3x120
`

// firing evaluates the alerts each minute for the given time over series with a sample each minute. It returns the labels
// of the alerts that fire at the end.
func firing(t *testing.T, series string, minutes int) (out []string) {
	storage := promqltest.LoadedStorage(t, "load 1m"+series)
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, storage), Appendable: storage, Queryable: storage, Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := m.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, "alerts.yml")
	require.Empty(t, errs)
	for _, g := range groups {
		for minute := range minutes + 1 {
			g.Eval(t.Context(), time.Unix(int64(60*minute), 0))
		}
		for _, rule := range g.AlertingRules() {
			require.NoError(t, rule.LastError(), rule.Name())
			for _, a := range rule.ActiveAlerts() {
				if a.State == rules.StateFiring {
					require.NotContains(t, a.Annotations.String(), "error expanding")
					out = append(out, a.Labels.String())
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// fault is a metric of a faulty server, with its alert and the minute from which the alert fires.
type fault struct {
	metric, values, alert string
	minute                int
}

func faults() []fault {
	return []fault{
		{`up{job="halite",instance="a"}`, "0x120", "HaliteDown", 2},
		{`process_start_time_seconds{job="halite",instance="a"}`, "1 2 3 4 5 6x115", "HaliteRestarts", 3},
		{`tsdb_config_last_reload_successful{job="halite",instance="a"}`, "0x120", "HaliteReloadFailed", 5},
		{`tsdb_ingest_refusing_for_space{job="halite",instance="a"}`, "1x120", "HaliteRefusesWritesForSpace", 1},
		{`tsdb_pebble_writable{job="halite",instance="a"}`, "0x120", "HaliteStoreNotWritable", 1},
		{`tsdb_wal_commit_age_seconds{job="halite",instance="a"}`, "11+60x120", "HaliteLogStalls", 1},
		{`tsdb_ingest_overload_total{job="halite",instance="a",resource="disk"}`, "0+2x120", "HaliteOverloaded", 11},
		{`tsdb_ingest_rejected_total{job="halite",instance="a",reason="too_old"}`, "0+2x120", "HaliteRejectsSamples", 16},
		{`tsdb_ingest_series_limit_warnings{job="halite",instance="a",kind="metric"}`, "1x120", "HaliteSeriesNearLimit", 10},
		{`tsdb_ingest_flush_failures_total{job="halite",instance="a"}`, "0+1x120", "HaliteFlushFails", 6},
		{`tsdb_ingest_checkpoint_failures_total{job="halite",instance="a"}`, "0+1x120", "HaliteFlushFails", 6},
		{`tsdb_pebble_corruptions_total{job="halite",instance="a"}`, "0 1x119", "HaliteDataDamaged", 1},
		{`tsdb_rollup_corrupt_cells_total{job="halite",instance="a"}`, "0 1x119", "HaliteDataDamaged", 1},
		{`tsdb_index_damaged_day_segments{job="halite",instance="a"}`, "1x120", "HaliteDataDamaged", 0},
		{`tsdb_table_wide_rows_total{job="halite",instance="a"}`, "0 1x119", "HaliteWideRows", 1},
		{`tsdb_rollup_failures_total{job="halite",instance="a"}`, "0+1x120", "HaliteBackgroundJobFails", 61},
		{`tsdb_retention_failures_total{job="halite",instance="a"}`, "0+1x120", "HaliteBackgroundJobFails", 61},
		{`tsdb_index_compaction_failures_total{job="halite",instance="a"}`, "0+1x120", "HaliteBackgroundJobFails", 61},
		{`tsdb_pebble_background_errors_total{job="halite",instance="a"}`, "0+1x120", "HaliteBackgroundJobFails", 61},
		{`tsdb_query_errors_total{job="halite",instance="a",type="internal"}`, "0+60x120", "HaliteQueriesFail", 11},
		{`tsdb_query_memory_bytes{job="halite",instance="a"}`, "95x120", "HaliteQueryMemoryFull", 10},
		{`prometheus_rule_evaluation_failures_total{job="halite",instance="a",rule_group="g"}`, "0+1x120", "HaliteRulesFail", 6},
		{`prometheus_rule_group_iterations_missed_total{job="halite",instance="a",rule_group="g"}`, "0+1x120", "HaliteRulesLate", 6},
		{`prometheus_notifications_errors_total{job="halite",instance="a",alertmanager="m"}`, "0+1x120", "HaliteAlertsNotSent", 6},
		{`prometheus_notifications_dropped_total{job="halite",instance="a",alertmanager="m"}`, "0+1x120", "HaliteAlertsNotSent", 6},
	}
}

// TestAlerts: nothing fires about a healthy server. Each fault fires its alert alone, with instance and severity, and not before
// its time.
func TestAlerts(t *testing.T) {
	require.Empty(t, firing(t, healthy, 70))
	covered := make(map[string]bool)
	for _, f := range faults() {
		var series []string
		for line := range strings.Lines(healthy) {
			if strings.HasPrefix(strings.TrimSpace(line), f.metric) {
				line = "\t" + f.metric + " " + f.values + "\n"
			}
			series = append(series, line)
		}
		require.Contains(t, series, "\t"+f.metric+" "+f.values+"\n")
		text := strings.Join(series, "")
		got := firing(t, text, f.minute)
		require.Len(t, got, 1, "%s: %s", f.metric, got)
		for _, want := range []string{`alertname="` + f.alert + `"`, `instance="a"`, `severity="`} {
			require.Contains(t, got[0], want)
		}
		if f.minute > 0 {
			require.Empty(t, firing(t, text, f.minute-1), "%s: too early", f.metric)
		}
		covered[f.alert] = true
	}
	for _, name := range alertNames(t) {
		require.True(t, covered[name], "no test makes %s fire", name)
	}
}

// alertNames returns the names of the alerts in the file. Each alert must have a summary and a description.
func alertNames(t *testing.T) (out []string) {
	groups, errs := rulefmt.ParseFile("alerts.yml", false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	for _, g := range groups.Groups {
		for i := range g.Rules {
			r := &g.Rules[i]
			require.NotEmpty(t, r.Annotations["summary"], r.Alert)
			require.NotEmpty(t, r.Annotations["description"], r.Alert)
			out = append(out, r.Alert)
		}
	}
	return out
}
