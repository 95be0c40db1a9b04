package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/util/annotations"

	"halite/api/promjson"
	readers "halite/query/promql"
)

// annotationsMax bounds the warnings, and likewise the infos, of one answer.
const annotationsMax = 10

// reply is the successful outcome of an endpoint.
type reply struct {
	// data writes the data field; nil answers 204 without a body.
	data func(j *promjson.Writer)
	// notes are warnings and infos; expr is the expression they have positions in, if any.
	notes annotations.Annotations
	expr  string
	// document, if not nil, is the data field as a value for encoding/json.
	document any
	// sending is called before the answer is written, and done afterwards; each may be nil. The memory of the answer
	// counts until done.
	sending func(readers.Answer)
	done    func()
}

// document is a reply of a value that encoding/json knows to write.
func document(v any) (reply, *apiError) { return reply{document: v}, nil }

// encode turns the document of a reply into its data, and counts its memory.
func (s *Server) encode(r *reply) *apiError {
	text := promjson.Marshal(r.document)
	held := s.hold()
	if err := held.take(2 * len(text)); err != nil { // the text and the buffer
		held.end()
		return evalError(err)
	}
	r.data = func(j *promjson.Writer) { j.RawBytes(text) }
	r.sending, r.done = held.sending, held.end
	return nil
}

// respond writes a successful answer in Prometheus' envelope.
func (s *Server) respond(w http.ResponseWriter, req *http.Request, r reply) {
	if r.document != nil {
		if aerr := s.encode(&r); aerr != nil {
			s.respondError(w, aerr)
			return
		}
	}
	if r.done != nil {
		defer r.done()
	}
	if r.sending != nil {
		r.sending(answerOf(req.Context()))
	}
	if r.data == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	w.Header().Set("Content-Type", "application/json")
	j := promjson.NewWriter(w, *buf)
	j.Raw(`{"status":"success","data":`)
	r.data(j)
	warnings, infos := notes(r.notes, r.expr)
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

// respondError writes an error in Prometheus' envelope.
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
	// A failed write means that the client is gone; nobody is left to tell.
	_, _ = w.Write(body)
}

// notes tells warnings from infos, sorted so that equal results give equal answers, and bounds both.
func notes(a annotations.Annotations, expr string) (warnings, infos []string) {
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
