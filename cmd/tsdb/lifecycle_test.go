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

// TestReloadOfRunningServer changes the rules of a server by /-/reload and by SIGHUP; both say why they refuse. /-/quit ends it.
func TestReloadOfRunningServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.json")
	const first, second = `{"pattern":"bus","from_hour":0,"salts":4}`, `{"pattern":"bus","from_hour":%d,"salts":%d}`
	put := func(text string, args ...any) {
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, text, args...), 0o600))
	}
	put("[" + first + "]")
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-lifecycle", "--storage.schema-rules", file)
	rules := func() string {
		_, a := s.get("/api/v1/status/schema", nil)
		return string(a.Data)
	}
	require.Contains(t, rules(), `"salts":4`)
	hour := time.Now().Unix() / 3600

	put("["+first+","+second+"]", hour+2, 8)
	status, text, _ := s.post("/-/reload", nil)
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, rules(), `"salts":8`)

	put("["+first+","+second+","+second+"]", hour+2, 8, hour+3, 16)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return strings.Contains(rules(), `"salts":16`) }, time.Minute, 10*time.Millisecond)

	put("["+first+","+second+"]", hour, 64)
	status, text, _ = s.post("/-/reload", nil)
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, text, "must start after hour")
	require.NotContains(t, rules(), `"salts":64`)
	_, a := s.get("/api/v1/status/runtimeinfo", url.Values{})
	require.Contains(t, string(a.Data), `"reloadConfigSuccess":false`)

	status, text, _ = s.post("/-/quit", nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "Requesting termination... Goodbye!", text)
	require.NoError(t, s.ended("/-/quit"))
}
