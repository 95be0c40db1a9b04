package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// metric is the value of a metric without labels; -1 if the server does not answer.
func (s *server) metric(name string) float64 {
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return -1
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+?)\s*$`).FindSubmatch(text)
	if found == nil {
		return -1
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return -1
	}
	return value
}

// killed holds two servers in mode direct. The test kills each of them in turn, in the middle of its work.
type killed struct {
	t     *testing.T
	pair  [2]*server
	flags []string
	end   time.Time // of the samples
	want  []point   // all that was acknowledged and not deleted
	sent  map[point]bool
	acked map[point]bool
	now   time.Time
}

// who returns the server whose metric is 1: the one that does this work.
func (k *killed) who(gauge string) int {
	k.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		for n, s := range k.pair {
			if s.metric(gauge) == 1 {
				return n
			}
		}
	}
	require.Fail(k.t, "nobody has "+gauge)
	return 0
}

// load writes to a server until it is gone.
func (k *killed) load(s *server, round int) {
	for i := 0; ; i++ {
		at := k.now.Add(-time.Duration(round*10_000+i) * time.Second / 10)
		batch := wave("faulty", 5, at, at.Add(time.Millisecond), time.Second)
		for _, p := range batch {
			k.sent[p] = true
		}
		resp, err := http.Post(s.url+"/api/v1/write", "application/x-protobuf", strings.NewReader(string(encodeWrite(batch))))
		if err != nil {
			return
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusNoContent {
			for _, p := range batch {
				k.acked[p] = true
			}
		}
	}
}

// killDuring kills a server once the counter moves, and replaces it. The server takes writes until then.
func (k *killed) killDuring(round, victim int, counter string, work func(other *server)) {
	k.t.Helper()
	s, other := k.pair[victim], k.pair[1-victim]
	before := s.metric(counter)
	var busy sync.WaitGroup
	busy.Go(func() { k.load(s, round) })
	busy.Go(func() { work(other) })
	moved := false
	for until := time.Now().Add(time.Minute); !moved && time.Now().Before(until); {
		moved = s.metric(counter) > before
	}
	require.True(k.t, moved, "%s has not moved", counter)
	require.Error(k.t, s.end(syscall.SIGKILL))
	busy.Wait()
	k.check(other)
	k.pair[victim] = startServer(k.t, nowhere(k.t), k.flags...)
}

// check demands that a server has all acknowledged samples and no deleted one, and that rollups give the same responses.
func (k *killed) check(s *server) {
	k.t.Helper()
	requirePoints(k.t, s, "rolled", k.end, k.want)
	s.day(k.t, k.end)
}

// late writes a sample to each row.
func (k *killed) late(s *server, round int) {
	points := wave("rolled", 60, k.end.Add(-5*time.Hour), k.end, time.Hour)
	for i := range points {
		points[i].tsMs += 7 + int64(round)
	}
	s.writeRetrying(points)
	k.want = append(k.want, points...)
}

// deleteSome deletes some samples of a series.
func (k *killed) deleteSome(s *server, n int) {
	from, to := k.end.Add(-4*time.Hour).UnixMilli(), k.end.Add(-2*time.Hour).UnixMilli()
	name := fmt.Sprint("host-", n)
	s.mustDelete("--match", fmt.Sprintf("rolled{instance=%q}", name), "--from", seconds(from), "--to", seconds(to))
	k.want = without(k.want, name, from, to)
}

// TestDirectKilledAtWork runs two servers that write late samples, delete, clean, pack and compute rollups. It kills one
// while it packs, while it checks states, or while it cleans. The other one continues. No acknowledged sample is lost, no
// deleted sample returns, and states equal the samples.
func TestDirectKilledAtWork(t *testing.T) {
	startEmulator(t)
	k := &killed{t: t, sent: map[point]bool{}, acked: map[point]bool{}, now: time.Now().Truncate(time.Second)}
	k.end = k.now.UTC().AddDate(0, 0, -3).Truncate(24 * time.Hour).Add(10 * time.Hour)
	k.flags = direct("--storage.rollups", "--web.enable-admin-api", "--bigtable.pack-delay=900ms", "--bigtable.pack-interval=50ms",
		"--bigtable.lease=1s")
	k.pair = [2]*server{startServer(t, nowhere(t), k.flags...), startServer(t, nowhere(t), k.flags...)}
	k.want = wave("rolled", 60, k.end.Add(-5*time.Hour), k.end, 10*time.Minute)
	k.pair[0].writeRetrying(k.want)
	eventuallyPoints(t, k.pair[1], "rolled", k.end, k.want)

	k.killDuring(1, k.who("tsdb_ingest_lease"), "tsdb_compactor_rows_total", func(other *server) {
		k.late(other, 1)
		k.deleteSome(other, 1)
	})
	k.killDuring(2, k.who("tsdb_rollup_lease"), "tsdb_rollup_series_total", func(other *server) {
		k.late(other, 2)
		k.deleteSome(other, 2)
	})
	const cleanedRows = "tsdb_tombstones_cleaned_rows_total"
	cleaned := k.pair[0].metric(cleanedRows)
	k.killDuring(3, 0, cleanedRows, func(other *server) {
		k.late(other, 3)
		k.deleteSome(other, 3)
		// The packing of late samples may clean the rows first. A deletion in rows without late samples is left to the cleaning.
		next := time.Now().Add(2 * time.Second)
		until := time.Now().Add(59 * time.Second)
		for n := 4; k.pair[0].metric(cleanedRows) == cleaned && time.Now().Before(until); {
			if time.Now().After(next) {
				k.deleteSome(other, n)
				n, next = n+1, time.Now().Add(2*time.Second)
			}
			resp, err := http.PostForm(k.pair[0].url+"/api/v1/admin/tsdb/clean_tombstones", url.Values{})
			if err == nil {
				resp.Body.Close()
			}
			time.Sleep(50 * time.Millisecond)
		}
	})

	clean, out := k.pair[1], ""
	for until := time.Now().Add(time.Minute); clean.metric("tsdb_tombstones") > 0; time.Sleep(200 * time.Millisecond) {
		require.True(t, time.Now().Before(until), "deletions stay: %s", out)
		out, _ = tsdb(t, "delete", "--url", clean.url, "--clean") // the lease of the killed server lasts for a while
		k.check(k.pair[0])
	}
	fresh := startServer(t, nowhere(t), k.flags...)
	for _, s := range []*server{k.pair[0], k.pair[1], fresh} {
		k.check(s)
	}
	requireFaulty(t, fresh, k.now, k.sent, k.acked)
	require.NotEmpty(t, k.acked)
}
