package api

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"halite/api/netlimit"
)

// recorder notes what a handler sent.
type recorder struct {
	http.ResponseWriter
	code  int // 0 until the header was sent
	bytes int64
}

func (w *recorder) WriteHeader(code int) {
	// 1xx answers are not final.
	if w.code == 0 && code >= http.StatusOK {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// countingBody counts the bytes that are read of a request body, and ends a body that makes no progress.
type countingBody struct {
	io.ReadCloser
	bytes   int64
	control *http.ResponseController
	stall   time.Duration
	end     time.Time // of the whole body
}

func (b *countingBody) Read(p []byte) (int, error) {
	deadline := time.Now().Add(b.stall)
	if deadline.After(b.end) {
		deadline = b.end
	}
	_ = b.control.SetReadDeadline(deadline) // fails only in tests without a connection
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	if err != nil {
		// After the body net/http reads on to learn that the client is gone. That has no deadline.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// instrument counts and times requests of the endpoint called name. Its metrics appear with its first request, so that
// endpoints nobody uses cost no series.
func (s *Server) instrument(name string, next http.Handler) http.Handler {
	m := s.metrics
	used := sync.OnceValue(func() endpointMetrics { return m.endpoint(name) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		m.inFlight.Inc()
		rec := &recorder{ResponseWriter: w}
		body := &countingBody{
			ReadCloser: r.Body, control: http.NewResponseController(w), stall: s.opts.Limits.BodyStallTimeout,
			end: began.Add(netlimit.BodyReadTimeout),
		}
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = body
		}
		defer func() {
			m.inFlight.Dec()
			code := rec.code
			if code == 0 {
				code = http.StatusOK
			}
			e := used()
			if code == http.StatusOK {
				e.ok.Inc()
			} else {
				m.requests.WithLabelValues(name, strconv.Itoa(code)).Inc()
			}
			e.duration.Observe(time.Since(began).Seconds())
			e.requestBytes.Add(float64(body.bytes))
			e.responseBytes.Add(float64(rec.bytes))
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(rec, r)
	})
}

// guard turns a panic into a 500, or breaks the connection if the answer has begun, so that no client takes half an
// answer for a whole one.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			s.metrics.panics.Inc()
			s.opts.Logger.Error("panic while answering a request", "method", r.Method, "path", r.URL.Path,
				"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			if rec.code != 0 {
				panic(http.ErrAbortHandler)
			}
			s.respondError(rec, &apiError{
				typ: errInternal, err: errors.New("unexpected error while answering; the server's log has the details"),
			})
		}()
		next.ServeHTTP(rec, r)
	})
}

// whenReady passes requests on once the server is ready.
func (s *Server) whenReady(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := s.opts.Ready()
		if state.Ready {
			next.ServeHTTP(w, r)
			return
		}
		s.metrics.rejected.WithLabelValues(name, rejectNotReady).Inc()
		setStopping(w, state)
		s.respondError(w, &apiError{
			typ: errUnavailable, err: errors.New("service unavailable: " + state.Reason), retryAfter: state.RetryAfter,
		})
	})
}

// setStopping tells, as Prometheus does, a server that starts from one that stops.
func setStopping(w http.ResponseWriter, state Readiness) {
	w.Header().Set("X-Prometheus-Stopping", strconv.FormatBool(state.Stopping))
}

// setRetryAfter says when to come back. Without a time of its own it draws one, so that many clients spread out.
func (s *Server) setRetryAfter(w http.ResponseWriter, d time.Duration) {
	if d <= 0 {
		l := &s.opts.Limits
		d = l.RetryAfterMin + rand.N(l.RetryAfterMax-l.RetryAfterMin+1)
	}
	seconds := (d + time.Second - 1) / time.Second
	w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
}

// setCORS lets a browser's page of an allowed origin read the answer.
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

// sameOrigin refuses requests that change something when a browser sends them for a page of another origin. Programs
// that are not browsers do not send the headers it looks at.
func (s *Server) sameOrigin(name string, next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := protection.Check(r); err != nil && !s.allowedOrigin(r) {
			s.metrics.rejected.WithLabelValues(name, rejectOrigin).Inc()
			s.respondError(w, &apiError{typ: errBadData, status: http.StatusForbidden, err: err})
			return
		}
		next.ServeHTTP(w, r)
	})
}
