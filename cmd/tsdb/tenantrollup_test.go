package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/storage/principal"
)

const tenantDay = 24 * time.Hour

// sameSeries is a database in which three tenants have the same series with other values.
type sameSeries struct {
	*testing.T
	db     *database
	start  time.Time
	nowMs  atomic.Int64
	values map[string]float64
}

func (s *sameSeries) as(tenants ...string) context.Context {
	return principal.With(context.Background(), &principal.Principal{Name: "test", Scopes: principal.Every, Tenants: tenants})
}

// open opens the database three days after the start of the samples.
func (s *sameSeries) open() {
	s.start = time.Date(2024, 3, 4, 0, 0, 0, 0, time.UTC)
	s.nowMs.Store(s.start.Add(3 * tenantDay).UnixMilli())
	app := kingpin.New("tsdb", "")
	c := addServeFlags(app.Command("serve", ""))
	c.now = func() time.Time { return time.UnixMilli(s.nowMs.Load()) }
	_, err := app.Parse([]string{"serve", "--storage.path", s.TempDir(), "--storage.rollups", "--tenants",
		"--storage.retention.raw", "4d", "--storage.retention.hours", "400d", "--storage.retention.clock-jump", "0d"})
	require.NoError(s, err)
	s.db, err = openDatabase(context.Background(), c, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(s, err)
}

// fill writes the samples of each tenant and computes their states.
func (s *sameSeries) fill() {
	for tenant, value := range s.values {
		require.NoError(s, s.db.tenantList.Ensure(context.Background(), tenant))
		var batch []ingest.Sample
		for minute := range int64(3 * 24 * 60) {
			for i := range 3 {
				ls := labels.FromStrings("__name__", "m", "i", strconv.Itoa(i))
				batch = append(batch, ingest.Sample{Labels: ls, TsMs: s.start.UnixMilli() + minute*60_000, Value: value + float64(i)})
			}
		}
		result, err := s.db.ingester.Write(s.as(tenant), ingest.SamplesInput(batch))
		require.NoError(s, err)
		require.Zero(s, result.Rejected, result.First)
	}
	require.NoError(s, s.db.ingester.Flush(context.Background()))
	s.nowMs.Add(time.Hour.Milliseconds())
	for worked := true; worked; {
		var err error
		worked, err = s.db.tiers.Step(context.Background())
		require.NoError(s, err)
	}
}

// runQuery evaluates an expression for tenants, at three times.
func (s *sameSeries) runQuery(text string, at time.Time, tenants ...string) (out promql.Matrix) {
	result, err := s.db.engine.Range(s.as(tenants...), query.RangeRequest{
		Query: text, Start: at.Add(-2 * time.Hour), End: at, Step: time.Hour,
	})
	require.NoError(s, err)
	defer result.Close()
	for _, one := range result.Value.(promql.Matrix) {
		out = append(out, promql.Series{Metric: one.Metric.Copy(), Floats: slices.Clone(one.Floats)})
	}
	return out
}

// check sends random queries of long ranges, many of them more than once.
func (s *sameSeries) check(rng *rand.Rand, where string) {
	for range 60 {
		tenants := [][]string{{"acme"}, {"beta"}, {keyschema.DefaultTenant}, {"acme", "beta"}, {"none"}}[rng.IntN(5)]
		text := []string{"max_over_time(m[2d])", "sum by (i) (max_over_time(m[1d]))", "min_over_time(m{i=\"1\"}[30h])",
			"count(count_over_time({__name__=~\"m\"}[2d]))"}[rng.IntN(4)]
		note := fmt.Sprintf("%s: %s of %v", where, text, tenants)
		sum := 0.0
		for _, tenant := range tenants {
			sum += s.values[tenant]
		}
		found := s.runQuery(text, s.start.Add(3*tenantDay), tenants...)
		require.Equal(s, tenants[0] != "none", len(found) > 0, note)
		for _, one := range found {
			i, _ := strconv.Atoi(one.Metric.Get("i"))
			want := sum + float64(i)
			switch tenant := one.Metric.Get("__tenant_id__"); {
			case text[0] == 'c':
				want = float64(3 * len(tenants))
			case text[0] == 's':
				want = sum + float64(i*len(tenants))
			case tenant != "":
				want = s.values[tenant] + float64(i)
			}
			for _, p := range one.Floats {
				require.Equal(s, want, p.F, note)
			}
		}
	}
}

// TestRollupsOfTenants: states and cached results answer each tenant from its own values, alone and together with others, before
// and after all samples have expired.
func TestRollupsOfTenants(t *testing.T) {
	t.Parallel()
	s := &sameSeries{T: t, values: map[string]float64{"acme": 1000, "beta": 2000, keyschema.DefaultTenant: 3000}}
	s.open()
	defer func() { require.NoError(t, s.db.close(context.Background())) }()
	s.fill()
	rng := rand.New(rand.NewPCG(1, 1))
	s.check(rng, "samples and states")
	s.nowMs.Store(s.start.Add(40 * tenantDay).UnixMilli())
	_, err := s.db.sweeper.Sweep(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.db.store.CollectGarbage(t.Context()))
	require.Empty(t, s.runQuery("m", s.start.Add(2*tenantDay), "acme"), "no sample is left")
	s.check(rng, "states alone")
}
