package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"halite/api/netlimit"
	"halite/api/receiver"
	"halite/api/remote"
	"halite/api/senders"
	"halite/ingest"
	"halite/storage"
)

// WritePath accepts remote write, and so does PushPath, its path in Mimir and Cortex.
const (
	WritePath = "/api/v1/write"
	PushPath  = "/api/v1/push"
)

// ImportPath accepts JSON lines, ImportCSVPath rows of comma-separated values.
const (
	ImportPath    = "/api/v1/import"
	ImportCSVPath = "/api/v1/import/csv"
)

// writeError is the reason why a write request failed. A sender drops the data on 4xx and sends it again on 5xx. Responses are
// plain text, because senders log them.
type writeError struct {
	apiError
	reason string // for the list of senders
	// counted is set if the writer has counted the failure. Otherwise tsdb_http_rejected_total counts it.
	counted bool
}

func writeFailure(code int, reason string, err error) *writeError {
	return &writeError{apiError: apiError{status: code, err: err}, reason: reason}
}

func countedFailure(code int, reason string, err error) *writeError {
	f := writeFailure(code, reason, err)
	f.counted = true
	return f
}

func overloaded(err error) *writeError {
	return writeFailure(http.StatusServiceUnavailable, rejectOverload, err)
}

// remoteWrite answers /api/v1/write: remote write 1.0 and 2.0. Only the header Content-Type distinguishes them, as the
// specification requires. Responses to senders of 2.0 report how much was written, even after errors.
func (s *Server) remoteWrite(w http.ResponseWriter, r *http.Request) {
	message, failure := writeMessage(r.Header)
	if failure != nil {
		s.refuseWrite(w, r, failure)
		return
	}
	version, v2 := ingest.V1, message == remote.MessageV2
	if v2 {
		version = ingest.V2
	}
	result, failure := s.storeBody(r, r.Body, r.ContentLength, func(body []byte) (ingest.Result, error) {
		return s.opts.Writer.Write(r.Context(), ingest.Input{Body: body, Version: version})
	})
	if v2 {
		setWritten(w.Header(), result)
	}
	if failure != nil {
		s.refuseWrite(w, r, failure)
		return
	}
	status := http.StatusNoContent
	if result.Rejected > 0 || v2 && result.First != "" {
		status = http.StatusBadRequest
	}
	s.noteWrite(r, senders.RemoteWrite(r), status, &result)
	if status == http.StatusBadRequest {
		http.Error(w, result.Summary(), status)
		return
	}
	w.WriteHeader(status)
}

// noteWrite adds a stored request to the list of senders. The server may have stored only part of the request.
func (s *Server) noteWrite(r *http.Request, protocol string, status int, result *ingest.Result) {
	s.opts.Senders.Add(r, &senders.Outcome{
		Protocol: protocol, Status: status, Example: result.First, Samples: result.Reasons, Omitted: result.Omitted,
		NewestMs: result.NewestMs,
		Accepted: senders.Counts{
			Samples: uint64(result.Accepted), Histograms: uint64(result.Histograms), Exemplars: uint64(result.Exemplars),
		},
		Dropped: senderCounts(result.Dropped), Deduplicated: senderCounts(result.Deduplicated),
	})
}

func senderCounts(c ingest.Counts) senders.Counts {
	return senders.Counts{Samples: uint64(c.Samples), Histograms: uint64(c.Histograms), Exemplars: uint64(c.Exemplars)}
}

// writeMessage returns the message that the headers of a request announce.
func writeMessage(h http.Header) (remote.Message, *writeError) {
	message, err := remote.WriteMessage(h.Get("Content-Type"))
	if err != nil {
		return "", writeFailure(http.StatusUnsupportedMediaType, rejectContentType, err)
	}
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "snappy") {
		return "", writeFailure(http.StatusUnsupportedMediaType, rejectEncoding, fmt.Errorf(
			"%s encoding (compression) is not accepted by this server; only snappy is acceptable", enc))
	}
	return message, nil
}

// setWritten sets the headers in which 2.0 reports the number of samples written. Samples that the server drops on purpose
// count as written, so the sender sees no loss. After a failure the Result is zero.
func setWritten(h http.Header, r ingest.Result) {
	written := ingest.Counts{Samples: r.Accepted, Histograms: r.Histograms, Exemplars: r.Exemplars}
	written = written.Plus(r.Dropped).Plus(r.Deduplicated)
	h.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(written.Samples))
	h.Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(written.Histograms))
	h.Set("X-Prometheus-Remote-Write-Exemplars-Written", strconv.Itoa(written.Exemplars))
}

func (s *Server) refuseWrite(w http.ResponseWriter, r *http.Request, failure *writeError) {
	s.noteRefusal(w, r, WritePath, senders.RemoteWrite(r), failure)
	http.Error(w, failure.err.Error(), failure.status)
}

