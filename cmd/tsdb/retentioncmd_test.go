package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/retention"
)

// runTsdb runs a command and returns what it printed.
func runTsdb(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := command(t, args...).CombinedOutput()
	return string(out), err
}

// TestRetentionCommand shows the cost of metrics from a server, and then from its tables.
func TestRetentionCommand(t *testing.T) {
	t.Parallel()
	dir, rules := t.TempDir(), filepath.Join(t.TempDir(), "halite.yml")
	putRules := func(text string) { require.NoError(t, os.WriteFile(rules, []byte(text), 0o600)) }
	putRules(`retention_rules: [{pattern: debug_*, raw: 3d, histograms: 2d}]`)
	s := startServer(t, dir, "--web.enable-admin-api", "--no-web.self-scrape", "--config.file", rules)
	var points []point
	for _, metric := range []string{"debug_a", "kept"} {
		for h := range 23 {
			points = append(points, point{metric, "a", time.Now().Add(-time.Duration(h) * 3 * time.Hour).UnixMilli(), float64(h)})
		}
	}
	s.write(points)
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Equal(t, 204, status, text)

	costs := func(args ...string) []retention.Cost {
		t.Helper()
		out, err := runTsdb(t, append([]string{"retention", "--output=json"}, args...)...)
		require.NoError(t, err, out)
		var costs []retention.Cost
		require.NoError(t, json.Unmarshal([]byte(out), &costs))
		return costs
	}
	check := func(costs []retention.Cost) {
		t.Helper()
		require.Len(t, costs, 8, "two rules of four tiers")
		require.Equal(t, "debug_*", costs[0].Pattern)
		day := keyschema.AgeMin
		require.Equal(t, []keyschema.Age{3 * day, 30 * day, 2 * day, 30 * day},
			[]keyschema.Age{costs[0].Age, costs[1].Age, costs[6].Age, costs[7].Age})
		for _, c := range costs[:2] {
			require.Positive(t, c.OldestMs)
			require.Positive(t, c.FreedBytes, "a day would go of %s", c.Pattern)
			require.Less(t, c.FreedBytes, c.Bytes)
			require.Equal(t, day, c.NewAge)
		}
		require.Zero(t, costs[2].Bytes)
	}
	check(costs("--url", s.url, "--raw=1d"))
	one := costs("--url", s.url, "--raw=1d", "--rule=debug_*")
	require.Positive(t, one[0].FreedBytes)
	require.Zero(t, one[1].FreedBytes)
	for _, c := range [][2]string{{"--rule=nobody", "nobody"}, {"--hours=1h", "hours is 1h"},
		{"--histograms=31d", "histograms is 31d"}, {"--raw=x", "--raw"}} {
		out, err := runTsdb(t, "retention", "--url", s.url, c[0])
		require.Error(t, err, c[0])
		require.Contains(t, out, c[1])
	}
	require.NoError(t, s.end(syscall.SIGTERM))
	out, err := runTsdb(t, "retention", "--url", s.url)
	require.Error(t, err)
	require.Contains(t, out, "--offline")
	check(costs("--offline", "--storage.path", dir, "--raw=1d"))
	out, err = runTsdb(t, "retention", "--offline", "--storage.path", dir)
	require.NoError(t, err, out)
	require.Regexp(t, `(?s)WOULD FREE.*histograms.*debug_\*`, out)

	// Shorter than a day, or tiers out of order: the server does not start, and says which rule.
	for text, want := range map[string]string{
		"retention_rules:\n- pattern: debug_*\n  raw: 5h":        `line 3, column 8, field retention_rules[0].raw: 5h is shorter`,
		`retention_rules: [{pattern: debug_*, hours: 2d}]`:       `"debug_*": retention.hours is 2d`,
		`retention_rules: [{pattern: debug_*, histograms: 31d}]`: `"debug_*": retention.histograms is 31d`,
	} {
		putRules(text)
		out, err := runTsdb(t, "serve", "--storage.path", dir, "--web.listen-address", freeAddress(t), "--config.file", rules)
		require.Error(t, err)
		require.Contains(t, out, want)
	}
}
