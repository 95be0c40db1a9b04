package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/api/auth"
	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/storage"
	"halite/storage/aliases"
)

const (
	growSeries = 60
	growStep   = 15 * time.Second
	// growRules is the layout before the change. growLater is added to it, from the hour that the test fills in.
	growRules = `schema_rules: [{pattern: hot_*, from_hour: 0, salts: 2}]`
	growLater = `
schema_rules:
  - {pattern: hot_*, from_hour: 0, salts: 2}
  - {pattern: hot_*, from_hour: %d, salts: 32, promoted: [route], basis: promoted}
`
)

// growing is a database under load. The load moves its clock.
type growing struct {
	t      *testing.T
	config *serveConfig
	db     *database
	rules  *reloader
	nowMs  atomic.Int64

	labels  []labels.Labels
	mu      sync.Mutex
	written map[string]map[int64]float64 // by series, the acknowledged samples
}

// openGrowing opens a database in dir at a time, with flags.
func openGrowing(t *testing.T, dir string, at time.Time, flags ...string) *growing {
	g := &growing{t: t, written: make(map[string]map[int64]float64)}
	g.nowMs.Store(at.UnixMilli())
	for i := range growSeries {
		g.labels = append(g.labels, labels.FromStrings("__name__", "hot_total", "route", fmt.Sprint(i%7), "vehicle", fmt.Sprint(i)))
	}
	app := kingpin.New("tsdb", "")
	g.config = addServeFlags(app.Command("serve", ""))
	g.config.now = func() time.Time { return time.UnixMilli(g.nowMs.Load()) }
	flags = append([]string{"serve", "--storage.path", dir, "--config.file", filepath.Join(dir, "halite.yml")}, flags...)
	_, err := app.Parse(flags)
	require.NoError(t, err)
	g.open()
	return g
}

func (g *growing) open() {
	registry := prometheus.NewRegistry()
	require.NoError(g.t, g.config.checkRuleFiles())
	var err error
	g.db, err = openDatabase(context.Background(), g.config, slog.New(slog.DiscardHandler), registry)
	require.NoError(g.t, err)
	g.config.web.auth, err = auth.New(auth.Options{})
	require.NoError(g.t, err)
	require.NoError(g.t, g.db.openRuleManager(g.config, "http://localhost", registry, slog.New(slog.DiscardHandler)))
	g.rules = newReloader(g.config, g.db, registry)
}

func (g *growing) putRules(format string, args ...any) {
	require.NoError(g.t, os.WriteFile(g.config.configFile, fmt.Appendf(nil, format, args...), 0o600))
}

