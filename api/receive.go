package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"halite/api/netlimit"
	"halite/api/opentsdb"
	"halite/api/receiver"
	"halite/api/receiver/csv"
	"halite/api/receiver/exposition"
	"halite/api/receiver/influx"
	"halite/api/receiver/jsonl"
	otsdb "halite/api/receiver/opentsdb"
	"halite/api/receiver/otlp"
	"halite/api/remote"
	"halite/api/senders"
	"halite/api/tenancy"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/storage/periodic"
)

// receiving is a path of a protocol other than remote write.
type receiving struct {
	path string
	// below is set if all longer paths belong to it too.
	below   bool
	methods []string
	open    receiver.Open
	// lines is set if a body of any size is stored during its transfer, several lines at a time.
	lines bool
	// whole is receiver.Pieces.Whole.
	whole func(text []byte) int
	// fail, if not nil, writes errors that occur before the protocol is called.
	fail failure
	// logIns is as in route.
	logIns func(r *http.Request) []string
}

// importTextPath accepts the text of a scrape. In VictoriaMetrics, the paths of a Pushgateway are below it as well.
const importTextPath = "/api/v1/import/prometheus"

// receivers returns the paths of all protocols except remote write. names has the rules of OpenTSDB's names. lines returns the
// options of InfluxDB's line protocol. export returns the options of OTLP.
func receivers(
	now func() time.Time, names *otsdb.Names, lines func() influx.Options, export func() otlp.Options,
) []receiving {
	const post, put = http.MethodPost, http.MethodPut
	list := []receiving{
		{path: importTextPath, methods: []string{post}, open: exposition.Import(now)},
		{path: ImportPath, methods: []string{post, put}, open: jsonl.Import, lines: true},
		{path: ImportCSVPath, methods: []string{post, put}, open: csv.Import(now), lines: true, whole: csv.WholeRows},
		{path: "/api/put", methods: []string{post}, open: otsdb.Put(names), fail: opentsdb.WriteError},
		{path: "/api/rollup", methods: []string{post}, open: otsdb.Rollup(names), fail: opentsdb.WriteError},
		{path: "/api/histogram", methods: []string{post}, open: otsdb.Histogram(names), fail: opentsdb.WriteError},
	}
	for _, prefix := range []string{"/api/v1/otlp", "", "/otlp", "/opentelemetry"} { // of Prometheus, Mimir and VictoriaMetrics
		list = append(list, receiving{
			path: prefix + "/v1/metrics", methods: []string{post}, open: otlp.Export(export), fail: otlp.WriteError,
		})
	}
	for _, prefix := range []string{"", importTextPath} {
		list = append(list, receiving{
			path: prefix + exposition.PushPath, below: true, methods: []string{post, put}, open: exposition.Push(now),
		})
	}
	for _, prefix := range []string{"", influx.Prefix} {
		list = append(list,
			receiving{path: prefix + "/write", methods: []string{post}, open: influx.V1(now, lines),
				fail: influx.WriteErrorV1, logIns: influx.LogIns},
			receiving{path: prefix + "/api/v2/write", methods: []string{post}, open: influx.V2(now, lines),
				fail: influx.WriteErrorV2, logIns: influx.LogIns})
	}
	return list
}

// addInflux registers InfluxDB's paths that do not write samples. probes is the access of checks, and writes is the access of
// clients that write.
func (s *Server) addInflux(router *mux.Router, probes, writes access) {
	const get, head, post = http.MethodGet, http.MethodHead, http.MethodPost
	for _, prefix := range []string{"", influx.Prefix} {
		ping := s.newRoute(prefix+"/ping", probes, influx.Ping, get, head)
		health := s.newRoute(prefix+"/health", probes, influx.Health, get, head)
		ready := s.newRoute(prefix+"/ready", probes, influx.Ready, get, head)
		query := s.newRoute(prefix+"/query", writes, influx.Query(s.opts.Limits.FormBytesMax), get, post)
		health.waits, ready.waits, query.waits = true, true, true
		query.failure = influx.WriteErrorV1
		for _, e := range []*route{ping, health, ready, query} {
			e.logIns = influx.LogIns
			router.Path(e.name).Handler(e)
			s.routes = append(s.routes, e)
		}
	}
}

// WriteProtocol returns the protocol for the path of a write request, "" if the path is not for writes. Clients reach the server
// below prefix.
func WriteProtocol(r *http.Request, prefix string) string {
	path, ok := strings.CutPrefix(r.URL.Path, prefix)
	if !ok {
		return ""
	}
	path = strings.TrimPrefix(path, aliasPrefix)
	if path == WritePath || path == PushPath {
		return senders.RemoteWrite(r)
	}
	for _, at := range receivers(time.Now, nil, influx.DefaultOptions, defaultOTLP) {
		if path == at.path || at.below && strings.HasPrefix(path, at.path) {
			return at.open(r).Protocol()
		}
	}
	return ""
}

// aliasPrefix begins the paths of Prometheus's API in Mimir and Cortex.
const aliasPrefix = "/prometheus"

