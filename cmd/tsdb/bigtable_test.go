package main_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/bigtable/emulator"
)

var bigtableFlags = []string{"--storage.engine=bigtable", "--bigtable.project=test-project", "--bigtable.instance=test-instance"}

// startEmulator runs `tsdb emulator` and makes servers that this test starts use it.
func startEmulator(t *testing.T) (addr string) {
	t.Helper()
	cmd := command(t, "emulator", "--listen-address", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), "the emulator ends on SIGTERM")
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "BIGTABLE_EMULATOR_HOST="); ok {
			useEmulator(t, addr)
			return addr
		}
	}
	t.Fatal("the emulator names no address")
	return ""
}

func onBigtable(flags ...string) []string {
	return append(append([]string{"--no-web.self-scrape"}, bigtableFlags...), flags...)
}

func (s *server) flush() {
	s.t.Helper()
	code, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Less(s.t, code, 300, text)
}

func TestBigtableSurvivesEveryEnd(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	first := wave("e2e_metric", 20, now.Add(-3*time.Hour), now.Add(-time.Hour), 15*time.Second)
	second := wave("e2e_metric", 20, now.Add(-time.Hour), now, 15*time.Second)
	all := append(append([]point{}, first...), second...)

	s := startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	s.write(first)
	requirePoints(t, s, "e2e_metric", now, first)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	_, err := os.Stat(filepath.Join(dir, "tables"))
	require.ErrorIs(t, err, os.ErrNotExist, "the tables are in Bigtable")

	s = startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	requirePoints(t, s, "e2e_metric", now, first)
	s.write(second)
	requirePoints(t, s, "e2e_metric", now, all)
	require.Error(t, s.end(syscall.SIGKILL))

	s = startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	requirePoints(t, s, "e2e_metric", now, all)
	s.flush()
	requirePoints(t, s, "e2e_metric", now, all)
	require.Error(t, s.end(syscall.SIGKILL))

	// Another directory means another server, which must not write while the first one owns the tables.
	elsewhere := t.TempDir()
	args := append([]string{"serve", "--storage.path", elsewhere, "--web.listen-address", freeAddress(t)}, onBigtable()...)
	out, err := command(t, args...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), dir)
	require.Contains(t, string(out), "--bigtable.take-over")
	s = startServer(t, elsewhere, onBigtable("--bigtable.take-over")...)
	requirePoints(t, s, "e2e_metric", now, all)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	args = append([]string{"serve", "--storage.path", dir, "--web.listen-address", freeAddress(t)}, onBigtable()...)
	out, err = command(t, args...).CombinedOutput()
	require.Error(t, err, "the first server lost its tables")
	require.Contains(t, string(out), elsewhere)
}

func TestBigtableKillUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	killUnderLoad(t, bigtableFlags...)
}

func TestBigtableBadFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"serve --storage.engine=bigtable", "--bigtable.project is missing"},
		{"serve --storage.engine=bigtable --bigtable.project=my-project", "--bigtable.instance is missing"},
		{"serve --storage.engine=bigtable --bigtable.project=P --bigtable.instance=my-instance",
			`Project "P" is not a valid name`},
		{"serve --storage.engine=cassandra", "pebble"},
		{"migrate --to=bigtable", "--bigtable.project is missing"},
		{"migrate --to=bigtable --bigtable.project=my-project --bigtable.instance=my-instance --storage.path=/nonexistent",
			"/nonexistent"},
		{"emulator --listen-address=nowhere:1:2", "--listen-address"},
	} {
		out, err := command(t, strings.Fields(c.args)...).CombinedOutput()
		require.Error(t, err, c.args)
		require.Contains(t, string(out), c.want, c.args)
	}
}

func migrate(t testing.TB, args ...string) (string, error) {
	args = append([]string{"migrate", "--bigtable.project=test-project", "--bigtable.instance=test-instance"}, args...)
	out, err := command(t, args...).CombinedOutput()
	return string(out), err
}

