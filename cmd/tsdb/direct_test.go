package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"halite/storage/bigtable/emulator"
	"halite/storage/storagetest/seeds"
)

func direct(flags ...string) []string {
	return onBigtable(append([]string{"--bigtable.mode=direct", "--bigtable.refresh=200ms"}, flags...)...)
}

// nowhere is a directory that a server without a disk must not create.
func nowhere(t *testing.T) string { return filepath.Join(t.TempDir(), "nothing") }

// eventuallyPoints waits until a server sees the points that another one has acknowledged.
func eventuallyPoints(t *testing.T, s *server, metric string, at time.Time, want []point) {
	t.Helper()
	require.Eventually(t, func() bool {
		count := 0
		for _, m := range s.series(metric, at, "6h") {
			count += len(m)
		}
		return count == len(want)
	}, time.Minute, 50*time.Millisecond, "%s", s.log)
	requirePoints(t, s, metric, at, want)
}

// TestDirectServersShareTables: two servers write interleaved samples of the same series and see each other's samples.
// Either may be killed at any time, and later servers see all samples. Late samples of packed hours join the chunks.
func TestDirectServersShareTables(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	dir := nowhere(t)
	now := time.Now().Truncate(time.Second)
	even := wave("e2e_metric", 20, now.Add(-3*time.Hour), now, 40*time.Second)
	odd := wave("e2e_metric", 25, now.Add(-3*time.Hour).Add(20*time.Second), now, 40*time.Second)
	all := append(append([]point{}, even...), odd...)
	a, b := startServer(t, dir, direct()...), startServer(t, dir, direct()...)
	var work sync.WaitGroup
	work.Go(func() { a.write(even) })
	work.Go(func() { b.write(odd) })
	work.Wait()
	eventuallyPoints(t, a, "e2e_metric", now, all)
	eventuallyPoints(t, b, "e2e_metric", now, all)
	require.Error(t, a.end(syscall.SIGKILL))
	requirePoints(t, b, "e2e_metric", now, all)
	require.NoError(t, b.end(syscall.SIGTERM), b.log)

	c := startServer(t, dir, direct()...)
	requirePoints(t, c, "e2e_metric", now, all)
	late := wave("late", 5, now.Add(-2*time.Hour), now.Add(-time.Hour), time.Minute)
	c.write(late)
	requirePoints(t, c, "late", now, late)
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing is kept on disk")
	require.NoError(t, c.end(syscall.SIGTERM), c.log)

	// A server refuses tables of the other mode.
	args := append([]string{"serve", "--storage.path", t.TempDir(), "--web.listen-address", freeAddress(t)}, onBigtable()...)
	out, err := command(t, args...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--bigtable.mode=direct")
	own := t.TempDir()
	s := startServer(t, own, onBigtable("--bigtable.take-over")...)
	requirePoints(t, s, "e2e_metric", now, all)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	args = append([]string{"serve", "--web.listen-address", freeAddress(t)}, direct()...)
	out, err = command(t, args...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), own)
	s = startServer(t, dir, direct("--bigtable.take-over")...)
	requirePoints(t, s, "e2e_metric", now, all)
	requirePoints(t, s, "late", now, late)
}

func TestDirectKillUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	killUnderLoad(t, append([]string{"--bigtable.mode=direct"}, bigtableFlags...)...)
}