// write moves the clock by a step and writes a sample to every series, and every tenth time one of two hours ago.
func (g *growing) write(step int) error {
	nowMs := g.nowMs.Add(growStep.Milliseconds())
	var batch []ingest.Sample
	for i, ls := range g.labels {
		batch = append(batch, ingest.Sample{Labels: ls, TsMs: nowMs, Value: float64(step*1000 + i)})
		if (step+i)%10 == 0 {
			batch = append(batch, ingest.Sample{Labels: ls, TsMs: nowMs - 2*keyschema.HourMs + 7, Value: -float64(step + i)})
		}
	}
	result, err := g.db.ingester.Write(context.Background(), ingest.SamplesInput(batch))
	if err != nil || result.Rejected > 0 {
		return fmt.Errorf("write: %w, %d rejected: %s", err, result.Rejected, result.First)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range batch {
		key := s.Labels.String()
		if g.written[key] == nil {
			g.written[key] = make(map[int64]float64)
		}
		g.written[key][s.TsMs] = s.Value
	}
	return nil
}

// runQuery evaluates an expression now.
func (g *growing) runQuery(expr string) (*query.Result, error) {
	return g.db.engine.Instant(context.Background(), query.InstantRequest{Query: expr, TimeMs: g.nowMs.Load()})
}

// compare demands that every series has exactly the acknowledged samples.
func (g *growing) compare() {
	g.t.Helper()
	result, err := g.runQuery("hot_total[6h]")
	require.NoError(g.t, err)
	defer result.Close()
	matrix := result.Value.(promql.Matrix)
	require.Len(g.t, matrix, growSeries)
	for _, s := range matrix {
		want := g.written[s.Metric.String()]
		require.Len(g.t, s.Floats, len(want), s.Metric.String())
		for _, p := range s.Floats {
			require.Equal(g.t, want[p.T], p.F, "%s at %d", s.Metric, p.T)
		}
	}
}

// salts counts, hour by hour, the salts that rows of the data table have, and the series of each route's salts.
func (g *growing) salts() (byHour map[int64]map[int]bool, byRoute map[string]map[int]bool, boundary int64) {
	boundary = keyschema.HourOf(g.nowMs.Load())
	byHour, byRoute = make(map[int64]map[int]bool), make(map[string]map[int]bool)
	table, err := g.db.store.Table(context.Background(), storage.TableData)
	require.NoError(g.t, err)
	it := table.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	defer it.Close()
	for it.Next() {
		key, err := keyschema.ParseRowKey(it.Row().Key)
		require.NoError(g.t, err)
		if byHour[key.Hour] == nil {
			byHour[key.Hour] = make(map[int]bool)
		}
		byHour[key.Hour][key.Salt] = true
		if key.Hour == boundary {
			route := key.Tags[0].Value
			if byRoute[route] == nil {
				byRoute[route] = make(map[int]bool)
			}
			byRoute[route][key.Salt] = true
		}
	}
	require.NoError(g.t, it.Err())
	return byHour, byRoute, boundary
}

// flushUntil flushes again and again.
func (g *growing) flushUntil(ending <-chan struct{}) {
	for {
		select {
		case <-ending:
			return
		case <-time.After(40 * time.Millisecond):
			if err := g.db.ingester.Flush(context.Background()); err != nil {
				g.t.Error(err)
			}
		}
	}
}

// TestSaltsGrowUnderLoad gives a metric more salts and promotes a tag during writes, queries and flushes. It moves the
// clock past the first hour of the new layout. Nothing fails, and all series have their acknowledged samples.
func TestSaltsGrowUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "halite.yml"), []byte(growRules), 0o600))
	hour := keyschema.HourOf(time.Now().UnixMilli()) - 4
	g := openGrowing(t, dir, time.UnixMilli(keyschema.HourStartMs(hour)).Add(20*time.Minute))
	ending := make(chan struct{})
	var background sync.WaitGroup
	require.NoError(t, g.write(0))
	for _, expr := range []string{"count(hot_total)", `sum(count by (route) (rate(hot_total[5m]) or hot_total))`} {
		background.Go(func() {
			for queries := 0; ; queries++ {
				select {
				case <-ending:
					require.Positive(t, queries)
					return
				case <-time.After(5 * time.Millisecond):
				}
				result, err := g.runQuery(expr)
				if err != nil {
					t.Errorf("%s: %v", expr, err)
					return
				}
				if v := result.Value.(promql.Vector); len(v) != 1 || v[0].F != growSeries {
					t.Errorf("%s: %v", expr, v)
				}
				result.Close()
			}
		})
	}
	background.Go(func() { g.flushUntil(ending) })
	for step := 1; step <= 240; step++ { // an hour, from 20 past to 20 past
		if step == 60 { // :35
			g.putRules(growLater, hour+1)
			require.NoError(t, g.rules.Reload(t.Context()))
			require.Equal(t, 2, g.db.schema.RuleAt("hot_total", hour).Salts)
			require.Equal(t, 32, g.db.schema.RuleAt("hot_total", hour+1).Salts)
		}
		require.NoError(t, g.write(step))
		if step%40 == 0 {
			g.compare()
		}
	}
	close(ending)
	background.Wait()
	require.NoError(t, g.db.ingester.Flush(t.Context()))
	g.compare()
	byHour, byRoute, boundary := g.salts()
	require.Equal(t, hour+1, boundary)
	require.Len(t, byHour[hour], 2)
	require.Greater(t, len(byHour[boundary]), 2, "the new rule spreads rows over more salts")
	require.Len(t, byRoute, 7)
	for route, salts := range byRoute {
		require.Len(t, salts, 1, "vehicles of route %s share a salt", route)
	}
	require.NoError(t, g.db.close(t.Context()))
	g.config.configFile = "" // the store remembers
	g.open()
	g.compare()
	require.NoError(t, g.db.close(t.Context()))
}

