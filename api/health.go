package api

import (
	"errors"
	"fmt"
	"net/http"

	"halite/storage"
)

// healthy answers /-/healthy: 200 while the process answers requests, 503 once only a new start helps. It says nothing about
// readiness.
func (s *Server) healthy(w http.ResponseWriter, r *http.Request) {
	if err := s.refusing(); errors.Is(err, storage.ErrFailed) {
		s.text(w, r, http.StatusServiceUnavailable, fmt.Sprintf("Service Unavailable: %s\n", err))
		return
	}
	s.text(w, r, http.StatusOK, s.opts.Build.Name+" is Healthy.\n")
}

// ready answers /-/ready: 200 while requests can be served and writes are taken, else 503 with the reason.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	state := s.opts.Ready()
	if err := s.refusing(); state.Ready && err != nil {
		state.Ready, state.Reason = false, "writes are refused, reads are answered: "+err.Error()
	}
	if state.Ready {
		s.text(w, r, http.StatusOK, s.opts.Build.Name+" is Ready.\n")
		return
	}
	setStopping(w, state)
	s.setRetryAfter(w, state.RetryAfter)
	s.text(w, r, http.StatusServiceUnavailable, fmt.Sprintf("Service Unavailable: %s\n", state.Reason))
}

// refusing returns why writes are refused at present, or nil.
func (s *Server) refusing() error {
	if s.opts.Refusing == nil {
		return nil
	}
	return s.opts.Refusing()
}

// text answers in plain words; a HEAD request gets the header only.
func (s *Server) text(w http.ResponseWriter, r *http.Request, code int, message string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		// A failed write means that the client is gone; nobody is left to tell.
		_, _ = w.Write([]byte(message))
	}
}
