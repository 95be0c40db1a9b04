package main_test

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIngestDocs runs each example of docs/ingest.md as a user does. The query after an example finds what it wrote.
func TestIngestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/ingest.md")
	require.NoError(t, err)
	s := startServer(t, t.TempDir())
	written := 0
	for _, block := range regexp.MustCompile("(?s)```(sh|promql)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		body := strings.ReplaceAll(block[2], "http://127.0.0.1:9480", s.url)
		if block[1] == "sh" {
			written++
			out, err := exec.Command("sh", "-ec", strings.ReplaceAll(body, "curl ", "curl --silent --show-error --fail-with-body ")).
				CombinedOutput()
			require.NoError(t, err, "%s\n%s", body, out)
			continue
		}
		status, response := s.get("/api/v1/query", url.Values{"query": {strings.TrimSpace(body)}})
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, string(response.Data), `"value":[`, "%s", body)
	}
	require.GreaterOrEqual(t, written, 3)
}
