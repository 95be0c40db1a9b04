package api

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gorilla/mux"
	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"

	"halite/api/keyviz"
	"halite/api/opentsdb"
	"halite/api/opentsdb/queries"
	"halite/api/senders"
	"halite/api/tablets"
	"halite/api/tenancy"
	"halite/api/ui"
	"halite/storage/principal"
)

// New checks opts and builds a Server. The error lists every fault of the options.
func New(opts Options) (*Server, error) {
	s, err := newServer(opts)
	if err != nil {
		return nil, err
	}
	router, err := s.newRouter()
	if err != nil {
		return nil, err
	}
	s.handler = s.direct(router)
	return s, nil
}

// direct finds paths without variables by one look-up. The router would compare the routes one by one.
func (s *Server) direct(router http.Handler) http.Handler {
	byPath := make(map[string]*route, len(s.routes))
	for _, e := range s.routes {
		if !strings.Contains(e.name, "{") && !e.byMethod {
			byPath[e.name] = e
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := byPath[r.URL.Path]; e != nil && r.URL.RawPath == "" {
			e.ServeHTTP(w, r)
			return
		}
		router.ServeHTTP(w, r)
	})
}

// newRouter registers every endpoint.
func (s *Server) newRouter() (*mux.Router, error) {
	// The fastest level takes about half the CPU time of the default level, and responses are about 15 % larger.
	gzipped, err := gzhttp.NewWrapper(gzhttp.MinSize(s.opts.Limits.GzipBytesMin), gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, fmt.Errorf("api: compression of responses: %w", err)
	}
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	add := func(path string, needs access, handle http.HandlerFunc, methods ...string) *route {
		e := s.newRoute(path, needs, handle, methods...)
		router.Path(path).Handler(e)
		s.routes = append(s.routes, e)
		return e
	}
	const get, head, post, put = http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut
	compress := func(e *route) *route {
		e.compressed = gzipped(http.HandlerFunc(e.serve))
		return e
	}
	reads, readsAll, administers := readsSeries(), readsServer(), administersServer()
	writes := access{scopes: principal.Write, tenants: tenancy.Write}
	// The router compares the routes in this order. This route is frequent and has a variable, so it comes first.
	compress(add("/api/v1/label/{name}/values", reads, s.json(s.labelValues), get)).waits = true
	for _, group := range s.endpointGroups() {
		for path, ep := range group.endpoints {
			e := compress(add(path, group.needs, s.json(ep), group.methods...))
			e.waits, e.changesData = true, group.changesData
		}
	}
	// This status is needed during the replay of the log, so it does not wait for the end of the replay.
	compress(add("/api/v1/status/walreplay", readsAll, s.json(s.walReplay), get))
	compress(add("/federate", reads, s.federate, get)).waits = true
	for path, format := range exportFormats() {
		compress(add(path, reads, s.export(format), get, post)).waits = true
	}
	compress(add("/api/v1/status/overview", readsAll, s.json(s.overview), get))
	if err := addInterface(add); err != nil {
		return nil, err
	}
	for _, path := range []string{WritePath, PushPath} {
		write := add(path, writes, s.remoteWrite, post)
		write.waits, write.changesData, write.protocol = true, true, senders.RemoteWrite
	}
	s.addReceivers(router, writes, compress)
	handlers, err := s.openTSDBQueries()
	if err != nil {
		return nil, err
	}
	for path, handle := range handlers {
		// Deletions need a scope other than read; the handlers check it.
		e := compress(add(path, reads, handle, queries.Methods()...))
		e.waits, e.failure = true, opentsdb.WriteError
	}
	add("/api/v1/read", reads, s.remoteRead, post).waits = true
	add("/metrics", readsAll, s.ownMetrics(), get, head)
	probes := access{open: true}
	if s.opts.GuardProbes {
		probes = readsAll
	}
	s.addInflux(router, probes, writes)
	add("/-/healthy", probes, s.healthy, get, head)
	add("/-/ready", probes, s.ready, get, head)
	add("/-/reload", administers, s.reload, post, put).changesData = true
	add("/-/quit", administers, s.quit, post, put).changesData = true
	router.PathPrefix(aliasPrefix + "/").Handler(alias(router))
	router.NotFoundHandler = s.newRoute("unknown", access{open: true}, s.notFound(router))
	return router, nil
}

// addInterface registers the files of the web interface. They hold no data and are open, so a browser without a token can
// show the field for one.
func addInterface(add func(string, access, http.HandlerFunc, ...string) *route) error {
	files, err := ui.NewFiles()
	if err != nil {
		return fmt.Errorf("api: web interface: %w", err)
	}
	add("/", access{open: true}, files.Index, http.MethodGet, http.MethodHead)
	add("/graph", access{open: true}, ui.Graph, http.MethodGet, http.MethodHead)
	add("/assets/{name}", access{open: true}, uiAsset(files), http.MethodGet, http.MethodHead)
	return nil
}

