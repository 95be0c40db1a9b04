package main_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDescriptorsFitConnections starts the server with few descriptors: it lowers the number of connections, and serves while
// more clients than that are there; with too few it does not start.
func TestDescriptorsFitConnections(t *testing.T) {
	limited := func(files int) *exec.Cmd {
		return exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files), binary)
	}
	refused := limited(100)
	refused.Args = append(refused.Args, "serve", "--storage.path", t.TempDir(), "--web.listen-address", freeAddress(t))
	out, err := refused.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--web.max-connections: the limit of 100 open files")

	s := launchWith(t, limited(256), t.TempDir(), freeAddress(t), "--no-web.self-scrape")
	s.awaitReady()
	require.Contains(t, s.log.String(), "--web.max-connections is lowered")
	require.Contains(t, s.log.String(), "connections=64")
	for range 300 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = io.WriteString(c, "GET / HT")
		require.NoError(t, err)
	}
	now := time.Now()
	s.write([]point{{"written", "a", now.UnixMilli(), 1}})
	require.Len(t, s.series("written", now, "1m"), 1)
}
