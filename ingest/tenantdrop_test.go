package ingest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/principal"
	"halite/storage/storagetest/seeds"
)

func tenantTweak(o *Options) { o.Limits.Tenants = true }

// writeAs writes the same series for each tenant: floats, a histogram and metadata. It returns the floats.
func (r *rig) writeAs(rng *rand.Rand, tenant string, into map[string]column) error {
	req := &prompb.WriteRequest{Metadata: []prompb.MetricMetadata{{MetricFamilyName: "m0", Help: "of " + tenant}}}
	added := map[string]prompb.Sample{}
	for n := range 1 + rng.IntN(6) {
		name := fmt.Sprint("m", n%3)
		s := sample(r.clock.Now().UnixMilli()-rng.Int64N(20*60_000), rng.Float64())
		req.Timeseries = append(req.Timeseries, series([]string{"__name__", name, "x", fmt.Sprint(n)}, s))
		added[labels.FromStrings("__name__", keyschema.TenantPrefix(tenant)+name, "x", fmt.Sprint(n)).String()] = s
	}
	h := series([]string{"__name__", "h"})
	h.Histograms = []prompb.Histogram{prompb.FromIntHistogram(r.clock.Now().UnixMilli(), tsdbutil.GenerateTestHistogram(1))}
	req.Timeseries = append(req.Timeseries, h)
	ctx := principal.With(context.Background(), &principal.Principal{Name: tenant, Tenants: []string{tenant}})
	if _, err := r.Write(ctx, Input{Body: body(r.t, req)}); err != nil {
		return err
	}
	for name, s := range added {
		if into[name] == nil {
			into[name] = column{}
		}
		into[name][s.Timestamp] = math.Float64bits(s.Value)
	}
	return nil
}

// columns returns the floats of all series in the index, except series of histograms.
func (r *rig) columns() map[string]column {
	r.t.Helper()
	found, err := r.index.Select(context.Background(), nil, 0, keyschema.TimeMaxMs)
	require.NoError(r.t, err)
	out := map[string]column{}
	for _, s := range found {
		if _, name := keyschema.SplitTenant(s.Labels.Get("__name__")); name == "h" {
			continue
		}
		c, err := r.read(s.Labels)
		require.NoError(r.t, err)
		out[s.Labels.String()] = c
	}
	return out
}

// electAs writes as both replicas of two clusters of a tenant.
func (r *rig) electAs(tenant string) error {
	req := &prompb.WriteRequest{}
	for n := range 4 {
		req.Timeseries = append(req.Timeseries, series([]string{
			"__name__", "ha", "__replica__", fmt.Sprint("r", n%2), "cluster", fmt.Sprint("c", n/2)}, sample(r.clock.Now().UnixMilli(), 1)))
	}
	ctx := principal.With(context.Background(), &principal.Principal{Name: tenant, Tenants: []string{tenant}})
	_, err := r.Write(ctx, Input{Body: body(r.t, req)})
	return err
}

// TestDropElections: a drop removes the elections of its tenant only.
func TestDropElections(t *testing.T) {
	for _, on := range []bool{true, false} { // whether the configuration still has HA pairs when the tenant is dropped
		r, err := deletionRig(t, vfs.NewCrashableMem(), ingesttest.NewClock(), tenantTweak)
		require.NoError(t, err)
		r.electBy("[]")
		for _, tenant := range []string{"acmecorp", "acme"} {
			require.NoError(t, r.electAs(tenant))
		}
		require.Len(t, r.HAClusters(), 4)
		if !on {
			require.NoError(t, r.SetRelabelling(t.Context(), nil, nil))
		}
		_, err = r.DropTenant(t.Context(), "acmecorp")
		require.NoError(t, err)
		r.requireNothingOf("acmecorp")
		if r.electBy("[]"); on {
			r.ReopenTenant("acmecorp")
		}
		for _, c := range r.HAClusters() {
			require.Equal(t, "acme", c.Tenant)
		}
		require.Len(t, r.HAClusters(), 2)
		if on {
			require.NoError(t, r.electAs("acmecorp"))
			require.Len(t, r.HAClusters(), 4)
		}
		r.close()
	}
}

