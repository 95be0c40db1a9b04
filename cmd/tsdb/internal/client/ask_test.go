package client

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRequestRefusesURL: a URL without the scheme of HTTP is an error that names the flag, not a failed connection.
func TestRequestRefusesURL(t *testing.T) {
	for _, url := range []string{"localhost:9480", "ftp://localhost", "127.0.0.1:9480", ""} {
		_, err := (&Server{URL: url}).Request(t.Context(), http.MethodGet, "/-/ready", nil)
		require.ErrorContains(t, err, "is not a URL such as "+DefaultURL)
	}
	_, err := (&Server{URL: DefaultURL}).Request(t.Context(), http.MethodGet, "/-/ready", nil)
	require.NoError(t, err)
}