// TestDirectPacks: a server packs hours that have closed, while samples still come late.
func TestDirectPacks(t *testing.T) {
	startEmulator(t)
	now := time.Now().Truncate(time.Second)
	s := startServer(t, nowhere(t), direct("--bigtable.pack-delay=2s", "--bigtable.pack-interval=100ms")...)
	points := wave("e2e_metric", 20, now.Add(-3*time.Hour), now.Add(-2*time.Hour), 15*time.Second)
	s.write(points)
	require.Eventually(t, func() bool { return strings.Contains(s.metrics(), "tsdb_compactor_samples_total 4800\n") },
		time.Minute, 50*time.Millisecond, "%s", s.log)
	requirePoints(t, s, "e2e_metric", now, points)
	more := wave("e2e_metric", 20, now.Add(-3*time.Hour).Add(7*time.Second), now.Add(-2*time.Hour), time.Minute)
	s.write(more)
	require.Eventually(t, func() bool { return strings.Contains(s.metrics(), "tsdb_compactor_samples_total 6000\n") },
		time.Minute, 50*time.Millisecond, "%s", s.log)
	requirePoints(t, s, "e2e_metric", now, append(points, more...))
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

func TestDirectBadFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"serve --bigtable.mode=direct", "--storage.engine=bigtable"},
		{"serve --bigtable.mode=sideways", "direct"},
		{"serve --bigtable.refresh=0s", "--bigtable.refresh"},
	} {
		out, err := command(t, strings.Fields(c.args)...).CombinedOutput()
		require.Error(t, err, c.args)
		require.Contains(t, string(out), c.want, c.args)
	}
}

// flaky injects the faults of networks and services into the requests of a server, each kind into one request of a
// hundred. It can also refuse all.
type flaky struct {
	mu       sync.Mutex
	rng      *rand.Rand
	on       atomic.Bool
	refuse   atomic.Bool
	injected map[string]int
}

func newFlaky(seed uint64) *flaky {
	return &flaky{rng: rand.New(rand.NewPCG(seed, 11)), injected: map[string]int{}}
}

func (f *flaky) roll(kinds ...string) string {
	if !f.on.Load() {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.rng.IntN(100); n < len(kinds) {
		f.injected[kinds[n]]++
		return kinds[n]
	}
	return ""
}

func (f *flaky) before(kind string) error {
	if f.refuse.Load() {
		return status.Error(codes.ResourceExhausted, "injected: quota")
	}
	switch kind {
	case "unavailable":
		return status.Error(codes.Unavailable, "injected")
	case "deadline":
		return status.Error(codes.DeadlineExceeded, "injected")
	case "aborted":
		return status.Error(codes.Aborted, "injected")
	}
	return nil
}

func (f *flaky) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	kind := ""
	if method := path.Base(info.FullMethod); method == "MutateRow" || method == "CheckAndMutateRow" {
		kind = f.roll("unavailable", "deadline", "aborted", "lost")
	}
	if err := f.before(kind); err != nil {
		return nil, err
	}
	resp, err := handler(ctx, req)
	if kind == "lost" {
		return nil, status.Error(codes.Unavailable, "injected: lost")
	}
	return resp, err
}

func (f *flaky) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	kind := ""
	switch path.Base(info.FullMethod) {
	case "MutateRows":
		kind = f.roll("unavailable", "deadline", "aborted", "lost", "partial")
	case "ReadRows":
		kind = f.roll("unavailable", "deadline", "aborted", "cut")
	}
	if err := f.before(kind); err != nil {
		return err
	}
	err := handler(srv, &flakyStream{ServerStream: stream, kind: kind})
	if kind == "lost" {
		return status.Error(codes.Unavailable, "injected: lost")
	}
	return err
}

type flakyStream struct {
	grpc.ServerStream
	kind string
	sent int
}

// SendMsg makes half of the rows of a write look refused, and breaks reads.
func (s *flakyStream) SendMsg(m any) error {
	s.sent++
	switch resp, write := m.(*bigtablepb.MutateRowsResponse); {
	case s.kind == "lost":
		return nil
	case s.kind == "cut" && s.sent > 2:
		return status.Error(codes.Internal, "injected: stream terminated by RST_STREAM")
	case s.kind == "partial" && write:
		for i, e := range resp.Entries {
			if i%2 == 1 {
				e.Status = &rpcstatus.Status{Code: int32(codes.Unavailable), Message: "injected: partial"}
			}
		}
	}
	return s.ServerStream.SendMsg(m)
}

// startFlaky starts an emulator behind faults that servers of this test use.
func startFlaky(t *testing.T, seed uint64) *flaky {
	f := newFlaky(seed)
	service, err := emulator.Start(emulator.Options{Unary: f.unary, Stream: f.stream})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	useEmulator(t, service.Addr())
	return f
}

