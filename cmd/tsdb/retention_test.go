package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/config"
	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/rollup"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/storagetest/seeds"
)

const (
	agingSeeds = 8
	agingSteps = 40
	agingGrace = 6 * time.Hour // the sweeper's default
	agingDay   = 24 * time.Hour
)

// aging is a database whose clock moves by hours and days, and a simple model of its contents.
type aging struct {
	*testing.T
	rng    *rand.Rand
	dir    string
	config *serveConfig
	db     *database
	nowMs  atomic.Int64
	log    []string
	// flushedMs is the last time at which no sample was in memory.
	flushedMs int64

	rules []keyschema.Rule
	rest  keyschema.RetentionByTier
	// all has the acknowledged samples. The value is false if a sample was once too old: then it may be missing when
	// ages grow.
	all map[string]map[int64]*agingSample
	// counts has, by series, the counts of the hours whose states were computed from all samples.
	counts map[string]map[int64]int64
}

type agingSample struct {
	value float64
	must  bool
}

var agingMetrics = []string{"debug_a", "debug_b", "keep_a", "x_debug", "other", "büro_a"}

// TestRetentionOfRules writes samples of any age, moves the clock, changes rules by reloads and flags by restarts, and sweeps, at
// random. It compares samples, states, labels and stored rows with the model.
func TestRetentionOfRules(t *testing.T) {
	first, count := seeds.New(t, seeds.Default{Full: agingSeeds, Short: agingSeeds})
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			runAging(t, seed)
		})
	}
}

func runAging(t *testing.T, seed uint64) {
	g := &aging{T: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), all: map[string]map[int64]*agingSample{},
		counts: map[string]map[int64]int64{}}
	g.nowMs.Store(time.Date(2024, 3, 20, 7, 0, 0, 0, time.UTC).UnixMilli() + g.rng.Int64N(agingDay.Milliseconds()))
	defer func() {
		if t.Failed() {
			t.Logf("repeat with HALITE_SEED=%d; what was done:\n%s", seed, strings.Join(g.log, "\n"))
		}
	}()
	g.flushedMs = g.nowMs.Load()
	g.changeFlags()
	g.open()
	defer func() { require.NoError(t, g.db.close(context.Background())) }()
	for range agingSteps {
		g.step()
	}
	g.sweep()
	g.compare()
}

func (g *aging) note(format string, args ...any) { g.log = append(g.log, fmt.Sprintf(format, args...)) }

func (g *aging) now() time.Time { return time.UnixMilli(g.nowMs.Load()) }

// randomAge is an age of some days, or 0.
func (g *aging) randomAge() *keyschema.Age {
	age := keyschema.Age(agingDay) * keyschema.Age(1+g.rng.IntN(9))
	if g.rng.IntN(6) == 0 {
		age = 0
	}
	return &age
}

// changeFlags makes new flags and rules.
func (g *aging) changeFlags() {
	raw := *g.randomAge()
	g.rest = keyschema.RetentionByTier{raw, raw, 0}
	g.changeRules()
}

// changeRules makes new rules that fit the flags.
func (g *aging) changeRules() {
	for {
		g.rules = nil
		for _, pattern := range []string{"debug_*", "*_a", "keep_?", "other", "*", "b*"} {
			if g.rng.IntN(2) == 0 {
				named := &keyschema.RuleRetention{Raw: g.randomAge()}
				if g.rng.IntN(2) == 0 {
					named.Hours = g.randomAge()
				}
				g.rules = append(g.rules, keyschema.Rule{Pattern: pattern, Retention: named})
			}
		}
		schema, err := keyschema.NewSchema(g.rules)
		require.NoError(g, err)
		if _, err := schema.Retention(g.rest); err == nil {
			break
		}
	}
	var file config.Config
	for _, r := range g.rules {
		file.RetentionRules = append(file.RetentionRules, config.RetentionRule{
			Pattern: r.Pattern, Raw: r.Retention.Raw, Hours: r.Retention.Hours,
		})
	}
	g.note("rules %s, flags %v", file.Text(), g.rest)
	require.NoError(g, os.WriteFile(filepath.Join(g.dir, "halite.yml"), []byte(file.Text()), 0o600))
}

