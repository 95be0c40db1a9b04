package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"halite/api/auth"
	"halite/api/netlimit"
	"halite/api/senders"
	"halite/api/tenancy"
	"halite/storage/principal"
)

// recorder records the status and size of a response.
type recorder struct {
	http.ResponseWriter
	code   int // 0 until the header was sent
	bytes  int64
	slot   *netlimit.SlotWriter // while the request holds a CPU slot
	unread *netlimit.Body       // body of the request; nil if there is none
}

func (w *recorder) WriteHeader(code int) {
	// 1xx answers are not final.
	if w.code == 0 && code >= http.StatusOK {
		w.code = code
		w.drain()
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
		w.drain()
	}
	if w.slot != nil {
		return w.slot.Write(p)
	}
	return w.send(p)
}

// drain reads what the handler has not read of the body.
func (w *recorder) drain() {
	if w.unread != nil {
		w.unread.Drain()
	}
}

func (w *recorder) send(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// connectionKey is the key of the recorder below the compression of a response.
type connectionKey struct{}

// acquireCPU acquires a CPU slot of the tenant for the encoding and compression of its response. The caller calls end.
func acquireCPU(r *http.Request) (end func()) {
	w, ok := r.Context().Value(connectionKey{}).(*recorder)
	if !ok {
		return func() {}
	}
	w.slot = netlimit.NewSlotWriter(r.Context(), w.send)
	return func() {
		_ = w.slot.Close() // A failed write means that the client is gone.
		w.slot = nil
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// exchange holds a request with its recorder, in one allocation.
type exchange struct {
	recorder
	body  netlimit.Body
	began time.Time
}

// access holds the requirements of a route for a principal.
type access struct {
	scopes principal.Scopes
	// restricted means that the route accepts a restricted principal. The response has only series that its matchers select.
	restricted bool
	// tenants describes how the route uses the series of tenants.
	tenants tenancy.Use
	// open admits everybody. Without it, a route without scopes refuses everybody.
	open bool
}

// route is an endpoint: its handler, and the checks that its requests must pass. It counts and times the requests.
type route struct {
	server *Server
	name   string // label of the metrics
	needs  access
	used   []string // methods that the handler accepts, sorted; nil accepts all
	allow  string   // header that lists them
	// If changesData is set, the route refuses requests that a browser sends for a page of another origin.
	changesData bool
	// getChanges is set if GET changes data, too. Then changesData also protects GET.
	getChanges bool
	// If waits is set, the route refuses requests until the server is ready.
	waits bool
	// protocol, if not nil, returns the protocol of a write request for the list of senders.
	protocol func(r *http.Request) string
	handle   http.HandlerFunc
	// logIns, if not nil, returns other values for the header Authorization. They are tried in turn in place of the header.
	// If it returns none, the header counts.
	logIns func(r *http.Request) []string
	// byMethod is set if other routes may have the same path.
	byMethod bool
	// failure answers errors; nil answers in Prometheus's envelope.
	failure failure
	// compressed is answer with the compression around it; nil if the route does not compress.
	compressed http.Handler
	// metrics creates the metrics at the first request, so that unused endpoints cost no series.
	metrics func() endpointMetrics
}

// failure writes an error in the format of a protocol.
type failure func(w http.ResponseWriter, r *http.Request, status int, message string)

// fail answers an error.
func (e *route) fail(w http.ResponseWriter, r *http.Request, aerr *apiError) {
	if e.failure == nil {
		e.server.respondError(w, aerr)
		return
	}
	if aerr.code() == http.StatusServiceUnavailable {
		e.server.setRetryAfter(w, aerr.retryAfter)
	}
	e.failure(w, r, aerr.code(), aerr.err.Error())
}

// newRoute returns a route for the given methods; without methods it accepts all.
func (s *Server) newRoute(name string, needs access, handle http.HandlerFunc, methods ...string) *route {
	slices.Sort(methods)
	return &route{
		server: s, name: name, needs: needs, used: methods,
		allow:  strings.Join(append(slices.Clone(methods), http.MethodOptions), ", "),
		handle: handle, metrics: sync.OnceValue(func() endpointMetrics { return s.metrics.endpoint(name) }),
	}
}

// ServeHTTP implements http.Handler.
func (e *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{recorder: recorder{ResponseWriter: w}, began: time.Now()}
	e.server.metrics.inFlight.Inc()
	defer e.count(x)
	if r.Body != nil && r.Body != http.NoBody {
		x.body = netlimit.MakeBody(w, r, e.server.opts.Limits.BodyStallTimeout)
		x.unread = &x.body
		// A copy, because net/http checks the body of its own request to find the size of the unread rest.
		r = r.WithContext(r.Context())
		r.Body = &x.body
	}
	if e.compressed != nil {
		if e.server.opts.Tenancy != nil {
			r = r.WithContext(context.WithValue(r.Context(), connectionKey{}, &x.recorder))
		}
		e.compressed.ServeHTTP(&x.recorder, r)
		return
	}
	e.serve(&x.recorder, r)
}

// count counts a request that ended.
func (e *route) count(x *exchange) {
	e.server.metrics.inFlight.Dec()
	m := e.metrics()
	if x.code == 0 || x.code == http.StatusOK {
		m.ok.Inc()
	} else {
		e.server.metrics.requests.WithLabelValues(e.name, strconv.Itoa(x.code)).Inc()
	}
	m.duration.Observe(time.Since(x.began).Seconds())
	m.requestBytes.Add(float64(x.body.SizeBytes))
	m.responseBytes.Add(float64(x.bytes))
}

// serve checks a request and passes it to the handler.
func (e *route) serve(w http.ResponseWriter, r *http.Request) {
	rec, ok := w.(*recorder)
	if !ok { // the writer that compresses
		rec = &recorder{ResponseWriter: w}
	}
	defer e.recovered(rec, r)
	if !e.admits(rec, r) {
		return
	}
	p, ok := e.identified(rec, r)
	if !ok || !e.ready(rec, r) {
		return
	}
	if err := checkParams(r.URL); err != nil {
		e.refuse(rec, r, senders.ReasonParameter, badForm(err))
		return
	}
	r = r.WithContext(principal.With(r.Context(), p))
	if e.protocol == nil && r.Body != nil && r.Body != http.NoBody {
		body := &countedBody{r.Body, e.server.newBudget(r.Context())}
		defer body.budget.end()
		r.Body = body
	}
	e.handle(rec, r)
}

// countedBody counts the memory of a body against the memory of queries. Bodies of samples have a limit of their own.
type countedBody struct {
	io.ReadCloser
	budget responseBudget
}

// bodyCopies is the memory of a byte of a body: in the buffer, in the text and in the decoded values.
const bodyCopies = 3

// Read implements io.Reader. It fails with a *budget.LimitError.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err := b.budget.reserve(bodyCopies * n); err != nil {
		return 0, err
	}
	return n, err
}

// recovered turns a panic into a 500. If the response has begun, it breaks the connection, so no client takes a part for the
// whole response.
func (e *route) recovered(w *recorder, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	s := e.server
	s.metrics.panics.Inc()
	s.opts.Logger.Error("panic while answering a request", "method", r.Method, "path", r.URL.Path,
		"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if w.code != 0 {
		panic(http.ErrAbortHandler)
	}
	e.fail(w, r, &apiError{
		typ: errInternal, err: errors.New("unexpected error; the server's log has the details"),
	})
}

// admits reports whether a request has a method of the route and does not come from a foreign web page. Otherwise it answers
// the request.
func (e *route) admits(w http.ResponseWriter, r *http.Request) bool {
	s := e.server
	if len(e.used) > 0 && !slices.Contains(e.used, r.Method) {
		e.refuseMethod(w, r)
		return false
	}
	if !e.changesData {
		return true
	}
	allowed := s.allowedPage
	if e.getChanges {
		allowed = s.sameOrigin
	}
	err := allowed(r)
	if err == nil {
		return true
	}
	e.refuse(w, r, rejectOrigin, &apiError{typ: errBadData, status: http.StatusForbidden, err: err})
	return false
}

// allowedPage returns an error if a page of another origin sends the request, unless the server allows that origin or the
// method is safe. Only browsers send the headers that it checks.
func (s *Server) allowedPage(r *http.Request) error {
	err := s.origins.Check(r)
	if err == nil || s.allowedOrigin(r) {
		return nil
	}
	return err
}

// sameOrigin is allowedPage for requests that change data by a safe method.
func (s *Server) sameOrigin(r *http.Request) error {
	changing := r.WithContext(r.Context())
	changing.Method = http.MethodPost
	return s.allowedPage(changing)
}

// identified returns the principal that sends a request, if the route permits it. Otherwise it answers the request.
func (e *route) identified(w http.ResponseWriter, r *http.Request) (p *principal.Principal, ok bool) {
	if e.needs.open {
		return &principal.Principal{}, true
	}
	p, err := e.identify(r)
	if err != nil {
		aerr, reason := unidentified(w, r, err)
		e.refuse(w, r, reason, aerr)
		return nil, false
	}
	forbidden := &apiError{typ: errForbidden}
	switch needs := e.needs; {
	case needs.scopes == 0 || !p.Scopes.Has(needs.scopes):
		forbidden.err = fmt.Errorf("%q has the scopes %s; this request needs %s", p.Name, p.Scopes, needs.scopes)
		e.refuse(w, r, rejectScope, forbidden)
	case p.Restricted() && !needs.restricted:
		forbidden.err = fmt.Errorf("%q may read only the series %s; this endpoint shows more than that", p.Name, p.CacheKey())
		e.refuse(w, r, rejectRestricted, forbidden)
	default:
		return e.withTenants(w, r, p)
	}
	return nil, false
}

// identify returns the principal that sends a request. It returns the error of the last attempt.
func (e *route) identify(r *http.Request) (p *principal.Principal, err error) {
	var logIns []string
	if e.logIns != nil {
		logIns = e.logIns(r)
	}
	if len(logIns) == 0 {
		return e.server.opts.Auth.Identify(r)
	}
	for _, header := range logIns {
		attempt := r.WithContext(r.Context())
		attempt.Header = http.Header{"Authorization": {header}}
		if p, err = e.server.opts.Auth.Identify(attempt); err == nil {
			break
		}
	}
	return p, err
}

// withTenants returns the principal with the tenants of its request. If the route does not permit them, it answers the request.
func (e *route) withTenants(w http.ResponseWriter, r *http.Request, p *principal.Principal) (_ *principal.Principal, ok bool) {
	t := e.server.opts.Tenancy
	if t == nil {
		return p, true
	}
	p, err := t.Resolve(r, p, e.needs.tenants)
	if err != nil {
		aerr, reason := unidentified(w, r, err)
		e.refuse(w, r, reason, aerr)
		return nil, false
	}
	return p, true
}

// unidentified is the response to a request whose sender or tenant is unknown.
func unidentified(w http.ResponseWriter, r *http.Request, err error) (aerr *apiError, reason string) {
	tenant := new(tenancy.Error)
	if errors.As(err, &tenant) {
		if tenant.Status == http.StatusUnauthorized {
			auth.Challenge(w.Header(), r)
		}
		types := map[int]errorType{
			http.StatusBadRequest: errBadData, http.StatusUnauthorized: errUnauthorized, http.StatusForbidden: errForbidden,
			http.StatusServiceUnavailable: errUnavailable,
		}
		return &apiError{typ: cmp.Or(types[tenant.Status], errInternal), err: err}, tenant.Reason
	}
	refusal := new(auth.Refusal)
	if !errors.As(err, &refusal) {
		return &apiError{typ: errInternal, err: err}, senders.ReasonInternal
	}
	if refusal.Status() == http.StatusUnauthorized {
		refusal.Challenge(w.Header(), r)
		return &apiError{typ: errUnauthorized, err: err}, refusal.Reason
	}
	return &apiError{typ: errUnavailable, err: err}, refusal.Reason
}

// ready reports whether the server answers requests of the route. Otherwise it answers the request.
func (e *route) ready(w http.ResponseWriter, r *http.Request) bool {
	if !e.waits {
		return true
	}
	state := e.server.opts.Ready()
	if !state.Ready {
		setStopping(w, state)
		e.refuse(w, r, rejectNotReady, &apiError{
			typ: errUnavailable, err: errors.New("service unavailable: " + state.Reason), retryAfter: state.RetryAfter,
		})
	}
	return state.Ready
}

// refuse answers a request with an error and counts the reason.
func (e *route) refuse(w http.ResponseWriter, r *http.Request, reason string, aerr *apiError) {
	s := e.server
	s.metrics.rejected.WithLabelValues(e.name, reason).Inc()
	if e.protocol != nil {
		s.opts.Senders.Refuse(r, e.protocol(r), aerr.code(), reason, aerr.err)
	}
	s.setCORS(w, r)
	e.fail(w, r, aerr)
}

// refuseMethod answers 405 with the allowed methods, or lists them for OPTIONS.
func (e *route) refuseMethod(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", e.allow)
	if r.Method == http.MethodOptions {
		e.server.setCORS(w, r)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	e.fail(w, r, &apiError{
		typ: errBadData, status: http.StatusMethodNotAllowed,
		err: fmt.Errorf("method %s is not allowed here; use %s", r.Method, strings.Join(e.used, " or ")),
	})
}

// setStopping sets the header that distinguishes a stopping server from a starting one, as in Prometheus.
func setStopping(w http.ResponseWriter, state Readiness) {
	w.Header().Set("X-Prometheus-Stopping", strconv.FormatBool(state.Stopping))
}

// setCORS lets a page of an allowed origin read the response in a browser.
func (s *Server) setCORS(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin")
	if !s.allowedOrigin(r) {
		return
	}
	h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Origin")
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	h.Set("Access-Control-Expose-Headers", "Date")
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
}

func (s *Server) allowedOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin != "" && s.opts.CORSOrigin != nil && s.opts.CORSOrigin.MatchString(origin)
}