// requireNothingOf checks that neither memory nor a row of a table names the tenant.
func (r *rig) requireNothingOf(tenant string) {
	r.t.Helper()
	ctx, prefix := context.Background(), keyschema.TenantPrefix(tenant)
	r.index.EachMetric(0, func(metric string, series int) {
		require.False(r.t, series > 0 && bytes.HasPrefix([]byte(metric), []byte(prefix)), metric)
	})
	require.Zero(r.t, r.metadata.ofTenant(prefix))
	tables, err := r.store.Tables(ctx)
	require.NoError(r.t, err)
	for _, schema := range tables {
		table, err := r.store.Table(ctx, schema.Name)
		require.NoError(r.t, err)
		rows := table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
		for rows.Next() {
			row := rows.Row()
			require.NotContains(r.t, string(row.Key), tenant, schema.Name)
			for _, c := range row.Cells {
				require.NotContains(r.t, string(c.Value), tenant, "table %s, row %q", schema.Name, row.Key)
			}
		}
		require.NoError(r.t, rows.Err())
		require.NoError(r.t, rows.Close())
	}
}

// TestDropTenant cuts the power somewhere while a tenant is dropped. After the drop is repeated, nothing names the
// tenant, other tenants have all of their data, and the tenant begins again with its later writes.
func TestDropTenant(t *testing.T) {
	first, count := seeds.Range(t, seeds.Default{Full: 30, Short: 3})
	for seed := first; seed < first+count; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { dropTenantSeed(t, seed) }) {
			t.Fatalf("reproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./ingest", seed, t.Name())
		}
	}
}

func dropTenantSeed(t *testing.T, seed uint64) {
	const doomed = "acmecorp"
	ctx, rng := t.Context(), rand.New(rand.NewPCG(seed, 77))
	fs, c := vfs.NewCrashableMem(), ingesttest.NewClock()
	run := &crashRun{t: t, fs: fs, clock: c, oracle: newOracle(), rng: rng}
	r, err := deletionRig(t, run.wrap(), c, tenantTweak)
	require.NoError(t, err)
	want := map[string]map[string]column{doomed: {}, "acme": {}, keyschema.DefaultTenant: {}}
	others := []string{"acme", keyschema.DefaultTenant}
	for range 12 {
		for _, tenant := range append([]string{doomed}, others...) {
			require.NoError(t, r.writeAs(rng, tenant, want[tenant]))
		}
		switch rng.IntN(4) {
		case 0:
			r.flush()
		case 1:
			c.Advance(time.Duration(rng.IntN(30)) * time.Hour)
			r.doStep()
		case 2:
			r.delete(c.Now().UnixMilli()-1000, c.Now().UnixMilli()-900, match(t, "__name__", "=", "&"+doomed+"&m1"))
		}
	}
	run.left.Store(int64(1 + rng.IntN(900)))
	run.armed.Store(true)
	_, err = r.DropTenant(ctx, doomed)
	require.NoError(t, err)
	whole := run.left.Load() > 0 // the drop was complete before the power cut
	run.cutPower(0, 1)
	r.close()

	r, err = deletionRig(t, run.crashed, c, tenantTweak)
	require.NoError(t, err)
	if whole {
		r.requireNothingOf(doomed)
	}
	_, err = r.DropTenant(ctx, doomed)
	require.NoError(t, err)
	r.requireNothingOf(doomed)
	require.Error(t, r.writeAs(rng, doomed, map[string]column{}), "the drop goes on")
	expected := map[string]column{}
	for _, tenant := range others {
		for name, samples := range want[tenant] {
			expected[name] = samples
		}
	}
	require.Equal(t, expected, r.columns())

	r.ReopenTenant(doomed)
	require.NoError(t, r.writeAs(rng, doomed, expected))
	require.Equal(t, expected, r.columns())
	r.flush()
	require.Equal(t, expected, r.columns())
	r.close()
}

