package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

const (
	migrateRowsDefault = 20_000
	migrateHours       = 100
	// migrateKills is how often each direction is killed.
	migrateKills = 3
)

// TestMigrateSurvivesKills migrates a database to Bigtable and back, kills the migration repeatedly after some
// progress, and expects every row. HALITE_MIGRATE_ROWS is the number of rows of samples.
func TestMigrateSurvivesKills(t *testing.T) {
	t.Parallel()
	rows := migrateRowsDefault
	if text := os.Getenv("HALITE_MIGRATE_ROWS"); text != "" {
		var err error
		rows, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	startEmulator(t)
	dir, back := t.TempDir(), t.TempDir()
	s := startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api")
	writeRows(s, rows/migrateHours, time.Now().Truncate(time.Hour).Add(-(migrateHours+2)*time.Hour))
	s.flush()
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	there := migrateKilled(t, rows, "--to=bigtable", "--storage.path", dir)
	home := migrateKilled(t, rows, "--to=pebble", "--storage.path", back)
	// The first copy and the last one both equal the tables in Bigtable, which have not changed.
	out, err := migrate(t, "--to=bigtable", "--verify-only", "--storage.path", dir)
	require.NoError(t, err, out)
	require.Equal(t, rows, dataRows(t, out))
	t.Logf("%d rows: to Bigtable in %s, back in %s, %d kills each, all comparisons included", rows, there.Round(time.Millisecond),
		home.Round(time.Millisecond), migrateKills)
	require.NoFileExists(t, filepath.Join(dir, "migrate.json"))

	s = startServer(t, back, "--no-web.self-scrape")
	at := fmt.Sprint(time.Now().Unix())
	code, a := s.get("/api/v1/query", map[string][]string{"query": {fmt.Sprintf("sum(count_over_time(moved[%dh]))", migrateHours+5)},
		"time": {at}})
	require.Equal(t, http.StatusOK, code, a.Error)
	require.Contains(t, string(a.Data), fmt.Sprintf(`"%d"`, rows))
}

// migrateKilled runs a migration until it succeeds. The first runs are killed when they have copied a fifth of the rows
// more than the one before.
func migrateKilled(t *testing.T, rows int, args ...string) time.Duration {
	t.Helper()
	file := filepath.Join(args[len(args)-1], "migrate.json")
	began := time.Now()
	for kill := 1; kill <= migrateKills; kill++ {
		given := []string{"migrate", "--bigtable.project=test-project", "--bigtable.instance=test-instance", "--batch-bytes=64KB"}
		cmd := command(t, append(given, args...)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for copied := 0; copied < kill*rows/5; copied = copiedRows(file) {
			select {
			case err := <-ended:
				t.Fatalf("the migration ended before it could be killed: %v\n%s", err, &out)
			case <-time.After(time.Millisecond):
			}
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		require.Error(t, <-ended)
	}
	out, err := migrate(t, args...)
	require.NoError(t, err, out)
	require.Contains(t, out, "Continuing after")
	require.Equal(t, rows, dataRows(t, out))
	return time.Since(began)
}

// copiedRows reads the checkpoint; it may be about to be replaced.
func copiedRows(file string) int {
	var state struct{ Rows int }
	src, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(src, &state) != nil {
		return 0
	}
	return state.Rows
}

var equalLine = regexp.MustCompile(`(?m)^data \[.*\): (\d+) rows, .* equal$`)

// dataRows adds up the rows of the table data in a report, each of whose ranges must be equal on both sides.
func dataRows(t *testing.T, report string) (rows int) {
	t.Helper()
	require.Contains(t, report, "are equal")
	for _, m := range equalLine.FindAllStringSubmatch(report, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		rows += n
	}
	return rows
}

// writeRows writes a sample of each series to each of some hours.
func writeRows(s *server, series int, from time.Time) {
	s.t.Helper()
	for i := range series {
		ts := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: "moved"}, {Name: "instance", Value: fmt.Sprint(i)},
			{Name: "pad", Value: strings.Repeat("x", i%50+1)}}}
		for hour := range migrateHours {
			ts.Samples = append(ts.Samples, prompb.Sample{Value: float64(i * hour),
				Timestamp: from.Add(time.Duration(hour)*time.Hour).UnixMilli() + int64(i)})
		}
		body, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{ts}}).Marshal()
		require.NoError(s.t, err)
		code, text, _ := s.post("/api/v1/write", snappy.Encode(nil, body))
		require.Equal(s.t, http.StatusNoContent, code, text)
	}
}
