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

	"halite/loadtest"
)

const (
	spreadSeries  = 20_000 // HALITE_SPREAD_SERIES=1000000 proves it at full size
	spreadTablets = 10
	spreadMost    = 1.2 // max/mean
)

// TestWritesSpread loads a hot metric, one with a sequential id, and metrics whose sizes follow Zipf's law, and demands that
// salts and tablets get about the same of each, by the server's own count, while one series remains one range of rows.
func TestWritesSpread(t *testing.T) {
	series := spreadSeries
	if text := os.Getenv("HALITE_SPREAD_SERIES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		series = n
	}
	for _, profile := range []string{"hot", "sequential", "zipf"} {
		t.Run(profile, func(t *testing.T) { spreadOf(t, profile, series) })
	}
}

func spreadOf(t *testing.T, profile string, series int) {
	dir := t.TempDir()
	load := func(s *server, from, to, interval string) (r loadtest.Report) {
		loadtestReport(t, &r, "--url", s.url, "--format", "json", "--profile", profile, "--series", strconv.Itoa(series),
			"--from", from, "--to", to, "--interval", interval, "--settle", "0s", "--no-freshness", "--verify", "2",
			"--dir", dir, "--flush", s.url+"/api/v1/admin/flush")
		require.True(t, r.Verified.Passed(), "%+v", r.Verified)
		return r
	}
	flags := []string{"--no-web.self-scrape", "--web.enable-admin-api"}
	// The first load is what the tablets are divided by.
	s := startServer(t, dir, append(flags, "--storage.tablet-rows", strconv.Itoa(series/spreadTablets))...)
	load(s, "1m", "0s", "1m")
	require.NoError(t, s.end(syscall.SIGTERM))

	s = startServer(t, dir, flags...)
	r := load(s, "5h", "10m", "30m")
	t.Logf("%s: %d tablets; rows %.3f bytes %.3f; salts: rows %.3f bytes %.3f", profile, r.Spread.Tablets.RowsWritten.Ranges,
		r.Spread.Tablets.RowsWritten.MaxOverMean, r.Spread.Tablets.BytesWritten.MaxOverMean, r.Spread.Salts[0].Rows.MaxOverMean,
		r.Spread.Salts[0].Bytes.MaxOverMean)
	require.Len(t, r.Spread.Salts, 1)
	salts, tablets := r.Spread.Salts[0], r.Spread.Tablets
	require.Equal(t, series, salts.Series)
	require.Equal(t, 16, salts.Rows.Ranges)
	require.Less(t, salts.Samples.MaxOverMean, salts.Samples.Bound)
	require.GreaterOrEqual(t, tablets.RowsWritten.Ranges, 8)
	require.Positive(t, tablets.CountedSeconds, "the division did not change meanwhile")
	for what, spread := range map[string]loadtest.Spread{
		"rows by salt": salts.Rows, "bytes by salt": salts.Bytes, "samples by key": tablets.Samples, "rows by key": tablets.Rows,
		"rows written": tablets.RowsWritten, "bytes written": tablets.BytesWritten,
	} {
		require.LessOrEqual(t, spread.MaxOverMean, spreadMost, "%s: %v", what, spread.Loads)
	}
	written := int64(0)
	for _, n := range tablets.RowsWritten.Loads {
		written += n
	}
	require.GreaterOrEqual(t, written, int64(4*series), "rows of each series and hour")
	oneSeriesIsOneRange(t, s, time.Now())
}

// oneSeriesIsOneRange looks at some series of the load: all hours of each are one range a day, of which nothing is in vain.
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
