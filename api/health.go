package api

import (
	"fmt"
	"net/http"
)

// healthy answers /-/healthy: the process answers requests. It says nothing about readiness.
func (s *Server) healthy(w http.ResponseWriter, r *http.Request) {
	s.text(w, r, http.StatusOK, s.opts.Build.Name+" is Healthy.\n")
}

// ready answers /-/ready: 200 once requests can be served, until then 503 with the reason.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	state := s.opts.Ready()
	if state.Ready {
		s.text(w, r, http.StatusOK, s.opts.Build.Name+" is Ready.\n")
		return
	}
	setStopping(w, state)
	s.setRetryAfter(w, state.RetryAfter)
	s.text(w, r, http.StatusServiceUnavailable, fmt.Sprintf("Service Unavailable: %s\n", state.Reason))
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
