package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRequestRefusesURL: a URL without the scheme of HTTP or a host, and one with a query, is an error that names the flag. With
// a query, the request would ask for the page at / and take its 200 for the response of a probe.
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

// TestCallShowsText: an error shows the text of a response that is not Prometheus's JSON. A server that starts and most proxies
// send one.
func TestCallShowsText(t *testing.T) {
	response, status := "", http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, response, status)
	}))
	defer server.Close()
	call := func() error {
		return (&Server{URL: server.URL}).Call(t.Context(), http.MethodGet, "/x", nil, nil)
	}
	response = "the server is starting\n" + strings.Repeat("x", 2*textBytesMax)
	require.ErrorContains(t, call(), server.URL+"/x answered 503 Service Unavailable: the server is starting\nxx")
	require.Less(t, len(call().Error()), textBytesMax+200)
	response, status = `{"message":"no such route"}`, http.StatusNotFound
	require.ErrorContains(t, call(), `answered 404 Not Found: {"message":"no such route"}`)
	response, status = `{"version":1}`, http.StatusOK
	require.ErrorContains(t, call(), `answered 200 OK: {"version":1}`)
}
