package main_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/storagetest/seeds"
)

const (
	// sweptDebug exceeds the number of metrics that one request of a sweep drops.
	sweptDebug, sweptTrace, sweptKept = 270, 20, 4
	sweptDays                         = 7
	sweptRules                        = `retention_rules: [{pattern: debug_*, raw: 2d}, {pattern: trace_*, raw: 4d, hours: 5d}]`
	// sweptGrace is the sweeper's default.
	sweptGrace = 6 * time.Hour
)

// sweeping has tables with expired data, and servers on them that are killed during a sweep.
type sweeping struct {
	t         *testing.T
	rng       *rand.Rand
	now       time.Time
	rules     string
	servers   int
	dir       string // of servers with a disk
	flags     []string
	tool      []string // flags of commands on the tables
	before    map[string]string
	responses []string
	amid      int // sweeps that were cut off
}

// TestSweepKilled kills servers while they free data of metrics with a shorter retention, on the embedded engine and in
// both modes on Bigtable. Queries find all data within the retention, also during a sweep. Nothing else in the tables
// changes, and in the end all expired data is gone.
func TestSweepKilled(t *testing.T) {
	t.Parallel()
	first, rounds := seeds.New(t, seeds.Default{Full: 1, Short: 1})
	var amid atomic.Int64
	t.Cleanup(func() {
		// A single kill may come after the sweep.
		require.True(t, testing.Short() || amid.Load() > 0, "no sweep was cut off")
	})
	for seed := first; seed < first+rounds; seed++ {
		for _, on := range []string{"embedded", "buffered", "direct"} {
			t.Run(fmt.Sprintf("%s/seed=%d", on, seed), func(t *testing.T) {
				t.Parallel()
				w := newSweeping(t, on, seed)
				w.run()
				amid.Add(int64(w.amid))
			})
		}
	}
}

func newSweeping(t *testing.T, on string, seed uint64) *sweeping {
	w := &sweeping{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Now().Truncate(time.Second), servers: 1, dir: t.TempDir()}
	w.rules = filepath.Join(t.TempDir(), "halite.yml")
	require.NoError(t, os.WriteFile(w.rules, []byte(sweptRules), 0o600))
	w.tool = []string{"--storage.path", w.dir}
	w.flags = []string{"--no-web.self-scrape"}
	if on != "embedded" {
		startEmulator(t)
		w.flags, w.tool = onBigtable(), append(w.tool, bigtableFlags...)
	}
	if on == "direct" {
		w.servers, w.dir = 2, nowhere(t)
		// A pass over rollups has to be done within the delay.
		w.flags = direct("--bigtable.pack-delay=10s", "--bigtable.pack-interval=50ms", "--bigtable.lease=900ms")
	}
	return w
}

// run fills the tables without rules and computes rollups. Then servers with rules sweep the tables.
func (w *sweeping) run() {
	w.filled(append(slices.Clone(w.flags), "--no-storage.rollups"))
	w.flags = append(w.flags, "--storage.rollups")
	w.rolledUp()
	w.before = w.dump()
	w.flags = append(w.flags, "--config.file", w.rules)
	kills := 2
	if testing.Short() {
		kills = 1
	}
	for n := range kills {
		w.killSweeper(n)
		w.compare(false)
	}
	servers := w.launch()
	for _, s := range servers {
		s.awaitReady()
		w.runQueries(s)
	}
	require.Eventually(w.t, func() bool {
		return slices.ContainsFunc(servers, func(s *server) bool { return s.metric("tsdb_retention_last_sweep_timestamp_seconds") > 0 })
	}, time.Minute, 20*time.Millisecond, "%s", servers[0].log)
	for _, s := range servers {
		w.runQueries(s)
		require.NoError(w.t, s.end(syscall.SIGTERM), s.log)
	}
	w.compare(true)
}

