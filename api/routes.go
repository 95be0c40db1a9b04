package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// endpoint answers one kind of request in Prometheus' JSON envelope.
type endpoint func(r *http.Request) (reply, *apiError)

// methods are the handlers of one path.
type methods map[string]http.Handler

// routes registers every endpoint.
func (s *Server) routes(router *mux.Router) error {
	zip, err := gzhttp.NewWrapper(gzhttp.MinSize(s.opts.Limits.GzipBytesMin))
	if err != nil {
		return fmt.Errorf("api: compression of answers: %w", err)
	}
	handle := func(path string, h http.Handler) { router.Handle(path, s.instrument(path, h)) }
	zipped := func(h http.Handler) http.Handler { return zip(s.guard(h)) }

	// The router tries routes in the order in which they are registered.
	queries := s.queryEndpoints()
	for _, path := range byUse(queries) {
		h := s.json(path, queries[path])
		handle(path, zipped(s.byMethod(methods{http.MethodGet: h, http.MethodPost: h})))
	}
	const write, read = "/api/v1/write", "/api/v1/read"
	handle(write, s.guard(s.byMethod(methods{
		http.MethodPost: s.sameOrigin(write, s.whenReady(write, http.HandlerFunc(s.remoteWrite))),
	})))
	handle(read, s.guard(s.byMethod(methods{http.MethodPost: s.whenReady(read, http.HandlerFunc(s.remoteRead))})))
	readOnly := s.readOnlyEndpoints()
	for _, path := range byUse(readOnly) {
		handle(path, zipped(s.byMethod(methods{http.MethodGet: s.json(path, readOnly[path])})))
	}
	for path, ep := range s.adminEndpoints() {
		h := s.sameOrigin(path, s.json(path, ep))
		handle(path, zipped(s.byMethod(methods{http.MethodPost: h, http.MethodPut: h})))
	}
	// While the log is replayed this is the one status that matters, so it does not wait for readiness.
	const replay = "/api/v1/status/walreplay"
	handle(replay, zipped(s.byMethod(methods{http.MethodGet: s.endpoint(s.walReplay)})))

	exposition := promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	handle("/metrics", s.guard(s.byMethod(getAndHead(s.heldMetrics(exposition)))))
	handle("/-/healthy", s.guard(s.byMethod(getAndHead(http.HandlerFunc(s.healthy)))))
	handle("/-/ready", s.guard(s.byMethod(getAndHead(http.HandlerFunc(s.ready)))))
	reload := s.sameOrigin("/-/reload", http.HandlerFunc(s.reload))
	handle("/-/reload", s.guard(s.byMethod(methods{http.MethodPost: reload, http.MethodPut: reload})))
	quit := s.sameOrigin("/-/quit", http.HandlerFunc(s.quit))
	handle("/-/quit", s.guard(s.byMethod(methods{http.MethodPost: quit, http.MethodPut: quit})))
	federate := s.whenReady("/federate", http.HandlerFunc(s.federate))
	handle("/federate", zipped(s.byMethod(methods{http.MethodGet: federate})))
	handle("/", zipped(s.byMethod(getAndHead(http.HandlerFunc(s.landingPage)))))

	router.NotFoundHandler = s.instrument("unknown", s.guard(s.notFound(router)))
	return nil
}

// byUse lists the paths of endpoints, those that clients ask most often first.
func byUse(endpoints map[string]endpoint) []string {
	often := []string{"/api/v1/query_range", "/api/v1/query", "/api/v1/series", "/api/v1/labels", "/api/v1/label/{name}/values"}
	paths := slices.Sorted(maps.Keys(endpoints))
	slices.SortStableFunc(paths, func(a, b string) int {
		// What is not in the list is at -1, and comes last by taking it as unsigned.
		return cmp.Compare(uint(slices.Index(often, a)), uint(slices.Index(often, b)))
	})
	return paths
}

// queryEndpoints take their parameters from the URL, a form body, or both.
func (s *Server) queryEndpoints() map[string]endpoint {
	return map[string]endpoint{
		"/api/v1/query":           s.query,
		"/api/v1/query_range":     s.queryRange,
		"/api/v1/explain":         s.explain,
		"/api/v1/query_exemplars": s.queryExemplars,
		"/api/v1/format_query":    s.formatQuery,
		"/api/v1/parse_query":     s.parseQuery,
		"/api/v1/labels":          s.labelNames,
		"/api/v1/series":          s.series,
	}
}

