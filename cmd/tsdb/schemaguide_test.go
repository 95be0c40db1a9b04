package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// guideSeries are the series of the examples of docs/schema.md.
func guideSeries() (series []seedSeries) {
	users := []string{"ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hana", "ines", "jon"}
	fields := []string{"humidity", "pressure", "temperature", "wind"}
	for i := range 40 {
		for _, origin := range []string{"LIS", "SFO", "ZRH"} {
			series = append(series, seed("__name__", "flight_delay_minutes", "arrival", fmt.Sprintf("2026-11-%02d", 10+i%8),
				"flight", fmt.Sprint(100+i), "origin", origin))
		}
		for _, highway := range []string{"I-80", "US-101"} {
			series = append(series, seed("__name__", "highway_speed", "direction", []string{"E", "W"}[i%2], "highway", highway,
				"mile", fmt.Sprintf("%04d", i/2)))
		}
		series = append(series, seed("__name__", "vehicle_speed", "route", fmt.Sprint(i%5), "vehicle", fmt.Sprintf("bus-%03d", i)))
		for _, metric := range []string{"device_memory_bytes", "device_disk_bytes"} {
			series = append(series, seed("__name__", metric, "building", fmt.Sprint("b", i/10), "device", fmt.Sprintf("pc-%04d", i)))
		}
		domain := []string{"example.com", "example.org", "test.example", "notexample.com"}[i%4]
		series = append(series, seed("__name__", "page_views", "host", fmt.Sprintf("h%02d.%s", i, domain)))
		station := fmt.Sprint("s", i/4)
		series = append(series, seed("__name__", "station_reading", "field", fields[i%4], "station", station),
			seed("__name__", "station_"+fields[i%4], "station", station))
	}
	for _, user := range users {
		for _, other := range users {
			if user != other {
				series = append(series, seed("__name__", "user_follows", "followed", other, "user", user),
					seed("__name__", "user_followed_by", "followed", user, "user", other))
			}
		}
	}
	return series
}

// TestSchemaGuide runs the examples of docs/schema.md: EXPLAIN gives the series and ranges of the table, and no query reads a row
// that it does not use.
func TestSchemaGuide(t *testing.T) {
	t.Parallel()
	text := documents(t)["docs/schema.md"]
	_, rules, ok := strings.Cut(text, "# example rules\n")
	require.True(t, ok)
	rules, _, _ = strings.Cut(rules, "```")
	file := filepath.Join(t.TempDir(), "halite.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-admin-api", "--config.file", file,
		"--query.row-cache-bytes=0")
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(-36 * time.Hour)
	s.fill(guideSeries(), 1, noon)
	row := regexp.MustCompile("(?m)^\\| ([^|]*) \\| `((?:[^|]|\\\\\\|)*)` \\| (\\d+) \\| (\\d+) \\|$")
	var shown, got []string
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		e := s.explain(strings.ReplaceAll(m[2], `\|`, "|"), noon.Add(-10*time.Minute))
		require.Equal(t, e.Reading.RowsRead, e.Reading.RowsUsed, m[1])
		shown = append(shown, fmt.Sprint(m[1], ": ", m[3], " series, ", m[4], " ranges"))
		got = append(got, fmt.Sprint(m[1], ": ", e.Reading.Series, " series, ", e.Reading.Ranges, " ranges"))
	}
	require.Greater(t, len(shown), 10)
	require.Equal(t, shown, got)
}