// TestDirectFaults: two servers with injected faults accept writes, some of them late, pack and answer queries. All
// acknowledged samples are there, no others are, and a query is right or fails.
func TestDirectFaults(t *testing.T) {
	seed, _ := seeds.Range(t, seeds.Default{Full: 1, Short: 1})
	t.Log("seed", seed)
	f := startFlaky(t, seed)
	now := time.Now().Truncate(time.Second)
	flags := direct("--bigtable.pack-delay=1s", "--bigtable.pack-interval=50ms")
	servers := []*server{startServer(t, nowhere(t), flags...), startServer(t, nowhere(t), flags...)}
	settled := wave("settled", 10, now.Add(-time.Hour), now, time.Minute)
	servers[0].write(settled)
	eventuallyPoints(t, servers[1], "settled", now, settled)
	f.on.Store(true)
	acked, sent := map[point]bool{}, map[point]bool{}
	refused, failed := 0, 0
	for i := range 250 {
		s := servers[i%2]
		at := now.Add(-time.Duration(i%5) * time.Hour).Add(-time.Duration(i) * time.Second)
		batch := wave("faulty", 10, at, at.Add(time.Millisecond), time.Second)
		code, text, header := s.post("/api/v1/write", encodeWrite(batch))
		for _, p := range batch {
			sent[p] = true
			if code == http.StatusNoContent {
				acked[p] = true
			}
		}
		if code != http.StatusNoContent {
			require.Equal(t, http.StatusServiceUnavailable, code, text)
			require.NotEmpty(t, header.Get("Retry-After"))
			refused++
		}
		code, a := s.get("/api/v1/query", url.Values{"query": {`sum(count_over_time(settled[2h]))`},
			"time": {fmt.Sprint(now.Unix())}})
		if code != http.StatusOK {
			require.Equal(t, http.StatusServiceUnavailable, code, a.Error)
			require.Equal(t, "unavailable", a.ErrorType)
			failed++
			continue
		}
		require.Contains(t, string(a.Data), fmt.Sprintf(`"%d"`, len(settled)), "a short response")
	}
	f.on.Store(false)
	t.Logf("%d samples sent, %d acknowledged, %d writes refused, %d queries failed; faults %v", len(sent), len(acked), refused,
		failed, f.injected)
	for _, kind := range []string{"unavailable", "deadline", "aborted", "lost", "partial", "cut"} {
		require.NotZero(t, f.injected[kind], kind)
	}
	requireFaulty(t, startServer(t, nowhere(t), flags...), now, sent, acked)
}

func requireFaulty(t *testing.T, s *server, now time.Time, sent, acked map[point]bool) {
	got := s.series("faulty", now, "6h")
	for p := range acked {
		require.Equal(t, fmt.Sprintf("%g", p.value), got[p.instance][p.tsMs], "acknowledged but gone: %+v", p)
	}
	for p := range sent {
		delete(got[p.instance], p.tsMs)
	}
	for instance, left := range got {
		require.Empty(t, left, "nobody sent these of %s", instance)
	}
}

// TestDirectQuotaUsedUp: the server acknowledges no sample that Bigtable refuses, queries fail as a whole, and
// everything works again afterwards.
func TestDirectQuotaUsedUp(t *testing.T) {
	t.Parallel()
	f := startFlaky(t, 1)
	now := time.Now().Truncate(time.Second)
	s := startServer(t, nowhere(t), direct("--bigtable.write-timeout=2s")...)
	first := wave("e2e_metric", 20, now.Add(-time.Hour), now.Add(-30*time.Minute), 15*time.Second)
	second := wave("e2e_metric", 20, now.Add(-30*time.Minute), now, 15*time.Second)
	s.write(first)
	f.refuse.Store(true)
	var query sync.WaitGroup
	query.Go(func() { // before the server gives up on the write
		time.Sleep(time.Second / 2)
		code, a := s.get("/api/v1/query", url.Values{"query": {"e2e_metric[1h]"}})
		if code != http.StatusServiceUnavailable || a.ErrorType != "unavailable" {
			t.Errorf("a query without its rows: %d %+v", code, a)
		}
	})
	code, text, header := s.post("/api/v1/write", encodeWrite(second))
	require.Equal(t, http.StatusServiceUnavailable, code, text)
	require.NotEmpty(t, header.Get("Retry-After"))
	require.Contains(t, text, "quota")
	query.Wait()
	f.refuse.Store(false)
	s.write(second)
	requirePoints(t, s, "e2e_metric", now, append(first, second...))
}

