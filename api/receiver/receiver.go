package receiver

import (
	"net/http"

	"halite/ingest"
	"halite/ingest/batch"
)

// Open begins a request of a protocol. It reads the header and the URL, not the body.
type Open func(r *http.Request) Request

// Request is one write request of a protocol.
type Request interface {
	// Protocol is the name of the protocol in the list of senders.
	Protocol() string
	// Check returns the fault of the header or the URL; nil if there is none.
	Check() error
	// Parse adds the series of a decoded body to a batch. The body is valid until the batch is reset. An error refuses the whole
	// request.
	Parse(body []byte, b *batch.Batch) error
	// Respond is the response to a request that was stored, perhaps in part.
	Respond(result *ingest.Result) Response
	// Refuse is the response to a request that was refused as a whole, with an HTTP status from 400 on.
	Refuse(status int, err error) Response
}

// Response is a response of a protocol. Header may be nil.
type Response struct {
	Status int
	Type   string // content type; "" if there is no body
	Body   []byte
	Header map[string]string
}

// Text returns a response in plain text.
func Text(status int, text string) Response {
	return Response{Status: status, Type: "text/plain; charset=utf-8", Body: []byte(text + "\n")}
}

// Write sends the response. A 503 without a time to wait asks the client to try again after a second.
func (a *Response) Write(w http.ResponseWriter) {
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	if a.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	if a.Type != "" {
		w.Header().Set("Content-Type", a.Type)
	}
	w.WriteHeader(a.Status)
	// A failed write means that the client is gone, so there is nobody to notify.
	_, _ = w.Write(a.Body)
}
