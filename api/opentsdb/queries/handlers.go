package queries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"halite/api/netlimit"
	api "halite/api/opentsdb"
	"halite/api/opentsdb/querystats"
	"halite/api/receiver"
	"halite/api/remote"
	"halite/ingest/deletion"
	"halite/query/opentsdb"
	"halite/query/opentsdb/request"
	"halite/storage/notes"
)

// Engine answers queries; *opentsdb.Engine is one.
type Engine interface {
	Run(ctx context.Context, q *request.Query, c opentsdb.Client) (*opentsdb.Response, error)
	Functions(ctx context.Context, q *request.Query, calls []*request.Call, c opentsdb.Client) (*opentsdb.Response, error)
	Expressions(ctx context.Context, x *request.Expressions, c opentsdb.Client) ([]opentsdb.Output, *opentsdb.Response, error)
	Last(ctx context.Context, q *request.Last, nowMs int64, c opentsdb.Client) (*opentsdb.LastResponse, error)
	// Selectors returns selectors of exactly the series that a sub-query reads.
	Selectors(ctx context.Context, q *request.Query, c opentsdb.Client) ([]opentsdb.Selector, error)
}

// Deleter deletes samples; *ingest.Ingester is one.
type Deleter interface {
	DeleteSeries(ctx context.Context, d deletion.Request) (series int, err error)
}

// contentType is the type of all responses.
const contentType = "application/json; charset=UTF-8"

// Options configures Handlers.
type Options struct {
	// Engine is required.
	Engine Engine
	// Deleter deletes the samples of a query; nil refuses deletions.
	Deleter Deleter
	// SameOrigin returns an error for requests that a browser sends for a page of another origin, whatever their method. Required
	// with Deleter.
	SameOrigin func(*http.Request) error
	// Notes keeps annotations; nil means that there are none.
	Notes *notes.Store
	// Stats lists the queries; nil lists none.
	Stats *querystats.List
	// BodyBytesMax bounds a body, decoded; 10 MiB.
	BodyBytesMax int64
	// SubQueriesMax bounds the sub-queries of a request; 1000.
	SubQueriesMax int
	// Now is the clock; time.Now.
	Now func() time.Time
}

// Handlers are the handlers of all endpoints. They are safe for concurrent use.
type Handlers struct {
	opts    Options
	parser  *request.Parser
	decoder receiver.Decoder
}

// New makes Handlers.
func New(o Options) (*Handlers, error) {
	if o.Engine == nil {
		return nil, errors.New("opentsdb queries: option Engine is required")
	}
	if o.Deleter != nil && o.SameOrigin == nil {
		return nil, errors.New("opentsdb queries: option SameOrigin is required with Deleter")
	}
	if o.BodyBytesMax <= 0 {
		o.BodyBytesMax = 10 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handlers{opts: o, parser: request.NewParser(o.Now, request.Limits{SubQueriesMax: o.SubQueriesMax})}, nil
}

// Methods returns the methods that all handlers accept.
func Methods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodDelete}
}

// Paths returns the handlers by path.
func (h *Handlers) Paths() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/api/query":      h.handlerFunc(h.query),
		"/api/query/last": h.handlerFunc(h.last),
		"/api/query/exp":  h.handlerFunc(h.expressions),
		"/api/query/gexp": h.handlerFunc(h.functions),
	}
}

// handlerFunc returns a handler that calls handle, and answers its error.
func (h *Handlers) handlerFunc(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := handle(w, r); err != nil {
			refuse(w, err)
		}
	}
}

// query answers /api/query.
func (h *Handlers) query(w http.ResponseWriter, r *http.Request) (err error) {
	q, text, err := h.parse(w, r)
	if err != nil {
		return err
	}
	tracked := h.track(r, documentOf(q))
	defer func() { tracked.end(err) }()
	c := opentsdb.Client{Address: r.RemoteAddr, Text: text}
	var doomed []opentsdb.Selector
	if q.Delete {
		if err := h.mayDelete(r); err != nil {
			return err
		}
		if doomed, err = h.opts.Engine.Selectors(r.Context(), q, c); err != nil {
			return err
		}
	}
	began := h.opts.Now()
	noted, err := h.annotations(r.Context(), q)
	if err != nil {
		return err
	}
	run := *q
	run.ShowTSUIDs = q.ShowTSUIDs || len(noted.noted) > 0
	a, err := h.opts.Engine.Run(r.Context(), &run, c)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := noted.read(r.Context(), q, a); err != nil {
		return err
	}
	if err := h.delete(r.Context(), q, doomed); err != nil {
		return err
	}
	a.Sending(netlimit.ResponseOf(r.Context()))
	tracked.recordResult(a)
	if api.IsBare(r) {
		writeLines(w, a)
	} else {
		out := newWriter(w, q, a)
		out.arrays, out.noted = r.URL.Query().Has("arrays"), noted
		out.write(h.opts.Now().Sub(began))
	}
	tracked.sent(r)
	return nil
}

// parse parses a request of either form. The text of the query is for lists of queries.
func (h *Handlers) parse(w http.ResponseWriter, r *http.Request) (q *request.Query, text string, err error) {
	if r.Method == http.MethodPost {
		body, err := h.body(w, r)
		if err != nil {
			return nil, "", err
		}
		q, err = h.parser.JSON(body)
		return q, string(body), err
	}
	v, err := request.Parameters(r.URL.RawQuery)
	if err != nil {
		return nil, "", err
	}
	if q, err = h.parser.URL(v); err != nil {
		return nil, "", err
	}
	q.Delete = q.Delete || r.Method == http.MethodDelete || strings.EqualFold(v.Get("method_override"), http.MethodDelete)
	return q, strings.Join(append(v["m"], append(v["tsuid"], v["tsuids"]...)...), " "), nil
}

// body reads and decodes a body.
func (h *Handlers) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	most := h.opts.BodyBytesMax
	body, done, err := h.decoder.Open(r.Header.Get("Content-Encoding"), http.MaxBytesReader(w, r.Body, most), most)
	if errors.Is(err, receiver.ErrEncoding) {
		return nil, &failure{http.StatusUnsupportedMediaType, err}
	}
	if err != nil {
		return nil, bodyFailure(err, most)
	}
	defer done()
	text, err := io.ReadAll(io.LimitReader(body, most+1))
	if err == nil && int64(len(text)) > most {
		err = remote.ErrBodyTooLarge
	}
	if err != nil {
		return nil, bodyFailure(err, most)
	}
	return text, nil
}

func bodyFailure(err error, most int64) error {
	status := receiver.BodyStatus(err)
	if status == http.StatusRequestEntityTooLarge {
		return &failure{status, fmt.Errorf("the body exceeds the limit of %d bytes", most)}
	}
	return &failure{status, fmt.Errorf("reading the body: %w", err)}
}
