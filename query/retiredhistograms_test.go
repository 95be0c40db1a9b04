package query_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// TestRetiredHistogramsWarn: the result of a window that begins before the retention of histograms has a warning. The warning
// says that hourly histograms answer, or that the result lacks histograms because those have expired too. Floats and later
// windows have no warning.
func TestRetiredHistogramsWarn(t *testing.T) {
	const fromMs = int64(20_000) * dayMs
	clock := new(atomic.Int64)
	clock.Store(fromMs + 2*dayMs)
	s := openStackWith(t, vfs.NewMem(), stackOptions{
		tiers: true, clock: clock, raw: 48 * time.Hour, hours: 100 * 24 * time.Hour, days: 200 * 24 * time.Hour,
	})
	defer func() { require.NoError(t, s.Close()) }()
	for ts := fromMs + hourMs; ts < clock.Load(); ts += hourMs / 4 {
		a, b := labels.FromStrings("__name__", "hist", "job", "a"), labels.FromStrings("__name__", "plain", "job", "b")
		h := ingest.Sample{Labels: a, TsMs: ts, H: tsdbutil.GenerateTestHistogram(ts / 1000)}
		s.write([]ingest.Sample{h, {Labels: b, TsMs: ts, Value: 1}})
	}
	s.flush()
	s.rollUp()
	e := newQueryEngine(t, s, query.On)
	run := func(text string) ([]string, int) {
		res, err := e.Instant(context.Background(), query.InstantRequest{Query: text, TimeMs: clock.Load()})
		require.NoError(t, err)
		defer res.Close()
		warnings, _ := res.Warnings.AsStrings(text, 0, 0)
		return warnings, len(points(res.Value))
	}
	old := []string{"answered from hourly histograms of schema 1 at most: native histograms of metric hist before " +
		"2024-10-05T00:00:00Z are retired"}
	for range 2 {
		warnings, series := run("increase(hist[1d])")
		require.Empty(t, warnings)
		require.Equal(t, 1, series)
		clock.Add(dayMs)
		warnings, _ = run("increase(hist[3d])")
		require.Equal(t, old, warnings)
		warnings, _ = run("histogram_count({__name__=~'hi.*'} offset 50h)")
		require.Equal(t, old, warnings)
		warnings, _ = run("histogram_count({job='a'} offset 50h)")
		require.Equal(t, old, warnings)
		warnings, _ = run("count_over_time({job='b'}[3d])")
		require.NotContains(t, warnings, old[0])
		warnings, series = run("count_over_time(plain[3d])")
		require.NotContains(t, warnings, old[0])
		require.Equal(t, 1, series)
		clock.Add(-dayMs)
	}
	clock.Add(10 * dayMs)
	warnings, series := run("sum(rate(hist[20d]))")
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "answered from hourly histograms")
	require.Equal(t, 1, series)
	clock.Add(200 * dayMs)
	warnings, series = run("sum(rate(hist[300d]))")
	require.Equal(t, []string{"native histograms of metric hist are kept for 100d: the result lacks older ones"}, warnings)
	require.Zero(t, series)
}

// TestHistogramsForEverNeverWarn: a window that begins before 1970 has no warning if histograms are kept forever.
func TestHistogramsForEverNeverWarn(t *testing.T) {
	clock := new(atomic.Int64)
	clock.Store(10 * dayMs)
	s := openStackWith(t, vfs.NewMem(), stackOptions{tiers: true, clock: clock})
	defer func() { require.NoError(t, s.Close()) }()
	s.write([]ingest.Sample{{Labels: labels.FromStrings("__name__", "hist"), H: tsdbutil.GenerateTestHistogram(1)}})
	e := newQueryEngine(t, s, query.On)
	for _, atMs := range []int64{-1, 0, 60_000} {
		res, err := e.Instant(context.Background(), query.InstantRequest{Query: "histogram_count(hist)", TimeMs: atMs})
		require.NoError(t, err)
		require.Empty(t, res.Warnings)
		res.Close()
	}
}
