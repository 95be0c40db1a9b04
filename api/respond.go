package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/api/auth"
	"halite/api/netlimit"
	"halite/api/promjson"
	"halite/query"
	"halite/query/budget"
	"halite/query/promadapter"
	"halite/storage"
	"halite/storage/index"
)

// endpoint answers one kind of request in Prometheus's JSON envelope.
type endpoint func(r *http.Request) (reply, *apiError)

// json returns a handler that reads the parameters of a request, calls ep, and writes its reply.
func (s *Server) json(ep endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
	}
}

// annotationsMax bounds the warnings, and likewise the infos, of one response.
const annotationsMax = 10

// reply is the successful outcome of an endpoint.
type reply struct {
	// data writes the data field; nil answers 204 without a body.
	data func(j *promjson.Writer)
	// notes are warnings and infos. expr is the expression to which their positions refer, if any.
	notes annotations.Annotations
	expr  string
	// document, if not nil, is the data field as a value for encoding/json.
	document any
	// sending is called before the response is written, and done afterwards; each may be nil. The memory of the response is reserved
	// until done.
	sending func(budget.Response)
	done    func()
}

// document returns a reply with a value for encoding/json.
func document(v any) (reply, *apiError) { return reply{document: v}, nil }

// encode encodes the document of a reply as its data, and reserves its memory.
func (s *Server) encode(ctx context.Context, r *reply) *apiError {
	text := promjson.Marshal(r.document)
	budget := s.newBudget(ctx)
	if err := budget.reserve(2 * len(text)); err != nil { // the text and the buffer
		budget.end()
		return evalError(err)
	}
	r.data = func(j *promjson.Writer) { j.RawBytes(text) }
	r.sending, r.done = budget.sending, budget.end
	return nil
}

// respond writes a successful response in Prometheus's envelope.
func (s *Server) respond(w http.ResponseWriter, req *http.Request, r reply) {
	if r.document != nil {
		if aerr := s.encode(req.Context(), &r); aerr != nil {
			s.respondError(w, aerr)
			return
		}
	}
	if r.done != nil {
		defer r.done()
	}
	if r.sending != nil {
		r.sending(netlimit.ResponseOf(req.Context()))
	}
	if r.data == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	defer acquireCPU(req)()
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	w.Header().Set("Content-Type", "application/json")
	j := promjson.NewWriter(w, *buf)
	j.Raw(`{"status":"success","data":`)
	r.data(j)
	warnings, infos := notesOf(r.notes, r.expr)
	if len(warnings) > 0 {
		j.Raw(`,"warnings":`)
		j.Strings(warnings)
	}
	if len(infos) > 0 {
		j.Raw(`,"infos":`)
		j.Strings(infos)
	}
	j.Raw(`}`)
	if bytes, ok := j.Whole(); ok {
		w.Header().Set("Content-Length", strconv.Itoa(bytes))
	}
	j.Flush()
	*buf = j.Buffer()
}

// respondError writes an error in Prometheus's envelope.
func (s *Server) respondError(w http.ResponseWriter, e *apiError) {
	if e.code() == http.StatusServiceUnavailable {
		s.setRetryAfter(w, e.retryAfter)
	}
	sendError(w, e)
}

func sendError(w http.ResponseWriter, e *apiError) {
	body := promjson.AppendError(nil, string(e.typ), e.err.Error())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.code())
	// A failed write means that the client is gone, so there is nobody to notify.
	_, _ = w.Write(body)
}

// notesOf separates warnings from infos and bounds both. It sorts them, so that equal results give equal responses.
func notesOf(a annotations.Annotations, expr string) (warnings, infos []string) {
	if len(a) == 0 {
		return nil, nil
	}
	warnings, infos = a.AsStrings(expr, 0, 0)
	return bounded(warnings, "warning"), bounded(infos, "info")
}

func bounded(list []string, kind string) []string {
	slices.Sort(list)
	if more := len(list) - annotationsMax; more > 0 {
		list = append(list[:annotationsMax], fmt.Sprintf("%d more %s annotations omitted", more, kind))
	}
	return list
}

// setRetryAfter sets the header Retry-After. Without a given time it chooses a random one, which spreads out the retries of
// many clients.
func (s *Server) setRetryAfter(w http.ResponseWriter, d time.Duration) {
	if d <= 0 {
		l := &s.opts.Limits
		d = l.RetryAfterMin + rand.N(l.RetryAfterMax-l.RetryAfterMin+1)
	}
	seconds := (d + time.Second - 1) / time.Second
	w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
}

// errorType is the errorType field of an error response.
type errorType string