// openTSDBQueries returns the handlers of OpenTSDB's queries by their paths.
func (s *Server) openTSDBQueries() (map[string]http.HandlerFunc, error) {
	if s.opts.OpenTSDB == nil {
		return nil, nil
	}
	o := queries.Options{
		Engine: s.opts.OpenTSDB, BodyBytesMax: s.opts.Limits.FormBytesMax, SubQueriesMax: s.opts.Limits.SelectorsMax,
		Now: s.opts.Now, SameOrigin: s.sameOrigin, Notes: s.opts.Notes, Stats: s.openTSDBStats,
	}
	if s.opts.AdminAPI && s.aliasDeleter != nil {
		o.Deleter = s.aliasDeleter
	}
	h, err := queries.New(o)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	paths := h.Paths()
	for path, handle := range paths {
		paths[path] = func(w http.ResponseWriter, r *http.Request) {
			s.setCORS(w, r)
			handle(w, r)
		}
	}
	return paths, nil
}

// readsSeries is the access of endpoints that show series of one tenant.
func readsSeries() access {
	return access{scopes: principal.Read, restricted: true, tenants: tenancy.Read}
}

// readsServer is the access of endpoints that show more than series.
func readsServer() access { return access{scopes: principal.Read} }

// administersServer is the access of endpoints that change the server.
func administersServer() access { return access{scopes: principal.Admin} }

// endpointGroup holds endpoints with the same requirements and methods, by their path.
type endpointGroup struct {
	needs       access
	methods     []string
	changesData bool
	endpoints   map[string]endpoint
}

// endpointGroups are the endpoints that answer in Prometheus's envelope.
func (s *Server) endpointGroups() []endpointGroup {
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	reads, readsAll, administers := readsSeries(), readsServer(), administersServer()
	looks := access{scopes: principal.Read, tenants: tenancy.Look}
	deletes := access{scopes: principal.Admin, restricted: true, tenants: tenancy.Change}
	return []endpointGroup{
		{reads, []string{get, post}, false, s.queryEndpoints()},
		{readsAll, []string{get, post}, false, map[string]endpoint{"/api/v1/explain": s.explain}},
		{readsAll, []string{get, post}, false, map[string]endpoint{"/api/v1/status/encode_key": statusEndpoint(s.inspect().EncodeKey)}},
		{reads, []string{get}, false, s.lookupEndpoints()},
		{access{scopes: principal.Read, restricted: true, tenants: tenancy.NoSeries}, []string{get}, false, map[string]endpoint{
			"/api/v1/features": s.features, "/api/v1/status/buildinfo": s.buildInfo, "/api/v1/status/self": s.self,
		}},
		{readsAll, []string{get}, false, s.statusEndpoints()},
		{s.judges(), []string{get}, false, map[string]endpoint{"/api/v1/status/doctor": s.doctor}},
		{access{scopes: principal.Read, tenants: tenancy.Read}, []string{get}, false, map[string]endpoint{
			"/api/v1/status/tenant_limits": s.tenantLimits,
		}},
		{looks, []string{get}, false, s.keyvizEndpoints()},
		{administers, []string{post, put}, true, s.adminEndpoints()},
		{administers, []string{get}, false, map[string]endpoint{
			"/api/v1/admin/tenants": s.listTenants, "/api/v1/admin/tsdb/deletions": s.deletions,
		}},
		{administers, []string{post, put, http.MethodDelete}, true, map[string]endpoint{
			"/api/v1/admin/query_rules": s.changeQueryRules,
		}},
		{
			access{scopes: principal.Admin, tenants: tenancy.Change}, []string{get, post, put, http.MethodDelete}, true,
			map[string]endpoint{"/api/v1/admin/aliases": s.aliases},
		},
		{deletes, []string{post, put}, true, map[string]endpoint{"/api/v1/admin/tsdb/delete_series": s.deleteSeries}},
	}
}

// judges is the access to verdicts, which name metrics and senders of all tenants. On a server with tenants, only its
// administrators have it.
func (s *Server) judges() access {
	if s.opts.Tenancy != nil {
		return administersServer()
	}
	return readsServer()
}

