package main_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReloadOfRunningServer changes the rules of a server by /-/reload and by SIGHUP. Both give the reason of a
// refusal. /-/quit ends the server.
func TestReloadOfRunningServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "halite.yml")
	const first, second = `{pattern: bus, from_hour: 0, salts: 4}`, `{pattern: bus, from_hour: %d, salts: %d}`
	put := func(text string, args ...any) {
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, text, args...), 0o600))
	}
	put("schema_rules: [" + first + "]")
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-lifecycle", "--config.file", file)
	rules := func() string {
		_, a := s.get("/api/v1/status/schema", nil)
		return string(a.Data)
	}
	require.Contains(t, rules(), `"salts":4`)
	inForce := func() string {
		_, a := s.get("/api/v1/status/config", nil)
		return string(a.Data)
	}
	require.Contains(t, inForce(), "schema_rules:")
	require.Equal(t, 1.0, s.metric("tsdb_config_last_reload_successful"))
	taken := s.metric("tsdb_config_last_reload_success_timestamp_seconds")
	require.Positive(t, taken)
	hour := time.Now().Unix() / 3600

	put("schema_rules: ["+first+","+second+"]", hour+2, 8)
	status, text, _ := s.post("/-/reload", nil)
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, rules(), `"salts":8`)

	put("schema_rules: ["+first+","+second+","+second+"]", hour+2, 8, hour+3, 16)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	third := fmt.Sprintf(`{"pattern":"bus","from_hour":%d,"salts":16,`, hour+3)
	require.Eventually(t, func() bool { return strings.Contains(rules(), third) }, time.Minute, 10*time.Millisecond)

	put("schema_rules: ["+first+","+second+"]", hour, 64)
	status, text, _ = s.post("/-/reload", nil)
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, text, "must start after hour")
	require.NotContains(t, rules(), `"salts":64`)
	_, a := s.get("/api/v1/status/runtimeinfo", url.Values{})
	require.Contains(t, string(a.Data), `"reloadConfigSuccess":false`)
	require.Zero(t, s.metric("tsdb_config_last_reload_successful"))
	require.Zero(t, s.metric("prometheus_config_last_reload_successful"))
	require.Greater(t, s.metric("tsdb_config_last_reload_success_timestamp_seconds"), taken)

	before := inForce()
	put("schema_rules:\n  - pattern: bus\n    sallts: 4\n")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool {
		return strings.Contains(s.log.String(), "halite.yml: line 3, column 5, field schema_rules[0].sallts: unknown key")
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, before, inForce())

	put("schema_rules: [{pattern: bus, salts: 16}, {pattern: new_*, salts: 2}]")
	status, text, _ = s.post("/-/reload", nil)
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, rules(), third, "the rule that comes is kept")
	require.Regexp(t, `"pattern":"new_\*","from_hour":(`+fmt.Sprintf("%d|%d", hour+1, hour+2)+`),"salts":2`, rules())
	require.Equal(t, 1.0, s.metric("prometheus_config_last_reload_successful"))

	status, text, _ = s.post("/-/quit", nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "Requesting termination... Goodbye!", text)
	require.NoError(t, s.ended("/-/quit"))
}

// TestConfigOnData starts a server whose store holds samples with each example of the documents. New rules begin with the next
// hour, and `tsdb check config` has said so before.
func TestConfigOnData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api")
	now := time.Now()
	s.write(wave("vehicle_position", 3, now.Add(-time.Minute), now, 15*time.Second))
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Equal(t, http.StatusNoContent, status, text)
	for _, doc := range []string{"schema.md", "configuration.md"} {
		src, err := os.ReadFile(filepath.Join("../../docs", doc))
		require.NoError(t, err)
		_, example, _ := strings.Cut(string(src), "```yaml\n")
		example, _, ok := strings.Cut(example, "```\n")
		require.True(t, ok)
		if before, after, ok := strings.Cut(example, "tenants:\n"); ok { // The server has no --tenants.
			_, after, _ = strings.Cut(after, "\n\n")
			example = before + after
		}
		file := filepath.Join(t.TempDir(), "halite.yml")
		require.NoError(t, os.WriteFile(file, []byte(example), 0o600))
		before, err := runTsdb(t, "check", "config", file, "--url", s.url)
		require.NoError(t, err, before)
		require.Contains(t, before, file+" is valid: 2 schema rules")
		if doc == "schema.md" {
			require.Regexp(t, `\+ {"pattern":"http_\*","from_hour":\d+,"salts":64,.*, from 20\d\d-\d\d-\d\dT\d\d:00:00Z`, before)
		} else {
			require.Contains(t, before, `+ {"pattern":"debug_*","retention":{"raw":"2d","hours":"2w"}}, at once`)
			require.NotContains(t, before, "http_*", "the rules of the first file hold")
		}
		require.NoError(t, s.end(syscall.SIGTERM))
		s = startServer(t, dir, "--no-web.self-scrape", "--config.file", file)
		require.Len(t, s.series("vehicle_position", now, "1h"), 3)
		after, err := runTsdb(t, "check", "config", file, "--url", s.url)
		require.NoError(t, err, after)
		require.Contains(t, after, "nothing would change")
	}
	file := filepath.Join(t.TempDir(), "halite.yml")
	for src, want := range map[string]string{
		"schema_rules: [{pattern: http_*, from_hour: 3}]": "would refuse " + file + ": bad schema rules",
		"tenants: [{name: acme, series: {max: 5}}]":       "would refuse " + file + ": tenants: the server has no --tenants",
		"retention_rules: [{pattern: a, hours: 1d}]":      "would refuse " + file + ": retention rules: ",
		"limits: {series: many":                           "line 1",
	} {
		require.NoError(t, os.WriteFile(file, []byte(src), 0o600))
		out, err := runTsdb(t, "check", "config", file, "--url", s.url)
		require.Error(t, err)
		require.Contains(t, out, want)
	}
	require.NoError(t, s.end(syscall.SIGTERM))
}
