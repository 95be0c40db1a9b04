package opentsdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
)

// Names of the protocols in the list of senders.
const (
	ProtocolHTTP   = "OpenTSDB HTTP"
	ProtocolTelnet = "OpenTSDB telnet"
)

// kind is the kind of data points that a path accepts.
type kind int

const (
	kindPut kind = iota
	kindRollup
	kindHistogram
)

// Put returns the protocol of /api/put.
func Put(names *Names) receiver.Open { return open(kindPut, names) }

// Rollup returns the protocol of /api/rollup.
func Rollup(names *Names) receiver.Open { return open(kindRollup, names) }

// Histogram returns the protocol of /api/histogram.
func Histogram(names *Names) receiver.Open { return open(kindHistogram, names) }

// detailsMax bounds the bad data points in a response.
const detailsMax = 1000

// request is one write of data points in JSON.
type request struct {
	kind  kind
	names *Names
	// summary and details ask for a response with a body. timeouts adds a field to it.
	summary, details, timeouts bool
	fault                      error

	point document
	key   []byte
	bad   []detail
	count int // of bad data points
}

// detail is a refused data point with the reason.
type detail struct {
	Datapoint any    `json:"datapoint,omitempty"` // *shown, nil for null; missing if the writer refused it
	Error     string `json:"error"`
}

func open(kind kind, names *Names) receiver.Open {
	return func(r *http.Request) receiver.Request {
		q := r.URL.Query()
		x := &request{kind: kind, names: names, summary: q.Has("summary"), details: q.Has("details")}
		if text := q.Get("sync_timeout"); q.Has("sync_timeout") {
			n, err := strconv.Atoi(text)
			if err != nil {
				x.fault = &Error{Message: fmt.Sprintf("sync_timeout=%q is not a number of milliseconds", text)}
			}
			x.timeouts = n > 0
		}
		return x
	}
}

// Error is the reason why a whole request is refused.
type Error struct{ Message, Details string }

func (e *Error) Error() string {
	if e.Details == "" {
		return e.Message
	}
	return e.Message + ": " + e.Details
}

func (x *request) Protocol() string { return ProtocolHTTP }

func (x *request) Check() error { return x.fault }

// Parse adds the data points of a body to a batch: one object, or an array of them.
func (x *request) Parse(body []byte, b *batch.Batch) error {
	b.SetLabels(appendFields)
	s := &scanner{text: body}
	switch s.peek() {
	case 0:
		return &Error{Message: "Missing request content"}
	case '{':
		if err := x.parsePoint(s, b); err != nil {
			return err
		}
	case '[':
		if err := x.parseArray(s, b); err != nil {
			return err
		}
	default:
		return &Error{Message: "The JSON must start as an object or an array"}
	}
	if s.peek() != 0 || s.at < len(body) {
		return malformed(s.failf("more text after the data points"))
	}
	return nil
}

func malformed(err error) error {
	return &Error{Message: "Unable to parse the given JSON", Details: err.Error()}
}

func (x *request) parseArray(s *scanner, b *batch.Batch) error {
	s.at++
	for first := true; ; {
		before := first
		more, err := s.next(']', &first)
		switch {
		case err != nil:
			return malformed(err)
		case !more && before:
			return &Error{Message: "No datapoints found in content"}
		case !more:
			return nil
		}
		if err := x.parsePoint(s, b); err != nil {
			return err
		}
	}
}

// parsePoint adds one data point to a batch, or counts it as bad.
func (x *request) parsePoint(s *scanner, b *batch.Batch) (err error) {
	if s.peek() == 'n' && bytes.HasPrefix(s.text[s.at:], []byte("null")) {
		s.at += len("null")
		x.refuse(argument("Unexpected null datapoint encountered in set."), nil, b)
		return nil
	}
	if err := x.point.read(s); err != nil {
		return malformed(err)
	}
	var fault error
	if x.key, fault, err = x.point.store(x.kind, x.names, x.key, b); err != nil {
		return err
	}
	if fault != nil {
		x.refuse(fault, &x.point, b)
	}
	return nil
}

// refuse counts a bad data point.
func (x *request) refuse(fault error, d *document, b *batch.Batch) {
	x.count++
	reason, text := reasonOf(fault), fault.Error()
	if reason == ingest.ReasonNotNumeric && x.kind != kindHistogram {
		text = "Unable to parse value to a number"
	}
	if x.details && len(x.bad) < detailsMax {
		at := detail{Datapoint: (*shown)(nil), Error: text}
		if d != nil {
			at.Datapoint = d.shown()
		}
		x.bad = append(x.bad, at)
	}
	example := text
	if d != nil {
		example = fmt.Sprintf("data point of metric %q: %s", clip(d.metric), text)
	}
	b.Reject(batch.Rejection{Count: 1, Reason: reason, Detail: example})
}

// summary is the response to a request with the parameter summary or details.
type summary struct {
	Errors   *[]detail `json:"errors,omitempty"`
	Failed   int       `json:"failed"`
	Success  int       `json:"success"`
	Timeouts *int      `json:"timeouts,omitempty"`
}

// Respond says how many data points were stored.
func (x *request) Respond(result *ingest.Result) receiver.Response {
	status := http.StatusOK
	if result.Rejected > 0 {
		status = http.StatusBadRequest
	}
	if !x.summary && !x.details {
		if status == http.StatusOK {
			return receiver.Response{Status: http.StatusNoContent}
		}
		return Failure(status, "One or more data points had errors",
			"Please see the TSD logs or append \"details\" to the put request")
	}
	out := summary{Failed: result.Rejected, Success: result.Accepted + result.Histograms}
	if x.timeouts {
		out.Timeouts = new(int)
	}
	if x.details {
		list := append([]detail{}, x.bad...)
		if result.Rejected > x.count { // the writer rejected some data points
			list = append(list, detail{Error: Refused(result, x.count)})
		}
		out.Errors = &list
	}
	return JSON(status, out)
}

// Refused returns the error for data points that the writer rejects.
func Refused(result *ingest.Result, bad int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d data points are not stored", result.Rejected-bad)
	sep := ": "
	for _, reason := range slices.Sorted(maps.Keys(result.Reasons)) {
		if reason != ingest.ReasonMalformedLine && reason != ingest.ReasonNotNumeric {
			fmt.Fprintf(&b, "%s%s: %d", sep, reason, result.Reasons[reason])
			sep = ", "
		}
	}
	if bad == 0 {
		b.WriteString("; first: " + strings.ReplaceAll(result.First, "\n", " "))
	}
	return b.String()
}

// Refuse is an error in OpenTSDB's JSON.
func (x *request) Refuse(status int, err error) receiver.Response {
	var own *Error
	if errors.As(err, &own) {
		return Failure(status, own.Message, own.Details)
	}
	return Failure(status, err.Error(), "")
}

// Failure is an error in OpenTSDB's JSON. details may be "".
func Failure(status int, message, details string) receiver.Response {
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Details string `json:"details,omitempty"`
	}
	return JSON(status, map[string]failure{"error": {status, message, details}})
}

// JSON is a document as a response.
func JSON(status int, v any) receiver.Response {
	body, err := json.Marshal(v)
	if err != nil {
		body = []byte(`{}`) // strings and numbers always encode
	}
	return receiver.Response{Status: status, Type: "application/json; charset=UTF-8", Body: body}
}
