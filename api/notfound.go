package api

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gorilla/mux"
)

// notFound answers unknown paths, below /api/ in JSON. A path that is an endpoint but for slashes too many, as from a base
// URL that ends in one, is redirected there; a proxy in front that guards some paths so sees the one that is served.
func (s *Server) notFound(router *mux.Router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if target := cleaned(router, r); target != nil {
			// 307 keeps method and body.
			http.Redirect(w, r, target.String(), http.StatusTemporaryRedirect)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/") {
			s.respondError(w, &apiError{typ: errNotFound, err: fmt.Errorf("no endpoint %q", r.URL.Path)})
			return
		}
		http.NotFound(w, r)
	})
}

// cleaned is where the cleaned path of a request leads, nil if to no endpoint.
func cleaned(router *mux.Router, r *http.Request) *url.URL {
	escaped := r.URL.EscapedPath()
	clean := path.Clean("/" + escaped)
	if clean == escaped || clean == "/" {
		return nil
	}
	target, err := url.Parse(clean)
	if err != nil {
		return nil
	}
	var match mux.RouteMatch
	if !router.Match(&http.Request{Method: r.Method, URL: target}, &match) || match.MatchErr != nil {
		return nil
	}
	target.RawQuery = r.URL.RawQuery
	return target
}
