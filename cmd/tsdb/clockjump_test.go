package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
)

// TestClockJump: the clock jumps by ten years, while the server runs and while it is stopped, and all jobs that drop old data
// run. After the clock has returned, every sample, state and series is still there.
func TestClockJump(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := []byte("retention_rules: [{pattern: hot_*, raw: 20d}]")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "halite.yml"), rules, 0o600))
	right := time.UnixMilli(1_700_000_000_000)
	g := openGrowing(t, dir, right, "--storage.rollups", "--query.result-cache-bytes=0", "--query.row-cache-bytes=0")
	ctx := context.Background()
	var batch []ingest.Sample
	for _, metric := range []string{"hot_a", "cold_a"} { // dropped by the sweeper, and by the engine
		for hour := range 19 * 24 {
			batch = append(batch, ingest.Sample{Labels: labels.FromStrings("__name__", metric, "n", "1"),
				TsMs: right.Add(-time.Duration(hour) * time.Hour).UnixMilli(), Value: float64(hour)})
		}
	}
	result, err := g.db.ingester.Write(ctx, ingest.SamplesInput(batch))
	require.NoError(t, err)
	require.Zero(t, result.Rejected)
	require.NoError(t, g.db.ingester.Flush(ctx))
	work := func() {
		for worked := true; worked; {
			worked, err = g.db.tiers.Step(ctx)
			require.NoError(t, err)
		}
		require.NoError(t, g.db.ingester.Flush(ctx))
		require.NoError(t, g.db.index.Maintain(ctx))
		_, err = g.db.sweeper.Sweep(ctx)
		require.NoError(t, err)
		require.NoError(t, g.db.store.CollectGarbage(ctx))
		_, err = g.db.deleteOldNotes(ctx, g.config)
		require.NoError(t, err)
	}
	compare := func() {
		t.Helper()
		for expr, want := range map[string]int{"hot_a[19d]": 19 * 24, "cold_a[19d]": 19 * 24} {
			result, err := g.runQuery(expr)
			require.NoError(t, err)
			matrix := result.Value.(promql.Matrix)
			require.Len(t, matrix, 1, expr)
			require.Len(t, matrix[0].Floats, want, expr)
			result.Close()
		}
	}
	reopen := func() {
		require.NoError(t, g.db.close(ctx))
		g.open()
	}
	work()
	compare()
	require.NoError(t, g.db.clock.Tick(ctx))
	closed := g.db.tiers.Manifest.View().Closed
	for _, stopped := range []bool{false, true} {
		g.nowMs.Store(right.AddDate(10, 0, 0).UnixMilli())
		if stopped {
			reopen()
		}
		work()
		require.NoError(t, g.db.clock.Tick(ctx))
		work()
		g.nowMs.Store(right.UnixMilli())
		compare()
		if stopped {
			reopen()
		}
		work()
		compare()
	}
	require.Equal(t, closed, g.db.tiers.Manifest.View().Closed, "no day is closed by a wrong clock")
	require.NoError(t, g.db.close(ctx))
}