// filled writes samples of each day, at a time of the day that is far from the end of every age. Servers compute a day
// up to half an hour after its end, so in the first hour of a day no samples belong to yesterday.
func (w *sweeping) filled(flags []string) {
	s := startServer(w.t, w.dir, flags...)
	newest := w.now.Add(-12 * time.Hour)
	if w.now.UTC().Hour() == 0 {
		newest = newest.Add(-24 * time.Hour)
	}
	for day := range sweptDays {
		var points []point
		at := newest.Add(-time.Duration(day) * 24 * time.Hour)
		add := func(kind string, n int) {
			points = append(points, point{fmt.Sprintf("%s_%03d", kind, n), fmt.Sprint(n), at.UnixMilli(), float64(day*1000 + n)})
		}
		for n := range sweptDebug {
			add("debug", n)
		}
		for n := range sweptTrace {
			add("trace", n)
		}
		for n := range sweptKept {
			add("kept", n)
		}
		s.write(points)
	}
	if w.servers > 1 { // packed before the test reads them
		require.Eventually(w.t, func() bool {
			out, err := tsdb(w.t, append([]string{"inspect", "keys", "--table=meta", "--prefix=pack#"}, w.tool...)...)
			return err == nil && out == ""
		}, time.Minute, 50*time.Millisecond)
	}
	require.NoError(w.t, s.end(syscall.SIGTERM), s.log)
}

// rolledUp lets a server compute rollups of all days, and records the responses for later comparison.
func (w *sweeping) rolledUp() {
	s := startServer(w.t, w.dir, w.flags...)
	require.Eventually(w.t, func() bool {
		return s.metric(`tsdb_rollup_passes_total\{kind="whole"\}`) >= sweptDays-2 && s.metric("tsdb_rollup_pending_day_passes") == 0
	}, 5*time.Minute, 50*time.Millisecond, "%s", s.log)
	w.runQueries(s)
	require.NoError(w.t, s.end(syscall.SIGTERM), s.log)
}

// questions are queries of samples that all rules keep, and of rollups that outlive their samples.
func (w *sweeping) questions() (out []url.Values) {
	for _, q := range []struct{ pattern, span, tiers string }{
		{"kept_.*", "8d", "raw"}, {"kept_.*", "8d", "auto"}, {"debug_.*", "40h", "raw"}, {"trace_.*", "88h", "raw"},
		{"debug_.*", "8d", "auto"},
	} {
		selected := fmt.Sprintf(`{__name__=~%q}[%s]`, q.pattern, q.span)
		query := "sum(sum_over_time(" + selected + ")) + count(count_over_time(" + selected + ")) / 1024"
		out = append(out, url.Values{"query": {query},
			"time": {fmt.Sprint(w.now.Unix())}, "tiers": {q.tiers}})
	}
	return out
}

// runQueries demands the responses that a server gave first.
func (w *sweeping) runQueries(s *server) {
	w.t.Helper()
	for n, q := range w.questions() {
		code, a := s.get("/api/v1/query", q)
		require.Equal(w.t, http.StatusOK, code, a.Error)
		if n == len(w.responses) {
			require.Contains(w.t, string(a.Data), `"value"`)
			w.responses = append(w.responses, string(a.Data))
		}
		require.Equal(w.t, w.responses[n], string(a.Data), "%v", q)
	}
}

func (w *sweeping) launch() (servers []*server) {
	for range w.servers {
		servers = append(servers, launch(w.t, w.dir, freeAddress(w.t), w.flags...))
	}
	return servers
}

