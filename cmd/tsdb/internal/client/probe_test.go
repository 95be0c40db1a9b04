package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"
)

// TestProbe: the command prints the server's response, and fails if the status is not 200.
func TestProbe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/-/ready" {
			http.Error(w, "the log is replayed", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("Halite is Healthy.\n"))
	}))
	defer server.Close()
	run := func(args ...string) (string, error) {
		app := kingpin.New("tsdb", "")
		commands := AddCheck(app)
		command, err := app.Parse(append([]string{"check"}, args...))
		require.NoError(t, err)
		var out strings.Builder
		err = commands[command](t.Context(), &out)
		return out.String(), err
	}
	out, err := run("healthy", "--url", server.URL)
	require.NoError(t, err)
	require.Equal(t, "Halite is Healthy.\n", out)
	_, err = run("ready", "--url", server.URL)
	require.EqualError(t, err, "/-/ready answered 503 Service Unavailable: the log is replayed")
	server.Close()
	_, err = run("healthy", "--url", server.URL)
	require.ErrorContains(t, err, "is a server running there?")
}