// TestMigrateThereAndBack moves a database with a log that holds unflushed samples to Bigtable and back.
func TestMigrateThereAndBack(t *testing.T) {
	t.Parallel()
	addr := startEmulator(t)
	dir, back := t.TempDir(), t.TempDir()
	now := time.Now().Truncate(time.Second)
	first := wave("e2e_metric", 20, now.Add(-3*time.Hour), now.Add(-time.Hour), 15*time.Second)
	second := wave("e2e_metric", 20, now.Add(-time.Hour), now, 15*time.Second)
	all := append(append([]point{}, first...), second...)
	s := startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api")
	s.write(first)
	s.flush()
	s.write(second)
	out, err := migrate(t, "--to=bigtable", "--storage.path", dir)
	require.Error(t, err, "the server runs")
	require.Contains(t, out, "stop its server")
	require.Error(t, s.end(syscall.SIGKILL))

	out, err = migrate(t, "--to=bigtable", "--storage.path", dir)
	require.NoError(t, err, out)
	require.Contains(t, out, "are equal")
	out, err = migrate(t, "--to=bigtable", "--storage.path", dir)
	require.Error(t, err)
	require.Contains(t, out, "not empty")

	s = startServer(t, dir, onBigtable()...)
	requirePoints(t, s, "e2e_metric", now, all)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	out, err = migrate(t, "--to=pebble", "--storage.path", back)
	require.NoError(t, err, out)
	s = startServer(t, back, "--no-web.self-scrape")
	requirePoints(t, s, "e2e_metric", now, all)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	// From there they may move on: they belong to another directory now.
	out, err = migrate(t, "--to=bigtable", "--storage.path", back, "--bigtable.table-prefix=on_")
	require.NoError(t, err, out)
	s = startServer(t, back, onBigtable("--bigtable.table-prefix=on_")...)
	requirePoints(t, s, "e2e_metric", now, all)
	out, err = tsdb(t, append([]string{"serve", "--web.listen-address", freeAddress(t), "--storage.path", back,
		"--bigtable.table-prefix=on_"}, bigtableFlags...)...)
	require.Error(t, err, "it runs already")
	require.Contains(t, out, back+": another process holds the lock of this directory")
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	// One changed cell is found.
	store, err := bigtable.Open(context.Background(), bigtable.Options{Project: "test-project", Instance: "test-instance",
		EmulatorHost: addr})
	require.NoError(t, err)
	data, err := store.Table(context.Background(), storage.TableData)
	require.NoError(t, err)
	it := data.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	require.True(t, it.Next())
	require.True(t, it.Next())
	row := it.Row()
	cell := row.Cells[0]
	require.NoError(t, data.Apply(context.Background(), []storage.RowMutation{{Key: row.Key, Entries: []storage.Entry{
		{Family: cell.Family, Qualifier: cell.Qualifier, TsMs: cell.TsMs, Value: append(cell.Value, 'x')}}}}))
	require.NoError(t, it.Close())
	require.NoError(t, store.Close())
	out, err = migrate(t, "--to=pebble", "--verify-only", "--storage.path", back)
	require.Error(t, err)
	require.Contains(t, out, "row "+string(row.Key)+" has different cells")
}

// TestEnginesAnswerAlike gives two servers the same samples, flushed and unflushed, on either engine.
func TestEnginesAnswerAlike(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	now := time.Now().Truncate(time.Minute)
	old := wave("alike", 30, now.Add(-3*time.Hour), now.Add(-30*time.Minute), 20*time.Second)
	late := append(wave("alike", 15, now.Add(-2*time.Hour), now, 50*time.Second), wave("other", 30, now.Add(-time.Hour), now,
		time.Minute)...)
	var servers []*server
	for _, flags := range [][]string{{"--no-web.self-scrape"}, onBigtable()} {
		s := startServer(t, t.TempDir(), append(flags, "--web.enable-admin-api")...)
		s.write(old)
		s.flush()
		s.write(late)
		servers = append(servers, s)
	}
	for _, query := range []string{"alike", "sum(rate(alike[5m]))", `max by (instance) (alike{instance=~"host-1.*"})`,
		"alike - on (instance) other", "count_over_time(alike[20m])", "quantile_over_time(0.9, other[10m:1m])", "topk(3, alike)",
		`alike{instance="host-3"} offset 1h`, "absent(nothing)", "sum(alike) / count(other)"} {
		var responses []string
		for _, s := range servers {
			code, a := s.get("/api/v1/query_range", url.Values{"query": {query}, "step": {"47"},
				"start": {fmt.Sprint(now.Add(-3 * time.Hour).Unix())}, "end": {fmt.Sprint(now.Unix())}})
			require.Equal(t, http.StatusOK, code, a.Error)
			responses = append(responses, string(a.Data))
		}
		require.Contains(t, responses[0], `"values"`, query)
		require.Equal(t, responses[0], responses[1], query)
	}
}

// TestBigtableQuotaUsedUp lets the service refuse all requests for a while. The log acknowledges writes, flushes and
// queries fail as a whole, and afterwards no sample is missing.
func TestBigtableQuotaUsedUp(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	refused := func() error {
		if refuses.Load() {
			return status.Error(codes.ResourceExhausted, "injected")
		}
		return nil
	}
	service, err := emulator.Start(emulator.Options{
		Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := refused(); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		},
		Stream: func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := refused(); err != nil {
				return err
			}
			return handler(srv, stream)
		},
	})
	require.NoError(t, err)
	defer service.Close()
	useEmulator(t, service.Addr())
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	first := wave("e2e_metric", 20, now.Add(-3*time.Hour), now.Add(-time.Hour), 15*time.Second)
	second := wave("e2e_metric", 20, now.Add(-time.Hour), now, 15*time.Second)
	s := startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	s.write(first)
	s.flush()

	refuses.Store(true)
	s.write(second)
	code, text, _ := s.post("/api/v1/admin/flush", nil)
	require.GreaterOrEqual(t, code, 500, text)
	require.Contains(t, text, "quota")
	code, a := s.get("/api/v1/query", url.Values{"query": {"count_over_time(e2e_metric[3h])"}})
	require.Equal(t, http.StatusServiceUnavailable, code, "a query without its rows must fail: %s", a.Data)
	require.Equal(t, "unavailable", a.ErrorType)
	require.Contains(t, a.Error, "quota")
	args := append([]string{"serve", "--storage.path", t.TempDir(), "--web.listen-address", freeAddress(t)}, onBigtable()...)
	out, err := command(t, args...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "quota", "the start says why it fails")

	refuses.Store(false)
	all := append(append([]point{}, first...), second...)
	requirePoints(t, s, "e2e_metric", now, all)
	s.flush()
	require.Error(t, s.end(syscall.SIGKILL))
	s = startServer(t, dir, onBigtable()...)
	requirePoints(t, s, "e2e_metric", now, all)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// TestBigtableCost writes one hour of many series, and counts what goes to Bigtable: for the flush, and for a query over