func (s *Server) readOnlyEndpoints() map[string]endpoint {
	return map[string]endpoint{
		"/api/v1/label/{name}/values":   s.labelValues,
		"/api/v1/features":              s.features,
		"/api/v1/metadata":              s.metricMetadata,
		"/api/v1/rules":                 s.rules,
		"/api/v1/alerts":                s.alerts,
		"/api/v1/alertmanagers":         s.alertmanagers,
		"/api/v1/scrape_pools":          s.scrapePools,
		"/api/v1/scrape_pools/config":   s.scrapePoolConfig,
		"/api/v1/targets":               s.targets,
		"/api/v1/targets/metadata":      s.targetMetadata,
		"/api/v1/targets/relabel_steps": s.relabelSteps,
		"/api/v1/notifications":         s.notifications,
		"/api/v1/status/active_queries": s.activeQueries,
		"/api/v1/status/buildinfo":      s.buildInfo,
		"/api/v1/status/config":         s.config,
		"/api/v1/status/flags":          s.flags,
		"/api/v1/status/limits":         s.limits,
		"/api/v1/status/runtimeinfo":    s.runtimeInfo,
		"/api/v1/status/schema":         s.schemaRules,
		"/api/v1/status/tablets":        s.tablets,
		"/api/v1/status/retention":      s.retention,
		"/api/v1/status/tsdb":           s.tsdbStatus,
		"/api/v1/status/tsdb/blocks":    s.tsdbBlocks,
	}
}

func (s *Server) adminEndpoints() map[string]endpoint {
	return map[string]endpoint{
		"/api/v1/admin/cancel_query":          s.cancelQuery,
		"/api/v1/admin/flush":                 s.flush,
		"/api/v1/admin/tsdb/delete_series":    s.deleteSeries,
		"/api/v1/admin/tsdb/clean_tombstones": s.cleanTombstones,
		"/api/v1/admin/tsdb/snapshot":         s.snapshot,
	}
}

// json serves an endpoint once the server is ready.
func (s *Server) json(name string, ep endpoint) http.Handler {
	return s.whenReady(name, s.endpoint(ep))
}

// endpoint serves an endpoint, with its form parsed.
func (s *Server) endpoint(ep endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.setCORS(w, r)
		r, aerr := s.parseForm(w, r)
		if aerr != nil {
			s.respondError(w, aerr)
			return
		}
		rep, aerr := ep(r)
		if aerr != nil {
			s.respondError(w, aerr)
			return
		}
		s.respond(w, r, rep)
	})
}

// formError is the context key of what was malformed in a request's form.
type formError struct{}

// formType is the type of most bodies, which are not of several parts.
const formType = "application/x-www-form-urlencoded"

// parseForm reads the parameters of URL and body. A malformed pair is left out and the others hold, as in Prometheus;
// endpoints that insist on a well-formed form ask strictForm. Only a body over the limit is an error here.
func (s *Server) parseForm(w http.ResponseWriter, r *http.Request) (*http.Request, *apiError) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = http.MaxBytesReader(w, r.Body, s.opts.Limits.FormBytesMax)
	}
	err := r.ParseForm()
	if kind := r.Header.Get("Content-Type"); err == nil && !strings.EqualFold(kind, formType) && kind != "" {
		if err = r.ParseMultipartForm(s.opts.Limits.FormBytesMax); errors.Is(err, http.ErrNotMultipart) {
			err = nil
		}
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return r, badForm(err)
	}
	if err != nil {
		r = r.WithContext(context.WithValue(r.Context(), formError{}, err))
	}
	return r, nil
}

// strictForm reports a query string or form body that was malformed in any part.
func strictForm(r *http.Request) *apiError {
	if err, ok := r.Context().Value(formError{}).(error); ok {
		return badForm(err)
	}
	return nil
}

// byMethod picks the handler of a request's method. Others get 405 with the methods there are, and OPTIONS lists them.
func (s *Server) byMethod(m methods) http.Handler {
	names := make([]string, 0, len(m)+1)
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	allow := strings.Join(append(names, http.MethodOptions), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := m[r.Method]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		if r.Method == http.MethodOptions {
			s.setCORS(w, r)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		s.respondError(w, &apiError{
			typ: errBadData, status: http.StatusMethodNotAllowed,
			err: fmt.Errorf("method %s is not allowed here; use %s", r.Method, strings.Join(names, " or ")),
		})
	})
}

func getAndHead(h http.Handler) methods { return methods{http.MethodGet: h, http.MethodHead: h} }