const (
	errBadData     errorType = "bad_data"
	errExec        errorType = "execution"
	errTimeout     errorType = "timeout"
	errCanceled    errorType = "canceled"
	errInternal    errorType = "internal"
	errUnavailable errorType = "unavailable"
	errNotFound    errorType = "not_found"

	// Prometheus leaves log-ins to a proxy, so it has no names for these.
	errUnauthorized errorType = auth.TypeUnauthorized
	errForbidden    errorType = auth.TypeForbidden
)

// statusClientClosed is the status of a request whose client closed the connection before the response was ready. nginx and
// Prometheus use it.
const statusClientClosed = 499

// apiError is an error with its type in Prometheus's scheme.
type apiError struct {
	typ errorType
	err error
	// status, if not 0, overrides the status code of typ.
	status int
	// retryAfter is sent with 503; 0 lets the server choose.
	retryAfter time.Duration
}

// code is the HTTP status code of the error. Prometheus answers 500 for "unavailable"; here it is 503, so that clients
// and load balancers try again.
func (e *apiError) code() int {
	if e.status != 0 {
		return e.status
	}
	switch e.typ {
	case errBadData:
		return http.StatusBadRequest
	case errExec:
		return http.StatusUnprocessableEntity
	case errCanceled:
		return statusClientClosed
	case errTimeout, errUnavailable:
		return http.StatusServiceUnavailable
	case errNotFound:
		return http.StatusNotFound
	case errUnauthorized:
		return http.StatusUnauthorized
	case errForbidden:
		return http.StatusForbidden
	default:
		return http.StatusInternalServerError
	}
}

func badData(err error) *apiError { return &apiError{typ: errBadData, err: err} }

func badParam(name string, err error) *apiError {
	return badData(fmt.Errorf("invalid parameter %q: %w", name, err))
}

// badForm reports a query string or form body that could not be parsed.
func badForm(err error) *apiError {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return &apiError{
			typ: errBadData, status: http.StatusRequestEntityTooLarge,
			err: fmt.Errorf("request body exceeds the limit of %d bytes (web.max-form-bytes)", tooLarge.Limit),
		}
	}
	return badData(fmt.Errorf("error parsing form values: %w", err))
}

// evalError gives an error of the engine, the index or the store its type.
func evalError(err error) *apiError {
	var (
		typed    *query.Error
		canceled promql.ErrQueryCanceled
		timeout  promql.ErrQueryTimeout
		store    promql.ErrStorage
	)
	switch {
	case errors.Is(err, query.ErrCancelled):
		// The client is still connected: an operator ended its query.
		return &apiError{typ: errCanceled, status: http.StatusServiceUnavailable, err: err}
	case errors.As(err, &typed):
		return &apiError{typ: errorType(typed.Type), err: err}
	case budget.IsPoolExhausted(err):
		return &apiError{typ: errUnavailable, err: err}
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return &apiError{typ: errCanceled, err: err}
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return &apiError{typ: errTimeout, err: err}
	case errors.Is(err, storage.ErrUnavailable):
		return &apiError{typ: errUnavailable, err: err}
	case errors.As(err, &store):
		return &apiError{typ: errInternal, err: err}
	}
	return &apiError{typ: errExec, err: err}
}

// responseBudget counts the memory of a response against the memory of queries until the last byte is written. Without
// Options.Budgets it counts nothing.
type responseBudget struct{ budget *budget.Budget }

// newBudget begins to count, within the limits of the principal. The caller ends it after the response is written.
func (s *Server) newBudget(ctx context.Context) responseBudget {
	if s.opts.Budgets == nil {
		return responseBudget{}
	}
	return responseBudget{s.opts.Budgets.BudgetOf(ctx)}
}

// reserve adds bytes to the reservation, or returns a *budget.LimitError.
func (b responseBudget) reserve(bytes int) error {
	if b.budget == nil {
		return nil
	}
	return b.budget.Reserve(int64(bytes))
}

// settle replaces the current reservation by bytes.
func (b responseBudget) settle(bytes int) error {
	if b.budget == nil {
		return nil
	}
	return b.budget.Reset(int64(bytes))
}

// sending reports that the response is being written. If the client is slow, a query that needs the memory may end it.
func (b responseBudget) sending(r budget.Response) {
	if b.budget != nil {
		b.budget.StartSending(r)
	}
}

// forLookup returns the budget of look-ups in the index.
func (b responseBudget) forLookup() index.Budget {
	if b.budget == nil {
		return nil
	}
	return b.budget.Reserve
}

func (b responseBudget) end() {
	if b.budget != nil {
		b.budget.Close()
	}
}

// readUnder returns the store. If the store supports it, its reads reserve their memory in b.
func (s *Server) readUnder(b responseBudget) promstorage.SampleAndChunkQueryable {
	if q, ok := s.opts.Queryable.(*promadapter.Queryable); ok && b.budget != nil {
		return q.WithBudget(b.budget)
	}
	return s.opts.Queryable
}
