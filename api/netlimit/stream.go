package netlimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// streamSliceBytes bounds the part of a response that a client of HTTP/2 must read within the send timeout.
const streamSliceBytes = 16 << 10

// stream is a response of HTTP/2. A client may leave it unread by flow control and still read the connection. So each response
// has deadlines of its own.
type stream struct {
	http.ResponseWriter
	limiter *Limiter
	writing atomic.Int64 // Unix time in ns at which the current write began; 0 if there is none

	mu      sync.Mutex // guards the fields below and the deadline
	control *http.ResponseController
	ended   bool // by End
	done    bool // the handler has returned
}

// limitStreams gives each response of HTTP/2 its deadlines. A connection of HTTP/1 counts as idle from the end of its handler on.
// Then net/http waits for the rest of the body, if the handler has not read all of it.
func (c *Limiter) limitStreams(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			if conn, ok := r.Context().Value(connKey{}).(*Conn); ok {
				conn.setState(http.StateIdle)
			}
			return
		}
		s := &stream{ResponseWriter: w, limiter: c, control: http.NewResponseController(w)}
		defer s.finish()
		next.ServeHTTP(s, r.WithContext(context.WithValue(r.Context(), connKey{}, s)))
	})
}

// Unwrap lets http.ResponseController set the deadlines of reads.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Slow reports whether the client has taken longer than Options.SlowAfter for a part of the response.
func (s *stream) Slow() bool { return slowSince(s.writing.Load(), s.limiter.opts.SlowAfter) }

// End makes the current write, and all later ones, fail.
func (s *stream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.done {
		return
	}
	s.ended = true
	s.limiter.metrics.ended.WithLabelValues(endedMemory).Inc()
	_ = s.control.SetWriteDeadline(time.Unix(1, 0)) // an error means that the stream is closed already
}

// Write implements http.ResponseWriter.
func (s *stream) Write(p []byte) (n int, err error) {
	defer s.pause()
	for n < len(p) && err == nil {
		part := p[n:min(n+streamSliceBytes, len(p))]
		err = s.within(func() error {
			m, err := s.ResponseWriter.Write(part)
			n += m
			return err
		})
	}
	return n, err
}

// FlushError sends what is buffered. http.ResponseController calls it.
func (s *stream) FlushError() error {
	defer s.pause()
	return s.within(s.control.Flush)
}

// within runs a write that fails after the send timeout.
func (s *stream) within(write func() error) error {
	timeout := s.limiter.opts.SendTimeout
	began := time.Now()
	s.writing.Store(began.UnixNano())
	if s.setDeadline(began.Add(timeout)) {
		return errEnded
	}
	err := write()
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return errEnded
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.limiter.metrics.ended.WithLabelValues(endedStall).Inc()
		return fmt.Errorf("%w within %s (web.send-timeout)", errStalled, timeout)
	}
	return err
}

// pause removes the deadline while the handler prepares the next part of the response.
func (s *stream) pause() {
	s.writing.Store(0)
	s.setDeadline(time.Time{})
}

// finish sets the deadline for the end of the response, which net/http sends after the handler.
func (s *stream) finish() {
	s.setDeadline(time.Now().Add(s.limiter.opts.SendTimeout))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
}

// setDeadline sets the deadline of the response unless End has ended it.
func (s *stream) setDeadline(at time.Time) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		_ = s.control.SetWriteDeadline(at) // an error means that the stream is closed already
	}
	return s.ended
}
