package main

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// checkURL checks --web.external-url and --web.route-prefix. It sets the prefix to the path of the URL if it is not given. A
// prefix begins with a slash and does not end with one; it is empty if there is none.
func (c *webConfig) checkURL() error {
	external := &url.URL{}
	if c.externalURL != "" {
		var err error
		if external, err = url.Parse(c.externalURL); err != nil {
			return fmt.Errorf("--web.external-url: %w", err)
		}
		if external.Host == "" || external.Scheme != "http" && external.Scheme != "https" {
			return fmt.Errorf("--web.external-url: %q is not a URL such as https://example.com/halite", c.externalURL)
		}
		if external.RawQuery != "" || external.Fragment != "" {
			return fmt.Errorf("--web.external-url: %q has a query or a fragment", c.externalURL)
		}
		c.externalURL = strings.TrimRight(c.externalURL, "/")
	}
	prefix := external.Path
	if c.routePrefix != "" {
		prefix = c.routePrefix
	}
	c.routePrefix = strings.TrimRight(path.Clean("/"+prefix), "/")
	return nil
}

// withRoutePrefix serves next below prefix. The path / redirects there. next gets paths without the prefix.
func withRoutePrefix(prefix string, next http.Handler) http.Handler {
	if prefix == "" {
		return next
	}
	escaped := (&url.URL{Path: prefix}).EscapedPath()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, prefix+"/"):
			inner := r.Clone(r.Context())
			inner.URL.Path = strings.TrimPrefix(r.URL.Path, prefix)
			// net/url ignores a RawPath that does not encode Path.
			inner.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, escaped)
			next.ServeHTTP(w, inner)
		case r.URL.Path == "/" || r.URL.Path == prefix:
			w.Header().Set("Location", (&url.URL{Path: prefix + "/"}).String())
			w.WriteHeader(http.StatusFound)
		default:
			http.Error(w, fmt.Sprintf("this server answers only below %s/ (--web.route-prefix)", prefix), http.StatusNotFound)
		}
	})
}