// queryEndpoints read their parameters from the URL, a form body, or both.
func (s *Server) queryEndpoints() map[string]endpoint {
	return map[string]endpoint{
		"/api/v1/query":           s.query,
		"/api/v1/query_range":     s.queryRange,
		"/api/v1/query_exemplars": s.queryExemplars,
		"/api/v1/format_query":    s.formatQuery,
		"/api/v1/parse_query":     s.parseQuery,
		"/api/v1/labels":          s.labelNames,
		"/api/v1/series":          s.series,
	}
}

// lookupEndpoints look up series, or return the same response to everybody.
func (s *Server) lookupEndpoints() map[string]endpoint {
	return map[string]endpoint{
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
	}
}

func (s *Server) statusEndpoints() map[string]endpoint {
	return map[string]endpoint{
		"/api/v1/status/active_queries": s.activeQueries,
		"/api/v1/status/cardinality":    s.cardinality,
		"/api/v1/status/config":         s.config,
		"/api/v1/status/flags":          s.flags,
		"/api/v1/status/limits":         s.limits,
		"/api/v1/status/query_rules":    s.queryRules,
		"/api/v1/status/runtimeinfo":    s.runtimeInfo,
		"/api/v1/status/senders":        s.senders,
		"/api/v1/status/schema":         s.schemaRules,
		"/api/v1/status/tablets":        s.tablets(),
		"/api/v1/status/top_queries":    statusEndpoint(s.inspect().TopQueries),
		"/api/v1/status/retention":      s.retention,
		"/api/v1/status/tsdb":           s.tsdbStatus,
		"/api/v1/status/tsdb/blocks":    s.tsdbBlocks,
	}
}

// tablets is /api/v1/status/tablets. Rows reach tablets when their hour is flushed, so samples in memory are not counted.
func (s *Server) tablets() endpoint {
	o := tablets.Options{
		Keyviz: s.opts.Keyviz, HotTablets: s.opts.HotTablets, Events: s.opts.TabletEvents, ParseTime: parseTime, KeyText: keyText,
		Now: s.opts.Now,
	}
	if s.opts.Tablets != nil {
		o.Source = s.opts.Tablets
	}
	return keyvizEndpoint(tablets.New(o).Respond)
}

func (s *Server) keyvizEndpoints() map[string]endpoint {
	h := keyviz.New(keyviz.Options{
		Collector: s.opts.Keyviz, Tablets: s.dataTablets, Tombstones: s.opts.Tombstones, ParseTime: parseTime,
	})
	return map[string]endpoint{
		"/api/v1/keyviz/heatmap": keyvizEndpoint(h.Heatmap),
		"/api/v1/keyviz/ranges":  keyvizEndpoint(h.Ranges),
		"/api/v1/keyviz/cell":    keyvizEndpoint(h.Cell),
		"/api/v1/keyviz/compare": keyvizEndpoint(h.Compare),
	}
}

func (s *Server) adminEndpoints() map[string]endpoint {
	return map[string]endpoint{
		"/api/v1/admin/cancel_query":          s.cancelQuery,
		"/api/v1/admin/flush":                 s.flush,
		"/api/v1/admin/tenants/add":           s.addTenant,
		"/api/v1/admin/tenants/drop":          s.dropTenant,
		"/api/v1/admin/tsdb/clean_tombstones": s.cleanTombstones,
		"/api/v1/admin/tsdb/snapshot":         s.snapshot,
	}
}

// notFound answers unknown paths, below /api/ in JSON. It redirects a path that only has wrong slashes, for example from a base
// URL with a slash at its end. So a proxy that guards some paths sees the path that the server serves.
func (s *Server) notFound(router *mux.Router) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
	}
}

// cleaned returns the URL of a request without repeated slashes and without the elements . and .., as Prometheus redirects; nil
// if the path has neither. If the path has only a slash at its end, an endpoint must have the path without that slash.
func cleaned(router *mux.Router, r *http.Request) *url.URL {
	escaped := r.URL.EscapedPath()
	clean := path.Clean("/" + escaped)
	if !strings.HasPrefix(escaped, "/") || clean == escaped {
		return nil
	}
	target, err := url.Parse(clean)
	if err != nil {
		return nil
	}
	if escaped == clean+"/" {
		var match mux.RouteMatch
		if !router.Match(&http.Request{Method: r.Method, URL: target, Host: r.Host}, &match) || match.MatchErr != nil {
			return nil
		}
	}
	if requested, err := url.ParseRequestURI(r.RequestURI); err == nil {
		// A handler before this one may have removed a prefix, such as --web.route-prefix.
		if prefix, ok := strings.CutSuffix(requested.EscapedPath(), escaped); ok {
			if target, err = url.Parse(prefix + clean); err != nil {
				return nil
			}
		}
	}
	target.RawQuery = r.URL.RawQuery
	return target
}