// alias serves the paths below aliasPrefix like the same paths without the prefix.
func alias(router http.Handler) http.Handler {
	stripped := http.StripPrefix(aliasPrefix, router)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, aliasPrefix+aliasPrefix+"/") {
			http.NotFound(w, r) // one prefix is enough
			return
		}
		stripped.ServeHTTP(w, r)
	})
}

// addReceivers registers the paths of all protocols except remote write, and other paths that their clients use. compress adds
// the compression of responses.
func (s *Server) addReceivers(router *mux.Router, needs access, compress func(*route) *route) {
	for _, at := range receivers(s.opts.Now, s.opts.OpenTSDBNames, s.opts.Influx, s.opts.OTLP) {
		e := s.newRoute(at.path, needs, s.receive(at), at.methods...)
		e.waits, e.changesData, e.failure, e.logIns = true, true, at.fail, at.logIns
		e.protocol = func(r *http.Request) string { return at.open(r).Protocol() }
		if at.below {
			router.PathPrefix(at.path).Handler(e)
		} else {
			router.Path(at.path).Handler(e)
		}
		s.routes = append(s.routes, e)
		s.metrics.initRejected(at.path)
	}
	s.addOpenTSDB(router, compress)
}

// addOpenTSDB registers OpenTSDB's paths that do not write samples. compress adds the compression of responses.
func (s *Server) addOpenTSDB(router *mux.Router, compress func(*route) *route) {
	handlers := opentsdb.New(opentsdb.Options{
		Index: s.opts.Index, Begin: s.beginLookup, Notes: s.opts.Notes, Names: s.opts.OpenTSDBNames,
		Aliases: s.opts.Aliases, MayRename: s.opts.AdminAPI, Stats: s.opts.OpenTSDBStats, Queries: s.openTSDBStats,
		Status: func(err error) int { return evalError(err).code() },
		Flags:  s.opts.Flags, Now: s.opts.Now, BodyBytesMax: s.opts.Limits.FormBytesMax,
		Build: opentsdb.Build{
			Version: s.opts.Build.Version, Revision: s.opts.Build.Revision, Branch: s.opts.Build.Branch,
			User: s.opts.Build.BuildUser, Date: s.opts.Build.BuildDate,
		},
	})
	byPath, below := map[string]opentsdb.Routes{}, map[string]bool{}
	var paths []string
	for _, at := range handlers.Endpoints() {
		e := s.newRoute(at.Name, access{
			scopes: at.Scopes, restricted: at.Restricted, tenants: tenantsOf(&at),
		}, at.Handle, at.Methods...)
		e.waits, e.changesData, e.getChanges = true, at.Changes, at.Changes
		e.failure, e.byMethod = opentsdb.WriteError, true
		s.routes = append(s.routes, compress(e))
		if byPath[at.Path] == nil {
			byPath[at.Path] = opentsdb.Routes{}
			paths = append(paths, at.Path)
		}
		below[at.Path] = below[at.Path] || at.Below
		for _, method := range at.Methods {
			byPath[at.Path][method] = e
		}
	}
	for _, path := range paths { // exact paths before paths with others below them
		router.Path(path).Handler(byPath[path])
	}
	for _, path := range paths {
		if below[path] {
			router.PathPrefix(path + "/").Handler(byPath[path])
		}
	}
}

// tenantsOf returns how an endpoint uses the series of tenants.
func tenantsOf(at *opentsdb.Endpoint) tenancy.Use {
	switch {
	case !at.Tenants:
		return tenancy.None
	case at.Changes:
		return tenancy.Change
	}
	return tenancy.Read
}

// beginLookup admits a request of OpenTSDB as a look-up.
func (s *Server) beginLookup(r *http.Request) (*opentsdb.Lookup, error) {
	ctx, leave, aerr := s.admit(r)
	if aerr != nil {
		return nil, opentsdb.NewError(aerr.code(), aerr.err.Error())
	}
	budget := s.newBudget(ctx)
	return &opentsdb.Lookup{Ctx: ctx, Budget: budget.forLookup(), End: func() { budget.end(); leave() }}, nil
}

// receive returns the handler of a protocol.
func (s *Server) receive(at receiving) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := at.open(r)
		result, failure := s.storeReceived(r, x, at)
		if failure != nil {
			s.noteRefusal(w, r, at.path, x.Protocol(), failure)
			response := x.Refuse(failure.status, failure.err)
			response.Write(w)
			return
		}
		response := x.Respond(&result)
		s.noteWrite(r, x.Protocol(), response.Status, &result)
		response.Write(w)
	}
}