// noteRefusal counts and logs a refused write request, and sets the time after which the client retries.
func (s *Server) noteRefusal(w http.ResponseWriter, r *http.Request, path, protocol string, failure *writeError) {
	if !failure.counted {
		s.metrics.rejected.WithLabelValues(path, failure.reason).Inc()
	}
	s.opts.Senders.Refuse(r, protocol, failure.status, failure.reason, failure.err)
	switch failure.status {
	case http.StatusServiceUnavailable:
		s.setRetryAfter(w, failure.retryAfter)
	case http.StatusInternalServerError:
		s.opts.Logger.Error("a write failed", "protocol", protocol, "err", failure.err)
	}
}

// storeBody reads body, which has sizeBytes, or any size if that is negative. It passes the bytes to write. They count against
// Limits.WriteInflightBytesMax until storeBody returns. The writer limits concurrency.
func (s *Server) storeBody(
	r *http.Request, body io.Reader, sizeBytes int64, write func(body []byte) (ingest.Result, error),
) (result ingest.Result, failure *writeError) {
	limits := &s.opts.Limits
	if sizeBytes > limits.WriteBytesMax {
		return result, bodyFailure(remote.ErrBodyTooLarge, limits.WriteBytesMax)
	}
	counted := max(sizeBytes, 0)
	if err := s.acquireBody(r.Context(), counted); err != nil {
		return result, overloaded(remote.ErrBodyMemory)
	}
	defer func() { s.writeBytes.Release(counted) }()
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	err := remote.ReadBody(body, buf, sizeBytes, limits.WriteBytesMax, func(moreBytes int64) bool {
		ok := s.writeBytes.TryAcquire(moreBytes)
		if ok {
			counted += moreBytes
		}
		return ok
	})
	if err != nil {
		return result, bodyFailure(err, limits.WriteBytesMax)
	}
	return s.store(*buf, write)
}

// store passes bytes to write, unless the same bytes have made the writer panic too often.
func (s *Server) store(body []byte, write func(body []byte) (ingest.Result, error)) (ingest.Result, *writeError) {
	if s.crashLoops.Refuses(body) {
		return ingest.Result{}, writeFailure(http.StatusBadRequest, rejectCrashLoop, fmt.Errorf(
			"this request failed unexpectedly %d times; it is dropped so that the following requests can be stored", receiver.PanicsMax))
	}
	done := false
	defer func() {
		if !done {
			s.crashLoops.Add(body)
		}
	}()
	result, err := write(body)
	done = true
	if err != nil {
		return ingest.Result{}, classifyWrite(err)
	}
	return result, nil
}

// bodyFailure gives a failure to read a body its status. A slow sender should send again.
func bodyFailure(err error, bytesMax int64) *writeError {
	switch {
	case errors.Is(err, remote.ErrBodyTooLarge):
		return writeFailure(http.StatusRequestEntityTooLarge, rejectTooLarge,
			fmt.Errorf("request body exceeds the %d bytes limit", bytesMax))
	case errors.Is(err, remote.ErrBodyMemory):
		return overloaded(err)
	}
	return writeFailure(receiver.BodyStatus(err), rejectBody, fmt.Errorf("reading the request body: %w", err))
}

// acquireBody takes n bytes of the memory for bodies. While it waits, it ends bodies of slow clients.
func (s *Server) acquireBody(ctx context.Context, n int64) error {
	if s.writeBytes.TryAcquire(n) {
		return nil // first try without a timer, which costs two allocations
	}
	ctx, stop := context.WithTimeout(ctx, s.opts.Limits.WriteQueueWait)
	defer stop()
	go netlimit.EndSlowBodies(ctx)
	return s.writeBytes.Acquire(ctx, n)
}

// classifyWrite gives the writer's errors their status. An unknown error gets a 5xx, so that the sender tries again.
func classifyWrite(err error) *writeError {
	var (
		bad      *ingest.BadRequestError
		overload *ingest.OverloadError
	)
	switch {
	case errors.As(err, &bad):
		return countedFailure(http.StatusBadRequest, senders.ReasonMalformed, err)
	case errors.Is(err, ingest.ErrTooLarge):
		return countedFailure(http.StatusRequestEntityTooLarge, senders.ReasonTooLarge, err)
	case errors.As(err, &overload):
		f := countedFailure(http.StatusServiceUnavailable, senders.ReasonOverload, err)
		f.retryAfter = overload.RetryAfter
		return f
	case errors.Is(err, ingest.ErrClosed), errors.Is(err, storage.ErrUnavailable), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return countedFailure(http.StatusServiceUnavailable, senders.ReasonUnavailable, err)
	}
	return countedFailure(http.StatusInternalServerError, senders.ReasonInternal, err)
}