// killSweeper kills a server that sweeps, at once or after a while. Others get queries and are then killed, too.
func (w *sweeping) killSweeper(n int) {
	servers, after := w.launch(), time.Duration(0)
	if n > 0 {
		after = time.Duration(w.rng.IntN(120)) * time.Millisecond
	}
	rows := func(s *server) (sum float64) {
		for _, tier := range []string{"raw", "hours"} {
			sum += max(0, s.metric(`tsdb_retention_freed_rows_total\{tier="`+tier+`"\}`))
		}
		return sum
	}
	var sweeps *server
	for until := time.Now().Add(time.Minute); sweeps == nil; time.Sleep(2 * time.Millisecond) {
		require.True(w.t, time.Now().Before(until), "nobody sweeps:\n%s", servers[0].log)
		for _, s := range servers {
			if rows(s) > 0 || s.metric("tsdb_retention_last_sweep_timestamp_seconds") > 0 {
				sweeps = s
			}
		}
	}
	var asking sync.WaitGroup
	asking.Go(func() { w.queryUntilGone(sweeps) })
	time.Sleep(after)
	freed, done := rows(sweeps), sweeps.metric("tsdb_retention_last_sweep_timestamp_seconds") > 0
	require.Error(w.t, sweeps.end(syscall.SIGKILL))
	asking.Wait()
	if !done {
		w.amid++
	}
	w.t.Logf("killed after %.0f rows, sweep done: %t", freed, done)
	for _, s := range servers {
		if s != sweeps {
			s.awaitReady()
			w.runQueries(s)
			require.Error(w.t, s.end(syscall.SIGKILL))
		}
	}
}

// queryUntilGone queries a server until it is killed. The server may fail to answer, but never answers wrong.
func (w *sweeping) queryUntilGone(s *server) {
	for {
		for n, q := range w.questions() {
			resp, err := http.Get(s.url + "/api/v1/query?" + q.Encode())
			if err != nil {
				return
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && resp.StatusCode == http.StatusOK && !strings.Contains(string(text), w.responses[n]) {
				w.t.Errorf("%v during a sweep: %s", q, text)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// dump returns the cells of samples and rollups, by row and cell.
func (w *sweeping) dump() map[string]string {
	all := map[string]string{}
	for _, table := range []string{"data", "rollup"} {
		out, err := tsdb(w.t, append([]string{"inspect", "rows", "--verbose", "--limit=0", "--table", table}, w.tool...)...)
		require.NoError(w.t, err, out)
		row, cell := "", ""
		for line := range strings.Lines(out) {
			switch {
			case !strings.HasPrefix(line, "  "):
				row = table + " " + line
			case !strings.HasPrefix(line, "    "):
				cell = row + line
				all[cell] = ""
			default:
				all[cell] += line
			}
		}
	}
	require.Greater(w.t, len(all), sweptDays*(sweptDebug+sweptTrace+sweptKept), "cells of samples, and of rollups")
	return all
}

// compare demands that only expired cells are gone since before, and at the end that all of them are gone.
func (w *sweeping) compare(swept bool) {
	w.t.Helper()
	now := w.dump()
	for _, cell := range slices.Sorted(maps.Keys(w.before)) {
		text, there := now[cell]
		if there {
			require.Equal(w.t, w.before[cell], text, "%s", cell)
		}
		due, must := w.due(cell)
		require.True(w.t, there || due, "gone although it is kept: %s", cell)
		require.False(w.t, there && must && swept, "not gone: %s", cell)
	}
	for cell := range now {
		_, there := w.before[cell]
		require.True(w.t, there, "nobody has written %s", cell)
	}
}

// due reports whether a cell may be gone, and whether it must be gone after a sweep, by its metric's rule. Hours of an
// open month stay until its days are computed.
func (w *sweeping) due(cell string) (may, must bool) {
	table, key, _ := strings.Cut(cell, " ")
	key, rest, _ := strings.Cut(key, "\n")
	days := map[string]int{"data debug": 2, "data trace": 4, "rollup trace": 5}[table+" "+key[:min(5, len(key))]]
	if days == 0 || table == "rollup" && !strings.HasPrefix(rest, "  h:") {
		return false, false
	}
	_, at, found := strings.Cut(rest, " @ ")
	require.True(w.t, found, cell)
	ts, err := time.Parse(time.RFC3339, at[:len("2006-01-02T15:04:05Z")])
	require.NoError(w.t, err, cell)
	first := func(now time.Time) int64 {
		return now.Add(-sweptGrace).Add(-time.Duration(days)*24*time.Hour).UnixMilli() / (keyschema.DayHours * keyschema.HourMs)
	}
	day := ts.UnixMilli() / (keyschema.DayHours * keyschema.HourMs)
	return day < first(time.Now()), day < first(w.now) && table == "data"
}
