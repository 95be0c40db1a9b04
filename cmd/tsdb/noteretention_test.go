package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/keyschema/tsuid"
	"halite/storage/notes"
)

// TestAnnotationsExpireWithTheirMetric: an annotation is kept as long as hourly rollups of its metric, whose retention rule may
// be longer or shorter than the flag.
func TestAnnotationsExpireWithTheirMetric(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "halite.yml")
	require.NoError(t, os.WriteFile(file, []byte(
		"retention_rules: [{pattern: brief, raw: 2d, hours: 3d}, {pattern: lasting, raw: 2d, hours: 90d}]"), 0o600))
	app := kingpin.New("tsdb", "")
	c := addServeFlags(app.Command("serve", ""))
	_, err := app.Parse([]string{"serve", "--storage.path", filepath.Join(dir, "data"), "--config.file", file, "--storage.rollups",
		"--storage.retention.raw=2d", "--storage.retention.hours=30d"})
	require.NoError(t, err)
	db, err := openDatabase(t.Context(), c, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.close(context.Background())) }()

	now := time.Now()
	daysAgo := func(days int) int64 { return now.UnixMilli() - int64(days)*24*keyschema.HourMs }
	ids := map[string]string{"": "", "gone": tsuid.Text(labels.FromStrings("__name__", "gone"))}
	for _, metric := range []string{"brief", "lasting", "other"} {
		series := labels.FromStrings("__name__", metric, "host", "a")
		_, err := db.ingester.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{{Labels: series, TsMs: now.UnixMilli()}}))
		require.NoError(t, err)
		ids[metric] = tsuid.Text(series)
	}
	for _, id := range ids {
		for _, days := range []int{1, 5, 40, 100} {
			_, err := db.notes.Change(t.Context(), id, daysAgo(days), func(a notes.Annotation, _ bool) (notes.Annotation, error) {
				return a, nil
			})
			require.NoError(t, err)
		}
	}
	_, err = db.deleteOldNotes(t.Context(), c)
	require.NoError(t, err)
	for metric, kept := range map[string]int{"": 2, "gone": 2, "other": 2, "brief": 1, "lasting": 3} {
		list, err := db.notes.Annotations(t.Context(), ids[metric], 0, now.UnixMilli(), 10)
		require.NoError(t, err)
		require.Len(t, list, kept, metric)
	}
}
