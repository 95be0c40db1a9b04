package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoutePrefix(t *testing.T) {
	for _, c := range []struct{ external, prefix, want, fault string }{
		{want: ""},
		{external: "https://example.com", want: ""},
		{external: "https://example.com/", want: ""},
		{external: "https://example.com/a/b/", want: "/a/b"},
		{external: "https://example.com/a", prefix: "/", want: ""},
		{external: "https://example.com/a", prefix: "c", want: "/c"},
		{prefix: "//c//d/", want: "/c/d"},
		{external: "example.com", fault: "is not a URL"},
		{external: "ftp://example.com", fault: "is not a URL"},
		{external: "http://example.com/?a", fault: "query"},
		{external: "http://exa mple.com", fault: "invalid character"},
	} {
		w := webConfig{externalURL: c.external, routePrefix: c.prefix}
		err := w.checkURL()
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault, c.external)
			require.ErrorContains(t, err, "--web.external-url", c.external)
			continue
		}
		require.NoError(t, err, c.external)
		require.Equal(t, c.want, w.routePrefix, c.external)
	}
}

func TestWithRoutePrefix(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.EscapedPath()) })
	h := withRoutePrefix("/a b", echo)
	for path, want := range map[string]struct {
		status         int
		body, location string
	}{
		"/a%20b/":            {200, "/", ""},
		"/a%20b/api/x%2Fy":   {200, "/api/x%2Fy", ""},
		"/a%20b":             {302, "", "/a%20b/"},
		"/":                  {302, "", "/a%20b/"},
		"/-/ready":           {404, "this server answers only below /a b/ (--web.route-prefix)\n", ""},
		"/a%20bc/api/v1/any": {404, "this server answers only below /a b/ (--web.route-prefix)\n", ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, want.status, w.Code, path)
		require.Equal(t, want.body, w.Body.String(), path)
		require.Equal(t, want.location, w.Header().Get("Location"), path)
	}
	require.HTTPStatusCode(t, withRoutePrefix("", echo).ServeHTTP, http.MethodGet, "/-/ready", nil, 200)
}