func (g *aging) open() {
	app := kingpin.New("tsdb", "")
	g.config = addServeFlags(app.Command("serve", ""))
	g.config.now = g.now
	_, err := app.Parse([]string{"serve", "--storage.path", filepath.Join(g.dir, "data"), "--storage.rollups",
		"--config.file", filepath.Join(g.dir, "halite.yml"), "--storage.retention.raw", g.rest[keyschema.Raw].String(),
		"--storage.retention.hours", g.rest[keyschema.Hours].String(), "--storage.retention.clock-jump", "0d"})
	require.NoError(g, err)
	g.db, err = openDatabase(context.Background(), g.config, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(g, err)
}

func (g *aging) age(metric string) keyschema.Age {
	return g.db.retention.Load().ForMetric(metric)[keyschema.Raw]
}

func (g *aging) step() {
	ctx := context.Background()
	switch n := g.rng.IntN(20); {
	case n < 9:
		g.write()
	case n < 12:
		d := time.Duration(g.rng.Int64N(int64(30 * time.Hour)))
		if g.rng.IntN(2) == 0 {
			d /= 10
		}
		if g.nowMs.Load()+d.Milliseconds() > g.flushedMs+(agingGrace-time.Hour).Milliseconds() {
			g.flush() // the server does, before a sweep would miss rows that are in memory
		}
		g.nowMs.Add(d.Milliseconds())
		g.note("advance %s", d)
		g.expire()
	case n < 13:
		g.flush()
	case n < 14:
		g.note("collect garbage")
		require.NoError(g, g.db.store.CollectGarbage(ctx))
	case n < 15:
		g.note("roll up")
		g.flush()
		g.rollUp()
	case n < 16:
		g.sweep()
	case n < 17:
		g.note("reload")
		g.changeRules()
		read, err := g.config.readConfig()
		require.NoError(g, err)
		require.NoError(g, g.db.apply(ctx, g.config, read))
		g.expire()
	case n < 18:
		g.note("restart")
		require.NoError(g, g.db.close(ctx)) // flushes
		g.flushedMs = g.nowMs.Load()
		g.changeFlags()
		g.open()
		g.expire()
	default:
		g.compare()
	}
}

func (g *aging) flush() {
	g.note("flush")
	require.NoError(g, g.db.ingester.Flush(context.Background()))
	g.flushedMs = g.nowMs.Load()
}

// expire marks samples that are now too old.
func (g *aging) expire() {
	for series, samples := range g.all {
		cutoffMs := g.age(series[:strings.IndexByte(series, '/')]).CutoffMs(g.nowMs.Load())
		for tsMs, s := range samples {
			s.must = s.must && tsMs >= cutoffMs
		}
		cutoffMs = g.db.retention.Load().ForMetric(series[:strings.IndexByte(series, '/')])[keyschema.Hours].CutoffMs(g.nowMs.Load())
		maps.DeleteFunc(g.counts[series], func(hour, _ int64) bool {
			return (hour/keyschema.DayHours+1)*storage.DayMs-1 < cutoffMs
		})
	}
}

// write sends a batch of samples of any age. The server must refuse exactly the samples beyond the retention of their
// metric.
func (g *aging) write() {
	var batch []ingest.Sample
	refused := 0
	for range 1 + g.rng.IntN(20) {
		metric, instance := agingMetrics[g.rng.IntN(len(agingMetrics))], strconv.Itoa(g.rng.IntN(3))
		tsMs := g.nowMs.Load() - g.rng.Int64N((12 * agingDay).Milliseconds())
		if g.rng.IntN(3) == 0 {
			tsMs = g.nowMs.Load() - g.rng.Int64N(time.Hour.Milliseconds())
		}
		if cutoffMs := g.age(metric).CutoffMs(g.nowMs.Load()); cutoffMs > 0 && g.rng.IntN(6) == 0 {
			tsMs = cutoffMs - 1 + g.rng.Int64N(3)
		}
		s := ingest.Sample{Labels: labels.FromStrings("__name__", metric, "instance", instance), TsMs: tsMs, Value: g.rng.Float64()}
		batch = append(batch, s)
		if tsMs < g.age(metric).CutoffMs(g.nowMs.Load()) {
			refused++
			continue
		}
		series := metric + "/" + instance
		if g.all[series] == nil {
			g.all[series] = map[int64]*agingSample{}
		}
		g.all[series][tsMs] = &agingSample{s.Value, true}
		delete(g.counts[series], keyschema.HourOf(tsMs)) // until it is computed again
	}
	g.note("write %v", batch)
	result, err := g.db.ingester.Write(context.Background(), ingest.SamplesInput(batch))
	require.NoError(g, err)
	require.Equal(g, refused, result.Rejected, "%+v", result)
	require.Equal(g, len(batch)-refused, result.Accepted)
	require.Equal(g, refused, result.Reasons[ingest.ReasonBeforeRetention])
}

func (g *aging) rollUp() {
	for worked := true; worked; {
		var err error
		worked, err = g.db.tiers.Step(context.Background())
		require.NoError(g, err)
	}
	g.compareStates() // computed again or not
	// The states have all samples within the retention, and may have expired ones.
	for series, samples := range g.all {
		least, most := map[int64]int64{}, map[int64]int64{}
		for tsMs, s := range samples {
			most[keyschema.HourOf(tsMs)]++
			if s.must {
				least[keyschema.HourOf(tsMs)]++
			}
		}
		g.counts[series] = g.states(series)
		for hour, count := range g.counts[series] {
			require.GreaterOrEqual(g, count, least[hour], "state of hour %d of %s", hour, series)
			require.LessOrEqual(g, count, most[hour], "state of hour %d of %s", hour, series)
		}
	}
}

// sweep drops expired data and checks the rest of the table.
func (g *aging) sweep() {
	g.flush()
	g.rollUp() // samples without rollups must stay
	g.note("sweep")
	ctx := context.Background()
	_, err := g.db.sweeper.Sweep(ctx)
	require.NoError(g, err)
	for tier, place := range map[keyschema.Tier][2]string{
		keyschema.Raw: {storage.TableData, storage.FamilySamples}, keyschema.Hours: {storage.TableRollup, storage.FamilyHours},
	} {
		table, err := g.db.store.Table(ctx, place[0])
		require.NoError(g, err)
		rows := g.rows(table, place[1])
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			metric, err := keyschema.MetricOf([]byte(key))
			require.NoError(g, err)
			age := g.db.retention.Load().ForMetric(metric)[tier]
			if age == g.db.retention.Load().Longest()[tier] {
				continue
			}
			first := age.CutoffMs(g.now().Add(-agingGrace).UnixMilli()) / storage.DayMs
			if needed, some := g.db.tiers.OldestNeeded(tier); some {
				first = min(first, needed)
			}
			require.GreaterOrEqual(g, rows[key], first, "row %s of tier %s, kept %s", key, tier, age)
		}
	}
}

