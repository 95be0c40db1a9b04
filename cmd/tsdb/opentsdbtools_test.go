package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema/tsuid"
)

// printed runs a command and returns its standard output and standard error.
func printed(t *testing.T, args ...string) (out, progress string, err error) {
	t.Helper()
	cmd := command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// postJSON sends a document, which the server must accept.
func (s *server) postJSON(path, body string) {
	s.t.Helper()
	resp, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, 2, resp.StatusCode/100, "%s", text)
}

// toolPoints returns 600 data points of two series from begin on, and one of another metric, for /api/put.
func toolPoints(begin int64) string {
	var put []string
	for i := range int64(600) {
		host, at := "ab"[i%2:i%2+1], 1000*(begin+15*i)
		if i%7 == 0 {
			at += 250
		}
		put = append(put, fmt.Sprintf(`{"metric":"sys.cpu-user","timestamp":%d,"value":%s,"tags":{"host":%q,"cpu":"0"}}`,
			at, []string{"1", "-40000", "0.1", "1.5e300", "-0.0", "9007199254740993"}[i%6], host))
	}
	put = append(put, fmt.Sprintf(`{"metric":"other","timestamp":%d,"value":7,"tags":{"host":"b"}}`, begin))
	return "[" + strings.Join(put, ",") + "]"
}

// TestOpenTSDBTools: what scan --import prints goes into another server and comes out again, and query and search print the same
// series as OpenTSDB's commands.
func TestOpenTSDBTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api")
	begin := time.Now().Add(-3 * time.Hour).Unix()
	s.postJSON("/api/put?details", toolPoints(begin))

	span := []string{fmt.Sprint(begin), fmt.Sprint(begin + 4*3600), "sum", "sys.cpu-user"}
	tool := func(s *server, name string, args ...string) (string, string) {
		t.Helper()
		out, progress, err := printed(t, append([]string{"opentsdb", name, "--url", s.url}, args...)...)
		require.NoError(t, err, progress)
		return out, progress
	}
	lines, progress := tool(s, "scan", append([]string{"--import"}, span...)...)
	require.Equal(t, 600, strings.Count(lines, "\n"))
	require.Contains(t, progress, "Scanned 2 series. Printed 600 data points.")
	require.Contains(t, lines, fmt.Sprintf("sys.cpu-user %d250 1 cpu=0 host=a\n", begin))

	file, again := filepath.Join(t.TempDir(), "lines"), t.TempDir()
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	_, progress, err := printed(t, "opentsdb", "import", file, "--storage.path", again)
	require.NoError(t, err, progress)
	second := startServer(t, again, "--no-web.self-scrape")
	require.Equal(t, s.remoteSamples("sys.cpu-user"), second.remoteSamples("sys.cpu-user"))
	same, _ := tool(second, "scan", append([]string{"--import"}, span...)...)
	require.Equal(t, lines, same)

	stored, _ := tool(s, "scan", append(span, "host=a")...)
	require.Contains(t, stored, "] sys.cpu-user "+fmt.Sprint(begin-begin%3600)+" (")
	require.Contains(t, stored, ") {cpu=0, host=a}\n  [")
	require.Equal(t, 300, strings.Count(stored, "\n  ["))

	queried, _ := tool(s, "query", fmt.Sprint(begin-1), fmt.Sprint(begin+20), "sum", "sys.cpu-user", "host=*",
		"max", "rate", "other", "sum", "other")
	require.Equal(t, fmt.Sprintf("sys.cpu-user %d250 1.000000 {cpu=0, host=a}\nsys.cpu-user %d000 -40000.000000 {cpu=0, host=b}\n"+
		"other %d000 7 {host=b}\n", begin, begin+15, begin), queried)
	found, _ := tool(s, "search", "lookup", "host=b")
	id := func(list ...string) string { return tsuid.Text(labels.FromStrings(list...)) }
	require.Equal(t, id("__name__", "other", "host", "b")+" other host=b \n"+
		id("__name__", "sys.cpu-user", "host", "b", "cpu", "0")+" sys.cpu-user cpu=0 host=b \n", found)

	_, progress, err = printed(t, "opentsdb", "query", "--url", s.url, "1h-ago", "sum", "nothing")
	require.Error(t, err)
	require.Contains(t, progress, "No such name for 'metrics': 'nothing'")

	removed, _ := tool(s, "scan", append(append([]string{"--delete"}, span...), "host=a")...)
	require.Equal(t, 300, strings.Count(removed, "\n"))
	left, _ := tool(s, "scan", append([]string{"--import"}, span...)...)
	require.Equal(t, 300, strings.Count(left, "host=b\n"))
	require.NotContains(t, left, "host=a")

	s.postJSON("/api/v1/import", fmt.Sprintf(`{"metric":{"__name__":"untagged"},"values":[1],"timestamps":[%d]}`,
		time.Now().UnixMilli()-1))
	out, progress, err := printed(t, "opentsdb", "scan", "--url", s.url, "--delete", "1h-ago", "sum", "untagged")
	require.Error(t, err)
	require.Empty(t, out)
	require.Contains(t, progress, "Left out: 1 samples of series without tags.")
	require.Contains(t, progress, "nothing is deleted")
	require.Len(t, s.remoteSamples("untagged"), 1)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}