// TestDescriptionsOfTenants: one tenant leaves space for other tenants' metric descriptions.
func TestDescriptionsOfTenants(t *testing.T) {
	r := openRig(t, vfs.NewCrashableMem(), ingesttest.NewClock(), func(o *Options) {
		o.Limits.Tenants, o.Limits.MetadataMetricsMax = true, 8
	})
	describe := func(tenant string, metrics int) {
		req := &prompb.WriteRequest{}
		for n := range metrics {
			req.Metadata = append(req.Metadata, prompb.MetricMetadata{MetricFamilyName: fmt.Sprint("m", n), Help: "help"})
		}
		ctx := principal.With(t.Context(), &principal.Principal{Name: tenant, Tenants: []string{tenant}})
		_, err := r.Write(ctx, Input{Body: body(t, req)})
		require.NoError(t, err)
	}
	describe("a", 10)
	describe("a", 10)
	describe("b", 3) // the bound of all is reached
	require.Equal(t, 6, r.metadata.ofTenant("&a&"))
	require.Equal(t, 2, r.metadata.ofTenant("&b&"))
	r = r.reopen(func(o *Options) { o.Limits.Tenants, o.Limits.MetadataMetricsMax = true, 8 })
	require.Equal(t, 6, r.metadata.ofTenant("&a&"))
	r.close()
}

// TestWritesAcquireCPUSlots: while another tenant is active, a write holds a CPU slot of its tenant until it is stored.
func TestWritesAcquireCPUSlots(t *testing.T) {
	r := openRig(t, vfs.NewCrashableMem(), ingesttest.NewClock(), tenantTweak)
	activity := principal.NewActivity(r.clock.Now, 1)
	activity.For(&principal.Principal{Tenants: []string{"beta"}})
	who := activity.For(&principal.Principal{Name: "acme", Tenants: []string{"acme"}})
	req := &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{
		series([]string{"__name__", "m"}, sample(r.clock.Now().UnixMilli(), 1)),
	}}
	write := func(ctx context.Context) error {
		_, err := r.Write(principal.With(ctx, who), Input{Body: body(t, req)})
		return err
	}
	slot, err := who.AcquireCPU(t.Context())
	require.NoError(t, err)
	ended, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	require.ErrorIs(t, write(ended), context.DeadlineExceeded)
	slot.Release()
	for range 2 {
		require.NoError(t, write(t.Context()))
	}
	require.NoError(t, slot.Acquire(t.Context()), "the slot is free again")
	slot.Release()
	r.close()
}

// TestWritesShareTheLog: while another tenant is active and the disk is slow, a write waits until earlier writes of its tenant
// are durable. Another tenant's write does not wait.
func TestWritesShareTheLog(t *testing.T) {
	disk := &slowDisk{}
	r := openRig(t, errorfs.Wrap(vfs.NewCrashableMem(), disk), ingesttest.NewClock(), func(o *Options) {
		tenantTweak(o)
		o.Limits.SharedLogBytesMax, o.Limits.QueueWaitMax = 1, 10*time.Millisecond
	})
	activity := principal.NewActivity(r.clock.Now, 4)
	req := &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{
		series([]string{"__name__", "m"}, sample(r.clock.Now().UnixMilli(), 1)),
	}}
	write := func(tenant string) error {
		who := activity.For(&principal.Principal{Name: tenant, Tenants: []string{tenant}})
		_, err := r.Write(principal.With(t.Context(), who), Input{Body: body(t, req)})
		return err
	}
	require.NoError(t, write("beta"))
	require.NoError(t, write("acme"))
	disk.stalled.Lock()
	results := make(chan error, 2)
	go func() { results <- write("acme") }()
	require.Eventually(t, func() bool { return disk.held.Load() > 0 }, time.Minute, time.Millisecond)
	overload := new(OverloadError)
	require.ErrorAs(t, write("acme"), &overload)
	require.Equal(t, 1.0, r.counter("tsdb_ingest_overload_total", "resource", resourceTenant))
	before := r.log.Stats().FramesAppended
	go func() { results <- write("beta") }()
	require.Eventually(t, func() bool { return r.log.Stats().FramesAppended > before }, time.Minute, time.Millisecond)
	disk.stalled.Unlock()
	for range cap(results) {
		require.NoError(t, <-results)
	}
	require.NoError(t, write("acme"))
	r.close()
}
