package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/principal"
)

// TestRulesTakeCPUSlots: while other tenants are active, rules wait for a CPU slot of their tenant before they evaluate or
// store, as requests do.
func TestRulesTakeCPUSlots(t *testing.T) {
	t.Parallel()
	app := kingpin.New("tsdb", "")
	c := addServeFlags(app.Command("serve", ""))
	_, err := app.Parse([]string{"serve", "--storage.path", t.TempDir(), "--tenants", "--tenants.max-shared-cpus=1"})
	require.NoError(t, err)
	db, err := openDatabase(t.Context(), c, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.close(context.Background())) }()

	ofTenant := func(ctx context.Context, tenant string) context.Context {
		return principal.With(ctx, &principal.Principal{Name: "rules", Scopes: principal.Every, Tenants: []string{tenant}})
	}
	now := time.Now().UnixMilli()
	evaluate := func(ctx context.Context, tenant string) error {
		result, err := db.evaluateRule(ofTenant(ctx, tenant), query.InstantRequest{Query: "m + 1", TimeMs: now})
		if err == nil {
			result.Close()
		}
		return err
	}
	store := func(ctx context.Context, tenant string) error {
		_, err := db.writeOfRules(ofTenant(ctx, tenant), ingest.SamplesInput([]ingest.Sample{
			{Labels: labels.FromStrings("__name__", "m"), TsMs: now, Value: 1},
		}))
		return err
	}
	require.NoError(t, store(t.Context(), "beta")) // makes beta active
	require.NoError(t, store(t.Context(), "acme"))
	slot, err := principal.From(db.tenancy.Active(ofTenant(t.Context(), "acme"))).AcquireCPU(t.Context())
	require.NoError(t, err)
	require.NotNil(t, slot)
	for _, work := range []func(ctx context.Context, tenant string) error{evaluate, store} {
		ended, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		require.Error(t, work(ended, "acme"))
		require.ErrorIs(t, ended.Err(), context.DeadlineExceeded)
		end()
		require.NoError(t, work(t.Context(), "beta"))
	}
	slot.Release()
	require.NoError(t, evaluate(t.Context(), "acme"))
	require.NoError(t, store(t.Context(), "acme"))
}
