package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"halite/ingest"
	"halite/storage"
)

const (
	protobufType  = "application/x-protobuf"
	writeMessage1 = "prometheus.WriteRequest"
	writeMessage2 = "io.prometheus.write.v2.Request"
)

// writeError is why a write request failed, in the terms of the remote-write specification: a sender drops the data on
// 4xx and sends it again on 5xx. Answers are plain text, which is what senders log.
type writeError struct {
	apiError
	reason string // of tsdb_http_rejected_total; "" if the writer counted it
}

func writeFailure(code int, reason string, err error) *writeError {
	return &writeError{apiError: apiError{status: code, err: err}, reason: reason}
}

// remoteWrite answers /api/v1/write: remote write 1.0.
func (s *Server) remoteWrite(w http.ResponseWriter, r *http.Request) {
	result, failure := s.store(r)
	if failure != nil {
		if failure.reason != "" {
			s.metrics.rejected.WithLabelValues("/api/v1/write", failure.reason).Inc()
		}
		switch failure.status {
		case http.StatusServiceUnavailable:
			s.setRetryAfter(w, failure.retryAfter)
		case http.StatusInternalServerError:
			s.opts.Logger.Error("remote write failed", "err", failure.err)
		}
		http.Error(w, failure.err.Error(), failure.status)
		return
	}
	h := w.Header()
	h.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(result.Accepted))
	h.Set("X-Prometheus-Remote-Write-Histograms-Written", "0")
	h.Set("X-Prometheus-Remote-Write-Exemplars-Written", "0")
	if result.Rejected > 0 {
		http.Error(w, rejection(result), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// rejection tells a sender what of its request was not stored: the first case in full, the others by number.
func rejection(r ingest.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d samples rejected", r.Rejected, r.Rejected+r.Accepted)
	for i, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		sep := ", "
		if i == 0 {
			sep = " ("
		}
		fmt.Fprintf(&b, "%s%s: %d", sep, reason, r.Reasons[reason])
	}
	if len(r.Reasons) > 0 {
		b.WriteByte(')')
	}
	if r.First != "" {
		b.WriteString("; first: " + r.First)
	}
	return b.String()
}

// store checks, reads and stores a write request.
func (s *Server) store(r *http.Request) (ingest.Result, *writeError) {
	var none ingest.Result
	if err := checkWriteType(r.Header.Get("Content-Type")); err != nil {
		return none, writeFailure(http.StatusUnsupportedMediaType, rejectContentType, err)
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "snappy") {
		return none, writeFailure(http.StatusUnsupportedMediaType, rejectEncoding, fmt.Errorf(
			"%s encoding (compression) is not accepted by this server; only snappy is acceptable", enc))
	}
	body, release, failure := s.readBody(r, s.opts.Limits.WriteBytesMax)
	if failure != nil {
		return none, failure
	}
	defer release()

	waiting, stop := context.WithTimeout(r.Context(), s.opts.Limits.WriteQueueWait)
	defer stop()
	if err := s.writes.Acquire(waiting, 1); err != nil {
		return none, overloaded("too many write requests are being stored")
	}
	defer s.writes.Release(1)
	return s.writeOnce(r.Context(), body)
}

// writeOnce hands body to the writer, unless it made the writer panic before too often.
func (s *Server) writeOnce(ctx context.Context, body []byte) (result ingest.Result, failure *writeError) {
	if s.poison.banned(body) {
		return result, writeFailure(http.StatusBadRequest, rejectPoison, fmt.Errorf(
			"this request failed unexpectedly %d times; it is dropped so that those behind it are not held up", panicsMax))
	}
	done := false
	defer func() {
		if !done {
			s.poison.add(body)
		}
	}()
	result, err := s.opts.Writer.WriteRemote(ctx, body)
	done = true
	if err != nil {
		return ingest.Result{}, classifyWrite(err)
	}
	return result, nil
}

func overloaded(why string) *writeError {
	return writeFailure(http.StatusServiceUnavailable, rejectOverload, errors.New(why))
}

// classifyWrite gives the writer's errors their status. Everything unknown is worth another try, hence 5xx.
func classifyWrite(err error) *writeError {
	var (
		bad      *ingest.BadRequestError
		overload *ingest.OverloadError
	)
	switch {
	case errors.As(err, &bad):
		return writeFailure(http.StatusBadRequest, "", err)
	case errors.Is(err, ingest.ErrTooLarge):
		return writeFailure(http.StatusRequestEntityTooLarge, "", err)
	case errors.As(err, &overload):
		f := writeFailure(http.StatusServiceUnavailable, "", err)
		f.retryAfter = overload.RetryAfter
		return f
	case errors.Is(err, ingest.ErrClosed), errors.Is(err, storage.ErrUnavailable), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return writeFailure(http.StatusServiceUnavailable, "", err)
	}
	return writeFailure(http.StatusInternalServerError, "", err)
}

// checkWriteType accepts the message of remote write 1.0, which is also meant when the header or its proto parameter is
// absent.
func checkWriteType(contentType string) error {
	if contentType == "" {
		return nil
	}
	parts := strings.Split(contentType, ";")
	if media := strings.TrimSpace(parts[0]); !strings.EqualFold(media, protobufType) {
		return fmt.Errorf("content type %q is not accepted by this server; only %s;proto=%s is acceptable",
			media, protobufType, writeMessage1)
	}
	for _, part := range parts[1:] {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("content type %q has a parameter without a value: %q", contentType, part)
		}
		if !strings.EqualFold(strings.TrimSpace(name), "proto") {
			continue
		}
		switch value = strings.Trim(strings.TrimSpace(value), `"`); value {
		case writeMessage1:
		case writeMessage2:
			return fmt.Errorf("%s protobuf message is not accepted by this server; only accepts %s", value, writeMessage1)
		default:
			return fmt.Errorf("unknown type for remote write protobuf message %s, supported: %s", value, writeMessage1)
		}
	}
	return nil
}