// rows returns the first day of the cells of each row.
func (g *aging) rows(table storage.Table, family string) map[string]int64 {
	it := table.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{Families: []string{family}, KeysOnly: true}})
	days := map[string]int64{}
	for it.Next() {
		day := it.Row().Cells[0].TsMs / storage.DayMs
		for _, c := range it.Row().Cells {
			day = min(day, c.TsMs/storage.DayMs)
		}
		days[string(it.Row().Key)] = day
	}
	require.NoError(g, it.Err())
	require.NoError(g, it.Close())
	return days
}

// compare demands that exactly the samples within the retention are there.
func (g *aging) compare() {
	g.Helper()
	g.compareSamples()
	g.compareLabels()
	g.compareStates()
}

func (g *aging) compareSamples() {
	g.Helper()
	for _, expr := range []string{`{__name__=~".+"}[20d]`, `debug_a[20d]`, `{instance="1"}[4d]`} {
		result, err := g.db.engine.Instant(context.Background(), query.InstantRequest{Query: expr, TimeMs: g.nowMs.Load()})
		require.NoError(g, err)
		got := map[string]map[int64]float64{}
		for _, s := range result.Value.(promql.Matrix) {
			series := s.Metric.Get("__name__") + "/" + s.Metric.Get("instance")
			got[series] = map[int64]float64{}
			for _, p := range s.Floats {
				got[series][p.T] = p.F
			}
		}
		fromMs := g.nowMs.Load() - (20 * agingDay).Milliseconds()
		if strings.Contains(expr, "4d") {
			fromMs = g.nowMs.Load() - (4 * agingDay).Milliseconds()
		}
		for series, samples := range g.all {
			metric, instance, _ := strings.Cut(series, "/")
			selected := strings.HasPrefix(expr, `{__name__`) || strings.HasPrefix(expr, metric) || expr[0] == '{' && instance == "1"
			cutoffMs := max(g.age(metric).CutoffMs(g.nowMs.Load()), fromMs+1)
			for tsMs, s := range samples {
				value, ok := got[series][tsMs]
				switch {
				case !selected || tsMs < cutoffMs || tsMs > g.nowMs.Load():
					require.False(g, ok, "%s: %s at %d is shown, which begins at %d", expr, series, tsMs, cutoffMs)
				case s.must:
					require.True(g, ok, "%s: %s at %d is missing, kept from %d on", expr, series, tsMs, cutoffMs)
				}
				if ok {
					require.Equal(g, s.value, value)
				}
				delete(got[series], tsMs)
			}
			require.Empty(g, got[series], "%s: samples of %s that nobody wrote", expr, series)
		}
	}
}