// all of it by a server that has just started.
func TestBigtableCost(t *testing.T) {
	const series = 10_000
	samples := 60
	if text := os.Getenv("HALITE_COST_SAMPLES"); text != "" {
		var err error
		samples, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	startEmulator(t)
	dir := t.TempDir()
	hour := time.Now().Truncate(time.Hour).Add(-2 * time.Hour)
	s := startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	writeHour(s, series, samples, hour)
	before := s.bigtableMetrics()
	s.flush()
	after := s.bigtableMetrics()
	cost := func(name string) float64 { return after[name] - before[name] }
	million := float64(series*samples) / 1e6
	t.Logf("a million samples (%d an hour and series): %.0f mutations in %.0f rows, %.2f MB of rows, %.2f MB on the wire, "+
		"%.1f write requests of %.2f MB", samples, cost("mutations_total")/million, cost("rows_written_total")/million,
		cost("write_request_bytes_sum")/million/1e6, cost(`sent_bytes_total{method="MutateRows"}`)/million/1e6,
		cost("write_request_bytes_count")/million, cost("write_request_bytes_sum")/cost("write_request_bytes_count")/1e6)
	require.Less(t, cost("mutations_total"), 1.1*series, "one mutation a series and hour")
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	s = startServer(t, dir, onBigtable()...)
	before = s.bigtableMetrics()
	code, a := s.get("/api/v1/query_range", url.Values{"query": {"sum(cost_metric)"}, "step": {"60"},
		"start": {fmt.Sprint(hour.Unix())}, "end": {fmt.Sprint(hour.Add(59 * time.Minute).Unix())}})
	require.Equal(t, http.StatusOK, code, a.Error)
	require.Contains(t, string(a.Data), fmt.Sprintf(`"%d"`, 100*series*(series-1)/2), "the sum over all series at the start")
	after = s.bigtableMetrics()
	requests := 0.0
	for name, value := range after {
		if strings.HasPrefix(name, "requests_total{") {
			requests += value - before[name]
		}
	}
	t.Logf("a query over %d series and an hour: %.0f requests, %.0f ranges each, %.0f rows, %.2f MB", series, requests,
		cost("read_request_ranges_sum")/cost("read_request_ranges_count"), cost("rows_read_total"),
		cost(`received_bytes_total{method="ReadRows"}`)/1e6)
	require.Positive(t, requests)
	require.LessOrEqual(t, requests, 20.0)
}

// writeHour writes samples of each series, evenly over the hour: counters that grow by about seven.
func writeHour(s *server, series, samples int, hour time.Time) {
	s.t.Helper()
	for first := 0; first < series; first += 500 {
		var req prompb.WriteRequest
		for i := first; i < first+500; i++ {
			ts := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: "cost_metric"},
				{Name: "cpu", Value: fmt.Sprint(i % 8)}, {Name: "instance", Value: fmt.Sprintf("host-%d.example.net:9100", i/8)},
				{Name: "job", Value: "node"}}}
			for j := range samples {
				ts.Samples = append(ts.Samples, prompb.Sample{Value: float64(100*i + 7*j + i*j%5),
					Timestamp: hour.Add(time.Duration(j) * time.Hour / time.Duration(samples)).UnixMilli()})
			}
			req.Timeseries = append(req.Timeseries, ts)
		}
		body, err := req.Marshal()
		require.NoError(s.t, err)
		code, text, _ := s.post("/api/v1/write", snappy.Encode(nil, body))
		require.Equal(s.t, http.StatusNoContent, code, text)
	}
}

var metricLine = regexp.MustCompile(`(?m)^tsdb_bigtable_(\S+) (\S+)$`)

// bigtableMetrics returns the metrics tsdb_bigtable_… by the rest of their names.
func (s *server) bigtableMetrics() map[string]float64 {
	s.t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	out := map[string]float64{}
	for _, m := range metricLine.FindAllStringSubmatch(string(text), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		require.NoError(s.t, err)
		out[m[1]] = v
	}
	return out
}