// TestReloadRefuses checks that faulty rules leave the previous rules in force, and that the error names the fault.
func TestReloadRefuses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "halite.yml"), []byte(growRules), 0o600))
	hour := keyschema.HourOf(time.Now().UnixMilli()) - 4
	g := openGrowing(t, dir, time.UnixMilli(keyschema.HourStartMs(hour)).Add(52*time.Minute))
	defer func() { require.NoError(t, g.db.close(context.Background())) }()
	require.NoError(t, g.write(0))
	refused := func(want string) {
		t.Helper()
		require.ErrorContains(t, g.rules.Reload(t.Context()), want)
		ok, _ := g.rules.last()
		require.False(t, ok)
		require.Equal(t, 2, g.db.schema.RuleAt("hot_total", hour+2).Salts)
	}
	g.putRules(growLater, hour)
	refused("must start after hour")
	g.putRules("schema_rules: []")
	refused("is in force")
	g.putRules("[")
	refused("line 1")
	require.NoError(t, os.Remove(g.config.configFile))
	refused("no such file")
	g.nowMs.Add((90 * time.Second).Milliseconds())
	g.putRules(growLater, hour+1)
	refused("must start after hour") // samples may be ten minutes ahead
	g.putRules(growLater, hour+2)
	require.NoError(t, g.rules.Reload(t.Context()))
	ok, at := g.rules.last()
	require.True(t, ok)
	require.Equal(t, g.config.now(), at)
	require.Equal(t, 32, g.db.schema.RuleAt("hot_total", hour+2).Salts)

	// The clock goes back: rows of seemingly future hours got their keys long ago.
	late := []ingest.Sample{{Labels: g.labels[0], TsMs: g.nowMs.Load() + 599_000}}
	_, err := g.db.ingester.Write(t.Context(), ingest.SamplesInput(late))
	require.NoError(t, err)
	g.nowMs.Add(-(20 * time.Minute).Milliseconds())
	g.putRules(`schema_rules: [{pattern: hot_*, from_hour: 0, salts: 2}, {pattern: hot_*, from_hour: %d, salts: 8}]`, hour+1)
	require.ErrorContains(t, g.rules.Reload(t.Context()), `metric "hot_total" already has samples after hour`)
	g.config.configFile = ""
	require.NoError(t, g.rules.Reload(t.Context()), "without a file there is nothing to refuse")
}

// wholeConfig is a configuration whose parts have a name. alias is the new name of hot_total, and rules are more schema rules.
func wholeConfig(name, alias, rules string) string {
	return fmt.Sprintf(`
rule_files: [%[1]s.rules]
aliases: [{kind: metric, old: hot_total, new: %[2]s}]
relabel_configs: [{target_label: version, replacement: %[1]s}]
schema_rules: [{pattern: hot_*, from_hour: 0, salts: 2}, %[3]s]
`, name, alias, rules)
}

