package main_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPIReference runs the examples of docs/reference/api.md. Each response has the fields that the page shows, with values of
// the same types.
func TestAPIReference(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--web.enable-admin-api", "--web.enable-lifecycle")
	text := documents(t)["docs/reference/api.md"]
	var response []byte
	compared := 0
	for _, block := range regexp.MustCompile("(?s)```(sh|json)\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if block[1] == "sh" {
			script := strings.ReplaceAll(block[2], "http://127.0.0.1:9480", s.url)
			script = strings.ReplaceAll(script, "curl ", "curl --silent --show-error --fail-with-body ")
			out, err := exec.Command("sh", "-ec", script).Output()
			require.NoError(t, err, "%s\n%s", block[2], out)
			response = out
			continue
		}
		var shown, got any
		require.NoError(t, json.Unmarshal([]byte(block[2]), &shown), block[2])
		require.NoError(t, json.Unmarshal(response, &got), "%s", response)
		requireShape(t, "answer", shown, got)
		compared++
	}
	require.Greater(t, compared, 10)
}

// requireShape demands that got has the fields of shown and the first element of its lists.
func requireShape(t *testing.T, at string, shown, got any) {
	t.Helper()
	require.IsType(t, shown, got, at)
	switch shown := shown.(type) {
	case map[string]any:
		for name, v := range shown {
			require.Contains(t, got, name, at)
			requireShape(t, at+"."+name, v, got.(map[string]any)[name])
		}
	case []any:
		if len(shown) > 0 {
			require.NotEmpty(t, got, at)
			requireShape(t, at+"[0]", shown[0], got.([]any)[0])
		}
	}
}

// TestAPIReferenceIsComplete: the page names each endpoint of Halite, and each of Prometheus. docs/opentsdb.md has OpenTSDB's.
func TestAPIReferenceIsComplete(t *testing.T) {
	texts := documents(t)
	_, table, ok := strings.Cut(texts["docs/security.md"], "## Rights")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	named := 0
	for _, path := range regexp.MustCompile("`(/[^` ]*)( [A-Z ]+)?`").FindAllStringSubmatch(table, -1) {
		openTSDB := regexp.MustCompile(`^/api/[a-uw-z]|^/api/version`).MatchString(path[1])
		if path[1] == "/" || openTSDB || path[1] == "/assets/{name}" ||
			strings.HasPrefix(path[1], "/prometheus") || path[1] == "/api/v1/admin" {
			continue
		}
		named++
		require.True(t, strings.Contains(texts["docs/reference/api.md"], path[1]+"`"), "the page lacks the endpoint %s", path[1])
	}
	require.Greater(t, named, 40)
}
