package main

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/tables"
	"halite/cmd/tsdb/internal/tools"
	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/pebble"
)

// rollupCommand runs `tsdb rollup` with these arguments and returns what it prints.
func rollupCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	app := kingpin.New("tsdb", "")
	commands := tools.AddRollup(app)
	command, err := app.Parse(append([]string{"rollup"}, args...))
	require.NoError(t, err)
	var out bytes.Buffer
	err = commands[command](t.Context(), &out)
	return out.String(), err
}

// writeHour writes a chunk to a store that no server has open, past the guard of rollups.
func writeHour(t *testing.T, path string, hour int64, value float64) {
	t.Helper()
	store, err := pebble.Open(pebble.Options{Dir: datadir.TablesDir(path), DayChunks: tables.DayChunkCodec(), DayChunkInterval: -1})
	require.NoError(t, err)
	data, err := store.EnsureTable(context.Background(), storage.DataSchema(30*24*time.Hour))
	require.NoError(t, err)
	rule := keyschema.DefaultRule()
	startMs := keyschema.HourStartMs(hour)
	packed, err := chunk.Append(nil, startMs, []int64{startMs + 1, startMs + 2}, []float64{1, value})
	require.NoError(t, err)
	require.NoError(t, data.Load(context.Background(), []storage.RowMutation{{
		Key: keyschema.AppendHour(rule.AppendPrefix(nil, "up", nil), hour), Entries: []storage.Entry{{
			Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
			Qualifier: keyschema.AppendChunkQualifier(nil, 1), Value: packed,
		}},
	}}))
	require.NoError(t, store.Close())
}

// createStore creates the database that a server starts with.
func createStore(t *testing.T, path string) {
	app := kingpin.New("tsdb", "")
	config := addServeFlags(app.Command("serve", ""))
	_, err := app.Parse([]string{"serve", "--storage.path", path})
	require.NoError(t, err)
	db, err := openDatabase(context.Background(), config, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	require.NoError(t, db.close(context.Background()))
}

func TestRollupVerifyAndRebuild(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	_, err := rollupCommand(t, "verify", "--storage.path", path)
	require.ErrorContains(t, err, "holds no tables")

	day := time.Now().UTC().AddDate(0, 0, -3).Truncate(24 * time.Hour)
	hour := keyschema.HourOf(day.UnixMilli()) + 5
	createStore(t, path)
	writeHour(t, path, hour, 2)
	out, err := rollupCommand(t, "rebuild", "--storage.path", path)
	require.NoError(t, err, out)
	out, err = rollupCommand(t, "verify", "--storage.path", path)
	require.NoError(t, err, out)
	require.Contains(t, out, "24 hours and")
	require.Contains(t, out, ", 0 differ")

	writeHour(t, path, hour, 3)
	out, err = rollupCommand(t, "verify", "--storage.path", path, "--from", day.Format(time.DateOnly))
	require.ErrorContains(t, err, "tsdb rollup rebuild")
	require.Contains(t, out, "hour "+day.Add(5*time.Hour).Format(time.RFC3339)+" of up#")
	out, err = rollupCommand(t, "verify", "--storage.path", path, "--to", day.AddDate(0, 0, -1).Format(time.DateOnly))
	require.NoError(t, err, out)

	out, err = rollupCommand(t, "rebuild", "--storage.path", path, "--reset")
	require.NoError(t, err, out)
	out, err = rollupCommand(t, "verify", "--storage.path", path)
	require.NoError(t, err, out)
	_, err = rollupCommand(t, "verify", "--storage.path", path, "--from", "yesterday")
	require.ErrorContains(t, err, "--from")
}

func TestRollupRetention(t *testing.T) {
	const day = 24 * time.Hour
	var c rollupConfig
	for raw, want := range map[time.Duration]time.Duration{30 * day: 400 * day, 800 * day: 800 * day, 0: 0} {
		hours, days := c.retention(raw)
		require.Equal(t, want, hours)
		require.Zero(t, days)
		require.NoError(t, c.Validate(raw))
	}
	c = rollupConfig{hours: model.Duration(20 * day), hoursSet: true}
	require.ErrorContains(t, c.Validate(30*day), "--storage.retention.hours")
}