// TestDirectCost counts the requests and bytes that go to Bigtable: for samples of scrapes, in time and late; for the packer;
// and for a query over an hour of single samples by a server that has just started.
func TestDirectCost(t *testing.T) {
	series, samples := 2_000, 10
	if text := os.Getenv("HALITE_COST_SAMPLES"); text != "" {
		var err error
		samples, err = strconv.Atoi(text)
		require.NoError(t, err)
		series = 10_000
	}
	startEmulator(t)
	now := time.Now().Truncate(time.Second)
	hour := now.Truncate(time.Hour).Add(-2 * time.Hour)
	quiet := onBigtable("--bigtable.mode=direct", "--bigtable.refresh=20s", "--bigtable.pack-interval=1h")
	s := startServer(t, nowhere(t), quiet...)
	var before, after map[string]float64
	cost := func(name string) float64 { return after[name] - before[name] }
	million := float64(series*samples) / 1e6
	for _, times := range []struct {
		what  string
		first time.Time
		step  time.Duration
	}{
		{"in time", now.Add(-time.Duration(samples) * time.Second / 4), time.Second / 4},
		{"late", hour, time.Hour / time.Duration(samples)},
	} {
		before = s.bigtableMetrics()
		for j := range samples {
			at := times.first.Add(time.Duration(j) * times.step)
			s.write(wave("cost_metric", series, at, at.Add(time.Millisecond), time.Second))
		}
		after = s.bigtableMetrics()
		t.Logf("a million samples %s: %.0f mutations in %.0f rows, %.1f MB of rows, %.1f MB on the wire, %.0f write requests "+
			"of %.2f MB", times.what, cost("mutations_total")/million, cost("rows_written_total")/million,
			cost("write_request_bytes_sum")/million/1e6, cost(`sent_bytes_total{method="MutateRows"}`)/million/1e6,
			cost("write_request_bytes_count")/million, cost("write_request_bytes_sum")/cost("write_request_bytes_count")/1e6)
	}
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	s = startServer(t, nowhere(t), quiet...)
	before = s.bigtableMetrics()
	code, a := s.get("/api/v1/query_range", url.Values{"query": {"count(cost_metric)"}, "step": {"60"},
		"start": {fmt.Sprint(hour.Unix())}, "end": {fmt.Sprint(hour.Add(59 * time.Minute).Unix())}})
	require.Equal(t, http.StatusOK, code, a.Error)
	require.Contains(t, string(a.Data), fmt.Sprintf(`"%d"`, series))
	after = s.bigtableMetrics()
	requests := cost(`read_request_ranges_count`)
	require.Positive(t, requests)
	t.Logf("a query over %d series and an hour of single samples: %.0f requests, %.0f ranges each, %.2f MB", series,
		requests, cost("read_request_ranges_sum")/requests, cost(`received_bytes_total{method="ReadRows"}`)/1e6)
	require.LessOrEqual(t, requests, 20.0)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	s = startServer(t, nowhere(t), direct("--bigtable.pack-interval=100ms")...)
	require.Eventually(t, func() bool { return strings.Contains(s.metrics(), "tsdb_compactor_hours_total 1\n") },
		2*time.Minute, 100*time.Millisecond, "%s", s.log)
	after, before = s.bigtableMetrics(), map[string]float64{}
	t.Logf("packing, a million samples: %.0f conditional mutations, %.1f MB sent, %.1f MB received",
		cost(`requests_total{code="OK",method="CheckAndMutateRow"}`)/million,
		cost(`sent_bytes_total{method="CheckAndMutateRow"}`)/million/1e6, cost(`received_bytes_total{method="ReadRows"}`)/million/1e6)
}