// storeReceived checks a request, decodes its body and passes it to the writer, as a whole or several lines at a time.
func (s *Server) storeReceived(r *http.Request, x receiver.Request, at receiving) (ingest.Result, *writeError) {
	if err := x.Check(); errors.Is(err, receiver.ErrContentType) {
		return ingest.Result{}, writeFailure(http.StatusUnsupportedMediaType, rejectContentType, err)
	} else if err != nil {
		return ingest.Result{}, writeFailure(http.StatusBadRequest, senders.ReasonParameter, err)
	}
	bytesMax, sizeBytes := s.opts.Limits.WriteBytesMax, r.ContentLength
	if at.lines {
		bytesMax = math.MaxInt64 / 2
	}
	if sizeBytes > bytesMax {
		return ingest.Result{}, bodyFailure(remote.ErrBodyTooLarge, bytesMax)
	}
	encoding := r.Header.Get("Content-Encoding")
	body, done, err := s.decoder.Open(encoding, r.Body, bytesMax)
	if errors.Is(err, receiver.ErrEncoding) {
		return ingest.Result{}, writeFailure(http.StatusUnsupportedMediaType, rejectEncoding, err)
	}
	if err != nil {
		return ingest.Result{}, bodyFailure(err, bytesMax)
	}
	defer done()
	if body != r.Body {
		sizeBytes = -1 // size after decoding
	}
	if at.lines {
		return s.storeLines(r, body, sizeBytes, x, at.whole)
	}
	return s.storeBody(r, body, sizeBytes, func(body []byte) (ingest.Result, error) {
		parse := func(b *batch.Batch) error { return x.Parse(body, b) }
		return s.opts.Writer.Write(r.Context(), ingest.Input{Parse: parse, SizeBytes: len(body)})
	})
}

// pieceTries bounds the attempts to store a piece while the writer is overloaded.
const pieceTries = 20

// storeLines stores a body during its transfer, several lines at a time. The body has bodyBytes, or any size if that is
// negative. Only a piece of the body is in memory, and counts against Limits.WriteInflightBytesMax. After a failure the
// previous pieces stay stored.
func (s *Server) storeLines(
	r *http.Request, body io.Reader, bodyBytes int64, x receiver.Request, whole func(text []byte) int,
) (total ingest.Result, failure *writeError) {
	limits := &s.opts.Limits
	sizeBytes := min(receiver.PieceBytes, limits.WriteBytesMax)
	if bodyBytes >= 0 {
		sizeBytes = min(sizeBytes, bodyBytes+1) // one byte more, to see the end
	}
	if err := s.acquireBody(r.Context(), sizeBytes); err != nil {
		return total, overloaded(remote.ErrBodyMemory)
	}
	buf := s.buffers.get()
	p := receiver.NewPieces(body, *buf, sizeBytes, limits.WriteBytesMax, s.writeBytes.TryAcquire)
	p.Whole = whole
	defer func() {
		s.writeBytes.Release(p.SizeBytes())
		if used := p.Buffer(); cap(used) > cap(*buf) {
			*buf = used
		}
		s.buffers.put(buf)
	}()
	lines := 0
	for {
		piece, err := p.Next()
		if err != nil {
			return total, s.afterPieces(bodyFailure(err, limits.WriteBytesMax), total)
		}
		if len(piece) == 0 {
			return total, nil
		}
		result, failure := s.storePiece(r.Context(), piece, x)
		if failure != nil {
			return total, s.afterPieces(failure, total)
		}
		total.Add(&result)
		lines += bytes.Count(piece, []byte{'\n'})
		if failure := s.tooManyBadLines(&total, lines); failure != nil {
			return total, s.afterPieces(failure, total)
		}
		if transfer, ok := r.Body.(*netlimit.Body); ok {
			transfer.Extend() // for the next piece
		}
	}
}

// tooManyBadLines returns the failure of a body whose lines are mostly malformed. The server has stored total of its first lines.
// Such a body may have any size, and reading it to the end is of no use.
func (s *Server) tooManyBadLines(total *ingest.Result, lines int) *writeError {
	bad, most := total.Reasons[ingest.ReasonMalformedLine], s.opts.Limits.BadLinesMax
	if bad <= most || bad <= total.Accepted+total.Histograms {
		return nil
	}
	return writeFailure(http.StatusBadRequest, senders.ReasonMalformed, fmt.Errorf("more than %d lines are malformed "+
		"(ingest.max-bad-lines), and fewer samples are valid, so the server does not read past line %d: %s",
		most, lines, total.Summary()))
}

// afterPieces adds to a failure the number of samples stored before.
func (s *Server) afterPieces(failure *writeError, stored ingest.Result) *writeError {
	if n := stored.Accepted + stored.Histograms; n > 0 {
		failure.err = fmt.Errorf("%w; %d samples before it are stored", failure.err, n)
	}
	return failure
}

// storePiece stores some lines. It waits while the writer is overloaded.
func (s *Server) storePiece(ctx context.Context, piece []byte, x receiver.Request) (ingest.Result, *writeError) {
	for tries := 1; ; tries++ {
		begun := false
		result, failure := s.store(piece, func(piece []byte) (ingest.Result, error) {
			parse := func(b *batch.Batch) error {
				begun = true
				return x.Parse(piece, b)
			}
			return s.opts.Writer.Write(ctx, ingest.Input{Parse: parse, SizeBytes: len(piece)})
		})
		overload := new(ingest.OverloadError)
		if failure == nil || begun || tries == pieceTries || !errors.As(failure.err, &overload) {
			return result, failure
		}
		if err := periodic.Sleep(ctx, overload.RetryAfter); err != nil {
			return result, failure
		}
	}
}