// TestReloadChangesSubqueries: the interval of rules is the step of subqueries, at the start and after a reload. Cached
// results of another step do not count.
func TestReloadChangesSubqueries(t *testing.T) {
	dir := t.TempDir()
	interval := func(is string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "halite.yml"), []byte("global: {"+is+"}"), 0o600))
	}
	interval("evaluation_interval: 15s")
	g := openGrowing(t, dir, time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	defer func() { require.NoError(t, g.db.close(context.Background())) }()
	require.NoError(t, g.write(0))
	count := func() float64 {
		result, err := g.db.engine.Instant(t.Context(), query.InstantRequest{
			Query: `count_over_time(hot_total{vehicle="1"}[2m:])`, TimeMs: g.nowMs.Load() + 105_000,
		})
		require.NoError(t, err)
		defer result.Close()
		return result.Value.(promql.Vector)[0].F
	}
	require.Equal(t, 8.0, count())
	interval("evaluation_interval: 30s")
	require.NoError(t, g.rules.Reload(t.Context()))
	require.Equal(t, 4.0, count())
	interval("external_labels: {a: b}")
	require.NoError(t, g.rules.Reload(t.Context()))
	require.Equal(t, 2.0, count(), "the default is a minute")
}

// TestReloadIsWhole: if one part of a configuration is refused, no part of it is in force.
func TestReloadIsWhole(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"old", "new"} {
		groups := "groups: [{name: g, rules: [{record: " + name + ", expr: up}]}]"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".rules"), []byte(groups), 0o600))
	}
	hour := keyschema.HourOf(time.Now().UnixMilli())
	now := time.UnixMilli(keyschema.HourStartMs(hour))
	later := fmt.Sprintf("{pattern: cold_*, from_hour: %d, salts: 8}", hour+2)
	const early = "{pattern: hot_*, from_hour: 1, salts: 8}"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "halite.yml"), []byte(wholeConfig("old", "older", "")), 0o600))
	g := openGrowing(t, dir, now)
	defer func() { require.NoError(t, g.db.close(context.Background())) }()
	require.NoError(t, g.db.rules.Apply(g.config.ruleSettings))
	running, stop := context.WithCancel(t.Context())
	var rules sync.WaitGroup
	rules.Go(func() { g.db.rules.Run(running) })
	defer func() { stop(); rules.Wait() }()
	require.NoError(t, g.write(0))
	require.NoError(t, g.db.aliases.Add(t.Context(), aliases.Alias{Kind: aliases.Metric, Old: "loop", New: "hot_total"}))
	inForce := func(name, alias string, salts int) {
		t.Helper()
		require.Equal(t, salts, g.db.schema.RuleAt("cold_x", hour+3).Salts)
		require.Equal(t, name, g.db.rules.RuleGroups()[0].Rules()[0].Name())
		list, _ := g.db.aliases.List(keyschema.DefaultTenant)
		require.Contains(t, fmt.Sprint(list), alias)
		require.Contains(t, g.rules.Config(), name+".rules")
		metric := fmt.Sprintf("seen_%d", g.nowMs.Add(1))
		_, err := g.db.ingester.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{
			{Labels: labels.FromStrings("__name__", metric), TsMs: g.nowMs.Load()},
		}))
		require.NoError(t, err)
		result, err := g.runQuery(metric)
		require.NoError(t, err)
		defer result.Close()
		require.Contains(t, result.Value.String(), `version="`+name+`"`)
	}
	salts := g.db.schema.RuleAt("cold_x", hour+3).Salts
	inForce("old", "older", salts)
	for want, text := range map[string]string{
		"loop":                  wholeConfig("new", "loop", later), // with the alias of the store
		"must start after hour": wholeConfig("new", "newer", early),
		"no such file": wholeConfig("new", "newer", later) +
			"alerting: {alertmanagers: [{scheme: https, tls_config: {ca_file: nowhere.pem}, static_configs: [{targets: [x]}]}]}",
	} {
		g.putRules("%s", text)
		require.ErrorContains(t, g.rules.Reload(t.Context()), want)
		inForce("old", "older", salts)
	}
	g.putRules("%s", wholeConfig("new", "newer", later))
	require.NoError(t, g.rules.Reload(t.Context()))
	inForce("new", "newer", 8)
}
