package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRetentionReloadOnBigtable shortens and lengthens a retention by reloads of servers on Bigtable. Each time the new retention
// holds at once for reads and writes of the server that has reloaded. A sample within all retentions is always there.
func TestRetentionReloadOnBigtable(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"buffered", "direct"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			startEmulator(t)
			file := filepath.Join(t.TempDir(), "halite.yml")
			rules := func(raw string) {
				text := fmt.Sprintf("retention_rules: [{pattern: e2e_*, raw: %s}]", raw)
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			rules("12d")
			flags, dir := []string{"--config.file", file, "--web.enable-lifecycle", "--web.enable-admin-api"}, t.TempDir()
			start := func() (servers []*server) {
				if mode == "buffered" {
					return []*server{startServer(t, dir, onBigtable(flags...)...)}
				}
				for range 2 {
					servers = append(servers, startServer(t, nowhere(t), direct(flags...)...))
				}
				return servers
			}
			changeRetention(t, start, rules)
		})
	}
}

func changeRetention(t *testing.T, start func() []*server, rules func(raw string)) {
	now := time.Now().Truncate(time.Second)
	const metric, span = "e2e_metric", "20d"
	old := wave(metric, 3, now.Add(-5*24*time.Hour), now.Add(-5*24*time.Hour).Add(time.Hour), time.Minute)
	young := wave(metric, 3, now.Add(-24*time.Hour), now.Add(-23*time.Hour), time.Minute)
	servers := start()
	count := func(s *server) (samples int) {
		for _, m := range s.series(metric, now, span) {
			samples += len(m)
		}
		return samples
	}
	reload := func(raw string, want int) {
		rules(raw)
		for _, s := range servers {
			code, text, _ := s.post("/-/reload", nil)
			require.Equal(t, http.StatusOK, code, text)
			if want >= 0 {
				require.Equal(t, want, count(s), "%s after the reload", raw)
			} else {
				require.GreaterOrEqual(t, count(s), len(young), "%s after the reload", raw)
			}
		}
	}
	visible := func(want int) {
		for _, s := range servers {
			require.Eventually(t, func() bool { return count(s) == want }, time.Minute, 50*time.Millisecond, "%s", s.log)
		}
	}
	servers[0].writeRetrying(old)
	servers[0].writeRetrying(young)
	visible(len(old) + len(young))
	for range 2 {
		reload("2d", len(young))
		for _, s := range servers {
			code, text, _ := s.post("/api/v1/write", encodeWrite(old))
			require.Equal(t, http.StatusBadRequest, code, text)
			require.Contains(t, text, "before_retention")
			s.flush()
			require.Equal(t, len(young), count(s))
		}
		reload("12d", -1) // old samples may be gone
		servers[len(servers)-1].writeRetrying(old)
		visible(len(old) + len(young))
	}
	for _, s := range servers {
		require.NoError(t, s.end(syscall.SIGTERM), s.log)
	}
	servers = start()
	visible(len(old) + len(young))
	reload("2d", len(young))
}
