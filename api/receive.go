package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"halite/api/receiver"
	"halite/api/receiver/exposition"
	"halite/api/receiver/influx"
	"halite/api/receiver/otlp"
	"halite/api/remote"
	"halite/api/senders"
	"halite/ingest"
	"halite/ingest/batch"
)

// receiving is a path that takes another protocol than remote write.
type receiving struct {
	path string
	// below is set if all longer paths belong to it as well.
	below   bool
	methods []string
	open    receiver.Open
}

// receivers returns the paths of all protocols but remote write.
func receivers(now func() time.Time) []receiving {
	const post, put = http.MethodPost, http.MethodPut
	return []receiving{
		{path: "/api/v1/import/prometheus", methods: []string{post}, open: exposition.Import(now)},
		{path: "/write", methods: []string{post}, open: influx.V1(now)},
		{path: "/api/v2/write", methods: []string{post}, open: influx.V2(now)},
		{path: "/api/v1/otlp/v1/metrics", methods: []string{post}, open: otlp.Export(otlp.Settings(false, DefaultLookback))},
		{path: "/v1/metrics", methods: []string{post}, open: otlp.Export(otlp.Settings(false, DefaultLookback))},
		{path: exposition.PushPath, below: true, methods: []string{post, put}, open: exposition.Push(now)},
	}
}

// WriteProtocol returns the protocol of the path of a write request, "" if the path is none of a write. Clients reach the server
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
	for _, at := range receivers(time.Now) {
		if path == at.path || at.below && strings.HasPrefix(path, at.path) {
			return at.open(r).Protocol()
		}
	}
	return ""
}

// aliasPrefix begins the paths of Prometheus's API in Mimir and Cortex.
const aliasPrefix = "/prometheus"

// alias serves the paths behind aliasPrefix as if they came without it.
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

// addReceivers registers the paths of all protocols but remote write.
func (s *Server) addReceivers(router *mux.Router, needs access) {
	for _, at := range receivers(s.opts.Now) {
		e := s.newRoute(at.path, needs, s.receive(at), at.methods...)
		e.waits, e.changesData = true, true
		e.protocol = func(r *http.Request) string { return at.open(r).Protocol() }
		if at.below {
			router.PathPrefix(at.path).Handler(e)
		} else {
			router.Path(at.path).Handler(e)
		}
		s.routes = append(s.routes, e)
		s.metrics.initRejected(at.path)
	}
}

// receive returns the handler of a protocol.
func (s *Server) receive(at receiving) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := at.open(r)
		result, failure := s.storeReceived(r, x)
		if failure != nil {
			s.noteRefusal(w, r, at.path, x.Protocol(), failure)
			answer := x.Refuse(failure.status, failure.err)
			answer.Write(w)
			return
		}
		answer := x.Answer(&result)
		s.noteWrite(r, x.Protocol(), answer.Status, &result)
		answer.Write(w)
	}
}

// storeReceived checks a request, decodes its body and passes it to the writer.
func (s *Server) storeReceived(r *http.Request, x receiver.Request) (ingest.Result, *writeError) {
	if err := x.Check(); err != nil {
		return ingest.Result{}, writeFailure(http.StatusBadRequest, senders.ReasonParameter, err)
	}
	bytesMax, sizeBytes := s.opts.Limits.WriteBytesMax, r.ContentLength
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
		sizeBytes = -1 // when decoded
	}
	return s.storeBody(r, body, sizeBytes, func(body []byte) (ingest.Result, error) {
		return s.opts.Writer.WriteBatch(r.Context(), len(body), func(b *batch.Batch) error { return x.Parse(body, b) })
	})
}