// compareLabels looks at the lists of series and label values.
func (g *aging) compareLabels() {
	g.Helper()
	must, may := map[string]bool{}, map[string]bool{}
	instances := map[string]bool{}
	for series, samples := range g.all {
		metric, instance, _ := strings.Cut(series, "/")
		// Series are known by the hour, as long as states of their days are kept.
		age := g.db.retention.Load().ForMetric(metric)[keyschema.Days]
		firstMs := keyschema.HourStartMs(keyschema.HourOf(age.CutoffMs(g.nowMs.Load())))
		for tsMs, s := range samples {
			if tsMs >= firstMs {
				may[series], instances[instance] = true, true
			}
			must[series] = must[series] || s.must
		}
	}
	ctx := context.Background()
	fromMs, toMs := g.nowMs.Load()-(40*agingDay).Milliseconds(), g.nowMs.Load()
	found, err := g.db.index.Select(ctx, nil, fromMs, toMs)
	require.NoError(g, err)
	listed, metrics := map[string]bool{}, map[string]bool{}
	for _, s := range found {
		series := s.Labels.Get("__name__") + "/" + s.Labels.Get("instance")
		require.True(g, may[series], "%s is listed with hours %v", series, s.Hours)
		listed[series], metrics[s.Labels.Get("__name__")] = true, true
	}
	for series, is := range must {
		require.True(g, !is || listed[series], "%s is not listed", series)
	}
	names, err := g.db.index.LabelValues(ctx, "__name__", fromMs, toMs, 0)
	require.NoError(g, err)
	require.Equal(g, slices.Sorted(maps.Keys(metrics)), slices.Sorted(slices.Values(names)))
	values, err := g.db.index.LabelValues(ctx, "instance", fromMs, toMs, 0)
	require.NoError(g, err)
	for _, v := range values {
		require.True(g, instances[v], "instance %s is listed", v)
	}
	none, err := g.db.index.LabelNames(ctx, fromMs, toMs, 0)
	require.NoError(g, err)
	require.Equal(g, len(found) > 0, len(none) > 0)
}

// states returns the count of each hour of a series whose state is known, over the last twenty days.
func (g *aging) states(series string) map[int64]int64 {
	g.Helper()
	const span = 20 * keyschema.DayHours
	metric, instance, _ := strings.Cut(series, "/")
	rule, last := keyschema.DefaultRule(), keyschema.HourOf(g.nowMs.Load())
	prefix := rule.AppendPrefix(nil, metric, []keyschema.Tag{{Name: "instance", Value: instance}})
	// A cell is kept until the whole day is too old.
	cutoffMs := g.db.retention.Load().ForMetric(metric)[keyschema.Hours].CutoffMs(g.nowMs.Load())
	out := map[int64]int64{}
	err := g.db.tiers.Read(context.Background(), rollupstore.Request{Prefixes: [][]byte{prefix}, Unit: rollupstore.Hours,
		From: last - span, To: last, Fields: rollup.FieldsAll}, func(_ int, c *rollup.Columns) error {
		for i := range span + 1 {
			if !c.Known[i] {
				continue
			}
			hour := last - span + int64(i)
			require.GreaterOrEqual(g, (hour/keyschema.DayHours+1)*storage.DayMs-1, cutoffMs, "state of hour %d of %s", hour, series)
			out[hour] = int64(c.State(i).Count)
		}
		return nil
	})
	require.NoError(g, err)
	return out
}

// compareStates checks the hours of closed days. A computed state stays until it is too old itself, or until longer
// ages show its rows again and the server recomputes it.
func (g *aging) compareStates() {
	g.Helper()
	for series := range g.all {
		states := g.states(series)
		for hour, count := range g.counts[series] {
			got, known := states[hour]
			require.True(g, known, "state of hour %d of %s is gone", hour, series)
			all := int64(0)
			for tsMs := range g.all[series] {
				if keyschema.HourOf(tsMs) == hour {
					all++
				}
			}
			require.GreaterOrEqual(g, got, count, "state of hour %d of %s", hour, series)
			require.LessOrEqual(g, got, all, "state of hour %d of %s", hour, series)
		}
	}
}
