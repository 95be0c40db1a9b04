package client

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRequestRefusesURL: a URL without the scheme of HTTP or a host, and one with a query, is an error that names the flag. With
// a query, the request would ask for the page at / and take its 200 for the answer of a probe.
func TestRequestRefusesURL(t *testing.T) {
	for _, url := range []string{
		"localhost:9480", "ftp://localhost", "127.0.0.1:9480", "", "http://", "http:///x", DefaultURL + "/?a=b",
		DefaultURL + "/#", DefaultURL + "?",
	} {
		_, err := (&Server{URL: url}).Request(t.Context(), http.MethodGet, "/-/ready", nil)
		require.ErrorContains(t, err, "is not a URL such as "+DefaultURL)
	}
	_, err := (&Server{URL: DefaultURL}).Request(t.Context(), http.MethodGet, "/-/ready", nil)
	require.NoError(t, err)
}
