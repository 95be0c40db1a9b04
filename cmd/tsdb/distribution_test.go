package main_test

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/loadtest/distribution"
	"halite/loadtest/report"
)

const (
	spreadSeries  = 20_000 // HALITE_SPREAD_SERIES=1000000 tests the full size
	spreadTablets = 10
	spreadMax     = 1.2 // max/mean
)

// TestWritesSpread loads a metric with random ids, one with sequential ids, and metrics whose sizes follow Zipf's law. By
// the server's own count, all salts and tablets must get about the same load. One series must remain one range of rows.
func TestWritesSpread(t *testing.T) {
	series := spreadSeries
	if text := os.Getenv("HALITE_SPREAD_SERIES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		series = n
	}
	for _, profile := range []string{"hot", "sequential", "zipf"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			spreadOf(t, profile, series)
		})
	}
}

func spreadOf(t *testing.T, profile string, series int) {
	dir := t.TempDir()
	load := func(s *server, from, to, interval string) (r report.Report) {
		loadtestReport(t, &r, "--url", s.url, "--output", "json", "--profile", profile, "--series", strconv.Itoa(series),
			"--from", from, "--to", to, "--interval", interval, "--settle", "0s", "--no-freshness", "--verify", "2",
			"--dir", dir, "--flush", s.url+"/api/v1/admin/flush")
		require.True(t, r.Verification.Passed(), "%+v", r.Verification)
		return r
	}
	flags := []string{"--no-web.self-scrape", "--web.enable-admin-api"}
	// The first load splits the tablets.
	s := startServer(t, dir, append(flags, "--storage.tablet-rows", strconv.Itoa(series/spreadTablets))...)
	load(s, "1m", "0s", "1m")
	require.NoError(t, s.end(syscall.SIGTERM))

	s = startServer(t, dir, flags...)
	r := load(s, "5h", "10m", "30m")
	require.Len(t, r.Distribution.Salts, 1)
	salts, tablets := r.Distribution.Salts[0], r.Distribution.Tablets
	t.Logf("%s: %d tablets; rows %.3f bytes %.3f; salts: rows %.3f bytes %.3f", profile, tablets.RowsWritten.Ranges,
		tablets.RowsWritten.MaxOverMean, tablets.BytesWritten.MaxOverMean, salts.Rows.MaxOverMean, salts.Bytes.MaxOverMean)
	require.Equal(t, series, salts.Series)
	require.Equal(t, 16, salts.Rows.Ranges)
	require.Less(t, salts.Samples.MaxOverMean, salts.Samples.Bound)
	require.GreaterOrEqual(t, tablets.RowsWritten.Ranges, 8)
	require.Positive(t, tablets.CountedSeconds, "tablets must not split during the load")
	for name, skew := range map[string]distribution.Skew{
		"rows by salt": salts.Rows, "bytes by salt": salts.Bytes, "samples by key": tablets.Samples, "rows by key": tablets.Rows,
		"rows written": tablets.RowsWritten, "bytes written": tablets.BytesWritten,
	} {
		require.LessOrEqual(t, skew.MaxOverMean, spreadMax, "%s: %v", name, skew.Loads)
	}
	written := int64(0)
	for _, n := range tablets.RowsWritten.Loads {
		written += n
	}
	require.GreaterOrEqual(t, written, int64(4*series), "rows of each series and hour")
	oneSeriesIsOneRange(t, s, time.Now())
}

// oneSeriesIsOneRange explains queries of some series. Each must read one range of rows per day and use every row.
func oneSeriesIsOneRange(t *testing.T, s *server, now time.Time) {
	status, a := s.get("/api/v1/series", url.Values{"match[]": {`{job="loadtest"}`}, "limit": {"3"}})
	require.Equal(t, 200, status, a.Error)
	for text := range strings.SplitSeq(strings.Trim(string(a.Data), "[]{}"), "},{") {
		selector := "{"
		for pair := range strings.SplitSeq(text, ",") {
			name, value, _ := strings.Cut(pair, ":")
			selector += strings.Trim(name, `"`) + "=" + value + ","
		}
		e := s.explain(fmt.Sprintf("count_over_time(%s}[6h])", selector), now)
		require.Equal(t, 1, e.Reading.Series, selector)
		require.Equal(t, e.Reading.RowsRead, e.Reading.RowsUsed)
		days := now.Unix()/86400 - now.Add(-6*time.Hour).Unix()/86400 + 1
		require.LessOrEqual(t, e.Reading.Ranges, int(days))
		require.Positive(t, e.Reading.RowsRead)
		for _, scan := range e.Reading.Scans {
			require.Equal(t, 1, scan.Ranges)
			require.GreaterOrEqual(t, scan.First, scan.Last, "newest first")
		}
	}
}
