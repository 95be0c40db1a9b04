package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// seedRules lay out three worlds: flights by origin and arrival date, the speed on a highway by mile markers, and vehicles
// by route.
const seedRules = `
schema_rules:
  - {pattern: flight_delay_minutes, promoted: [origin, arrival], basis: promoted, salt_tags: 1}
  - {pattern: highway_speed, promoted: [highway, mile], basis: promoted, salt_tags: 1}
  - {pattern: vehicle_speed, promoted: [route], basis: promoted}
`

// explained is the part of EXPLAIN about reading.
type explained struct {
	Reading struct {
		Series   int `json:"series"`
		Ranges   int `json:"ranges"`
		RowsRead int `json:"rowsRead"`
		RowsUsed int `json:"rowsUsed"`
		Cached   int `json:"rowsCached"`
		Scans    []struct {
			Day      string  `json:"day"`
			Ranges   int     `json:"ranges"`
			Start    string  `json:"start"`
			End      string  `json:"end"`
			RowsRead int     `json:"rowsRead"`
			First    float64 `json:"firstRowHour"`
			Last     float64 `json:"lastRowHour"`
		} `json:"scans"`
	} `json:"reading"`
}

// seedSeries is a series with a value at a time.
type seedSeries struct {
	labels map[string]string
	order  []string
}

func seed(pairs ...string) (s seedSeries) {
	s.labels = make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		s.order = append(s.order, pairs[i])
		s.labels[pairs[i]] = pairs[i+1]
	}
	return s
}

// fill writes a sample of each series every ten minutes over some hours up to end, and has them flushed.
func (s *server) fill(series []seedSeries, hours int, end time.Time) {
	s.t.Helper()
	for at := end.Add(-time.Duration(hours) * time.Hour); at.Before(end); at = at.Add(time.Hour) {
		var req prompb.WriteRequest
		for i, x := range series {
			var ts prompb.TimeSeries
			for _, name := range x.order {
				ts.Labels = append(ts.Labels, prompb.Label{Name: name, Value: x.labels[name]})
			}
			for minute := 0; minute < 60; minute += 10 {
				tsMs := at.Add(time.Duration(minute) * time.Minute).UnixMilli()
				ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: tsMs, Value: float64(i + minute)})
			}
			req.Timeseries = append(req.Timeseries, ts)
		}
		body, err := req.Marshal()
		require.NoError(s.t, err)
		status, text, _ := s.post("/api/v1/write", snappy.Encode(nil, body))
		require.Equal(s.t, http.StatusNoContent, status, text)
	}
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Equal(s.t, http.StatusNoContent, status, text)
}

// explain gets the plan of an instant query.
func (s *server) explain(query string, at time.Time) (e explained) {
	s.t.Helper()
	params := url.Values{"query": {query}, "time": {strconv.FormatInt(at.Unix(), 10)}}
	status, a := s.get("/api/v1/explain", params)
	require.Equal(s.t, http.StatusOK, status, a.Error)
	require.NoError(s.t, json.Unmarshal(a.Data, &e))
	return e
}

// TestSeedsOfTheModel runs the queries that the data model is made for. Each reads one range of rows a day, needs all of these
// rows, and reads the newest first. Later queries find some of the rows decoded and read a range of the others.
func TestSeedsOfTheModel(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "halite.yml")
	require.NoError(t, os.WriteFile(rules, []byte(seedRules), 0o600))
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-admin-api", "--config.file", rules)
	var series []seedSeries
	for i := range 40 {
		for _, origin := range []string{"LIS", "SFO", "ZRH"} {
			series = append(series, seed("__name__", "flight_delay_minutes", "airline", fmt.Sprintf("A%d", i%4),
				"arrival", fmt.Sprintf("2026-11-%02d", 10+i%8), "flight", fmt.Sprint(100+i), "origin", origin))
		}
		for _, highway := range []string{"I-80", "US-101"} {
			series = append(series, seed("__name__", "highway_speed", "direction", []string{"E", "W"}[i%2], "highway", highway,
				"mile", fmt.Sprintf("%04d", i/2)))
		}
		series = append(series, seed("__name__", "vehicle_speed", "depot", fmt.Sprint(i%3), "route", fmt.Sprint(i%5),
			"vehicle", fmt.Sprintf("bus-%03d", i)))
	}
	// The last day begins at noon of two days ago, so that there are two day buckets, both closed.
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(-36 * time.Hour)
	s.fill(series, 18, noon)
	for _, c := range []struct {
		what, query  string
		series, rows int
		days         int
		start        string // of the rows
	}{
		{"flights by origin and arrival date", `flight_delay_minutes{origin="SFO",arrival="2026-11-12"}`, 5, 5, 1,
			"#origin=SFO,arrival=2026-11-12,"},
		{"speed between two mile markers", `highway_speed{highway="I-80",mile=~"000[4-9]|001[0-2]"}`, 18, 18, 1,
			"#highway=I-80,mile=0004,"},
		{"vehicles of a route", `vehicle_speed{route="3"}`, 8, 8, 1, "#route=3,"},
		{"flights over both days", `sum_over_time(flight_delay_minutes{origin="SFO",arrival="2026-11-12"}[18h])`, 5, 5 * 18, 2,
			"#origin=SFO,arrival=2026-11-12,"},
		{"miles over both days", `max_over_time(highway_speed{highway="I-80",mile=~"000[4-9]|001[0-2]"}[18h])`, 18, 18 * 18, 2,
			"#highway=I-80,mile=0004,"},
		{"route over both days", `avg_over_time(vehicle_speed{route="3"}[18h])`, 8, 8 * 18, 2, "#route=3,"},
		{"one vehicle", `max_over_time(vehicle_speed{route="4",vehicle="bus-004"}[18h])`, 1, 18, 2, "#route=4,depot=1,vehicle=bus-004"},
	} {
		e := s.explain(c.query, noon.Add(-10*time.Minute))
		require.Equal(t, c.series, e.Reading.Series, c.what)
		require.Equal(t, c.rows, e.Reading.RowsRead+e.Reading.Cached, c.what)
		require.Equal(t, e.Reading.RowsRead, e.Reading.RowsUsed, c.what)
		require.Positive(t, e.Reading.RowsRead, c.what)
		require.Equal(t, c.days, e.Reading.Ranges, "%s: one range a day", c.what)
		require.Len(t, e.Reading.Scans, c.days, c.what)
		for i, scan := range e.Reading.Scans {
			require.Equal(t, 1, scan.Ranges, c.what)
			require.Equal(t, noon.Add(-time.Duration(i)*24*time.Hour).Add(-time.Hour).Format(time.DateOnly), scan.Day, "newest day first")
			require.Contains(t, scan.Start, c.start, c.what)
			fields := strings.Split(scan.Start, "#")
			require.True(t, strings.HasPrefix(scan.End, fields[0]+"#"+fields[1]+"#"), "%s: one salt: %+v", c.what, scan)
			if c.days > 1 {
				require.Greater(t, scan.First, scan.Last, "%s: newest hour first", c.what)
			}
		}
	}
	require.Empty(t, s.explain(`vehicle_speed{route="none"}`, noon).Reading.Scans)
}
